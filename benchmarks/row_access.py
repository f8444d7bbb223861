"""How rows of odd length and rows that lie side by side are read: counts, registers, predicted time. No GPU.

Generates each kernel in two layouts, asks NVRTC for its registers and the emulator, at a small size, for its
requests and sectors, and models the time at a real size; the table is in
docs/notes/2026-11-21-rows-in-memory.md. Run from the root:

    python benchmarks/row_access.py
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

from workbench.compile import compile_kernel
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import H100, Case, CompileReport, Problem
from workbench.numerics.inputs import draw
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import parse_vector
from workbench.playbook.techniques.table import settled
from workbench.problem.capture import read_file
from workbench.problem.intake import open_problem
from workbench.referee.librarymeta import library_meta

HEAD = (
    "| op, shape | layout | requests | sectors over the least | registers | predicted us |\n"
    "|---|---|---:|---:|---:|---:|"
)


@dataclass(frozen=True)
class Row:
    """An op as a reference's return expression, its real and its small shape, and the layouts to compare."""

    expression: str
    shape: tuple[int, ...]
    small: tuple[int, ...]
    layouts: tuple[str, ...]
    tensors: int = 2
    """Of the input's size, that are read or written once."""


KEPT = "row_cache=registers block_size=256"
ROWS = (
    Row("torch.argmax(x, 1)", (64, 50257), (4, 50257), ("vector_width=1", "vector_width=4"), 1),
    Row(
        "torch.softmax(x, 1)", (16384, 1089), (5, 1089), (f"{KEPT} vector_width=1", f"{KEPT} vector_width=4")
    ),
    Row(
        "torch.softmax(x, 1)",
        (32, 512, 1024),
        (2, 64, 64),
        ("threads_per_row=thread grid_split=on single_pass=on", f"{KEPT} threads_per_row=bundle"),
    ),
    Row(
        "torch.softmax(x.transpose(1, 2), 2)",
        (32, 512, 1024),
        (2, 64, 64),
        ("threads_per_row=thread grid_split=on single_pass=on", f"{KEPT} threads_per_row=bundle"),
    ),
    Row(
        "torch.softmax(x.permute(0, 3, 1, 2), 1)",
        (32, 56, 56, 256),
        (2, 8, 8, 64),
        (f"{KEPT} threads_per_row=warp vector_width=4", f"{KEPT} threads_per_row=bundle"),
    ),
)


def opened(row: Row) -> Problem:
    """The problem of a row, at its real shape."""
    source = f"import torch\n\ndef op(x):\n    return {row.expression}\n\ninputs = [torch.randn{row.shape}]\n"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "op.py"
        path.write_text(source)
        return open_problem(read_file(path))


def lines(row: Row) -> list[str]:
    """A line of the table a layout."""
    problem = opened(row)
    real, few = problem.cases[0], case_of(problem, row.small)
    found = []
    for layout in row.layouts:
        vector = settled(problem, parse_vector(layout))
        source = generate(problem, vector).kernel.source
        plan = interpret(parse(source), problem.metas(real), H100, library_meta)
        report = compile_kernel(source, plan.instances)
        assert isinstance(report, CompileReport), report
        plan = interpret(parse(source), problem.metas(few), H100, library_meta)
        tensors = draw(problem, few, "normal", 0)
        done = execute(
            plan, build(source, plan.instances, "checked"), tensors, Options(case=few.label)
        ).report
        assert done.counts is not None and not done.hazards
        sites = [site for site in done.counts.sites if site.space == "global"]
        least = math.prod(row.small) / 8 * row.tensors
        us = estimate(problem, vector, H100, real.size_map).us
        registers = max(kernel.registers for kernel in report.kernels)
        figures = f"{sum(site.requests for site in sites)} | {done.counts.sectors / least:.2f}"
        shape = "x".join(map(str, row.shape))
        found.append(f"| `{row.expression}` {shape} | {layout} | {figures} | {registers} | {us:.1f} |")
    return found


def case_of(problem: Problem, shape: tuple[int, ...]) -> Case:
    """The sizes of the symbols at a shape of ``x``."""
    dims = problem.tensors[0].dims
    sizes = {dim: size for dim, size in zip(dims, shape, strict=True) if isinstance(dim, str)}
    return Case(label="x".join(map(str, shape)), sizes=tuple(sizes.items()))


def main() -> None:
    """Print the table."""
    print(HEAD)
    for row in ROWS:
        print("\n".join(lines(row)), flush=True)


if __name__ == "__main__":
    main()
