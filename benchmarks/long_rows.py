"""Reductions along rows on a GPU, several layouts of each, by the referee's clock against eager and compile.

Writes ``long_rows.json`` into the folder that ``$WORKBENCH_RECEIPTS`` names, as it goes on; stops when
``--seconds`` are over and says what it did not come to.

Usage: ``python benchmarks/long_rows.py [--seconds 85] [--only softmax] [--dry]``; ``--dry`` writes and
compiles all kernels for an H100 and needs no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.playbook.problems import problem_of
from workbench.compile import compile_kernel
from workbench.model import H100, Case, Problem, TensorMeta, Vector
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse
from workbench.plan.steps import Plan
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import parse_vector

Shape = tuple[int, int]
Call = Callable[[dict[str, torch.Tensor]], torch.Tensor]

KEPT = "row_cache=registers grid_split=on single_pass=on threads_per_row=fit vector_width=4 "
VARIANTS = {
    "registers": KEPT + "block_size=fit",
    "registers 256": KEPT + "block_size=256",
    "registers 512": KEPT + "block_size=512",
    "registers 1024": KEPT + "block_size=1024",
    "registers streaming": KEPT + "block_size=fit stream_hints=on",
    "registers, a block for short rows": KEPT.replace("threads_per_row=fit ", "") + "block_size=fit",
    "registers, no split": KEPT.replace("grid_split=on", "grid_split=off") + "block_size=fit",
    "prefetch": KEPT + "block_size=fit prefetch=on",
    "prefetch 256": KEPT + "block_size=256 prefetch=on",
    "prefetch 512": KEPT + "block_size=512 prefetch=on",
    "prefetch 1024": KEPT + "block_size=1024 prefetch=on",
    "prefetch streaming": KEPT + "block_size=fit prefetch=on stream_hints=on",
    "prefetch fast": KEPT + "block_size=fit prefetch=on fast_math=on",
    "prefetch, clusters of 4": KEPT + "block_size=fit prefetch=on cluster=4",
    "prefetch, clusters of 8": KEPT + "block_size=fit prefetch=on cluster=8",
    "prefetch, clusters of 16": KEPT + "block_size=fit prefetch=on cluster=16",
    "clusters of 8 of 512": KEPT + "block_size=512 cluster=8",
    "shared, clusters of 8": KEPT.replace("registers", "shared") + "block_size=fit cluster=8",
    "shared": KEPT.replace("registers", "shared") + "block_size=fit",
    "shared 512": KEPT.replace("registers", "shared") + "block_size=512",
    "reread": KEPT.replace("registers", "reread") + "block_size=fit",
    "reread 256": KEPT.replace("registers", "reread") + "block_size=256",
    "together 256": "grid_split=on split_join=grid vector_width=4 block_size=256",
    "together 512": "grid_split=on split_join=grid vector_width=4 block_size=512",
    "together 1024": "grid_split=on split_join=grid vector_width=4 block_size=1024",
    "words 256": "grid_split=on split_join=words vector_width=4 block_size=256",
    "reread 512 four": KEPT.replace("registers", "reread") + "block_size=512 loads_in_flight=4",
}
LONG = ("registers", "prefetch", "prefetch 512", "prefetch streaming", "prefetch fast", "shared", "reread")
MIDDLE = ("registers", "registers 512", "prefetch", "prefetch 512", "registers streaming")
SHORT = ("registers", "registers 1024", "registers, a block for short rows", "registers streaming")
TOGETHER = (
    "prefetch, clusters of 8",
    "prefetch, clusters of 16",
    "clusters of 8 of 512",
    "shared, clusters of 8",
)
FEW = ("together 256", "words 256", "reread 256", "prefetch, clusters of 4", *TOGETHER)
ONE = ("reread 256", "reread", "together 256", "together 512", "together 1024")
ENDLESS = ("reread", *TOGETHER)


@dataclass(frozen=True)
class Op:
    """A function with the shapes it is timed at, each with the variants that are tried there."""

    call: Call
    shapes: tuple[tuple[Shape, tuple[str, ...]], ...]


def rms_norm(t: dict[str, torch.Tensor]) -> torch.Tensor:
    x = t["x"]
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


OPS = {
    "softmax": Op(
        lambda t: torch.softmax(t["x"], 1),
        (
            ((4096, 32768), LONG),
            ((4096, 4096), (*MIDDLE, "prefetch 256")),
            ((16, 16384), ("registers", "registers, no split", "reread 256")),
            ((4096, 1024), SHORT),
            ((64, 131072), FEW),
            ((1, 1048576), ONE),
            ((16, 131072), ONE),
            ((4, 1048576), ONE),
            ((4096, 393216), ENDLESS),
        ),
    ),
    "rms_norm": Op(rms_norm, (((8192, 4096), MIDDLE),)),
    "layer_norm": Op(lambda t: torch.nn.functional.layer_norm(t["x"], (4096,)), (((4096, 4096), MIDDLE),)),
    "log_softmax": Op(
        lambda t: torch.log_softmax(t["x"], 1),
        (((8192, 1000), SHORT), ((2048, 50257), ("reread", *TOGETHER))),
    ),
}


@dataclass(frozen=True)
class Kernel:
    """One variant at one shape, ready to be compiled."""

    op: str
    shape: Shape
    variant: str
    source: str
    plan: Plan


def problem(name: str, op: Op) -> Problem:
    """The op as the intake would open it, with all its shapes declared."""
    columns = op.shapes[0][0][1] if name == "layer_norm" else 5
    traced = problem_of(op.call, {"x": torch.randn(3, columns)}, name)
    cases = [
        Case(label="x".join(map(str, shape)), sizes=tuple(zip(traced.symbols, shape, strict=False)))
        for shape, _ in op.shapes
    ]
    return traced.model_copy(update={"cases": tuple(cases), "proofs": traced.cases})


def kernels(names: list[str]) -> list[Kernel]:
    """Every variant at every shape it is meant for."""
    found = []
    for name in names:
        made = problem(name, OPS[name])
        sources: dict[str, str] = {}
        for shape, variants in OPS[name].shapes:
            meta = TensorMeta(dtype="f32", shape=shape, strides=(shape[1], 1))
            for variant in variants:
                if variant not in sources:
                    sources[variant] = generate(made, _vector(VARIANTS[variant])).kernel.source
                plan = interpret(parse(sources[variant]), {"x": meta}, H100)
                found.append(Kernel(name, shape, variant, sources[variant], plan))
    return found


def _vector(words: str) -> Vector:
    return parse_vector(words)


def compiled(found: list[Kernel]) -> dict[tuple[str, Shape, str], Any]:
    """Resources of every kernel; the cubins wait in the cache."""
    with ThreadPoolExecutor(8) as pool:
        reports = list(pool.map(lambda one: compile_kernel(one.source, one.plan.instances), found))
    return {(k.op, k.shape, k.variant): report for k, report in zip(found, reports, strict=True)}


class Receipt:
    """A dict on disk, rewritten at every change."""

    def __init__(self) -> None:
        folder = Path(os.environ.get("WORKBENCH_RECEIPTS") or tempfile.mkdtemp())
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "long_rows.json"
        self.values: dict[str, Any] = {"what": __doc__.splitlines()[0], "rows": [], "missing": []}

    def write(self) -> None:
        self.path.write_text(json.dumps(self.values, indent=1, default=str))


def run(found: list[Kernel], reports: dict[tuple[str, Shape, str], Any], seconds: float) -> None:
    """Time all of them, the first of every shape beside eager too."""
    started = time.monotonic()
    receipt = Receipt()
    receipt.values |= {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    baselines: dict[tuple[str, Shape], Any] = {}
    for one in found:
        if time.monotonic() - started > seconds:
            receipt.values["missing"].append([one.op, one.shape, one.variant])
            continue
        row: dict[str, Any] = {"op": one.op, "shape": one.shape, "variant": one.variant}
        row["launches"] = [
            [step.kernel, step.grid, step.block, step.cluster, step.shared_bytes]
            for step in one.plan.launches
        ]
        report = reports[one.op, one.shape, one.variant]
        row["registers"] = [k.registers for k in getattr(report, "kernels", ())]
        try:
            key = (one.op, one.shape)
            if key not in baselines:
                baselines.clear()
                torch.cuda.empty_cache()
                baselines[key] = _contest(one)
            row |= _timed(one, baselines[key])
        except Exception as error:
            row["failed"] = f"{type(error).__name__}: {str(error)[:300]}"
        receipt.values["rows"].append(row)
        receipt.write()
        print(_line(row), flush=True)
    receipt.values["seconds"] = time.monotonic() - started
    receipt.write()
    if failed := [row for row in receipt.values["rows"] if "failed" in row or not row["close"]]:
        raise SystemExit(f"{len(failed)} of {len(receipt.values['rows'])} kernels failed or are wrong")


@dataclass
class _Contest:
    sets: tuple[dict[str, torch.Tensor], ...]
    call: Call
    fast: Callable[[torch.Tensor], torch.Tensor]
    right: torch.Tensor
    first: bool = True


def _contest(one: Kernel) -> _Contest:
    from workbench.referee.clock.options import INTERACTIVE
    from workbench.referee.clock.rotation import rotated

    call = OPS[one.op].call
    x = torch.randn(one.shape, device="cuda")
    torch._dynamo.reset()
    fast = torch.compile(lambda x: call({"x": x}), dynamic=False)
    with torch.no_grad():
        fast(x)
        right = call({"x": x})
    return _Contest(rotated({"x": x}, INTERACTIVE), call, fast, right)


def _timed(one: Kernel, contest: _Contest) -> dict[str, Any]:
    from workbench.gpu.kernels import load
    from workbench.gpu.runner import PlanRunner
    from workbench.live.gpu_calls import architecture
    from workbench.referee.clock.measure import measure
    from workbench.referee.clock.options import INTERACTIVE

    sets = contest.sets
    runner = PlanRunner(one.plan, load(one.source, [one.plan], architecture(sets[0]["x"].get_device())))
    got = runner(sets[0])[0]
    close = torch.allclose(got, contest.right, rtol=2e-5, atol=1e-6)
    del got
    rivals: dict[str, Any] = {"compile": lambda turn: (contest.fast(sets[turn % len(sets)]["x"]),)}
    if contest.first:
        rivals["eager"] = lambda turn: (contest.call(sets[turn % len(sets)]),)
        contest.first = False
    timing = measure(
        "x".join(map(str, one.shape)), lambda turn: runner(sets[turn % len(sets)]), rivals, INTERACTIVE
    )
    moved = 8 * one.shape[0] * one.shape[1]
    return {
        "close": close,
        "us": timing.time_us,
        "tb_s": moved / timing.time_us * 1e-6,
        "clock": timing.measured.clock,
        "rivals": [[r.name, r.time_us, r.ratio, r.verdict] for r in timing.measured.rivals],
        "suspicion": timing.measured.suspicion,
        "seconds": timing.seconds,
    }


def _line(row: dict[str, Any]) -> str:
    head = f"{row['op']:<12}{row['shape'][0]:>5}x{row['shape'][1]:<8}{row['variant']:<34}"
    if "failed" in row:
        return head + row["failed"]
    rivals = ", ".join(f"{name} {us:.1f} ({ratio:.3f})" for name, us, ratio, _ in row["rivals"])
    wrong = "" if row["close"] else "  WRONG"
    return f"{head}{row['us']:>9.2f} us  {row['tb_s']:.2f} TB/s  {rivals}  {row['registers']}{wrong}"


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=85.0)
    parser.add_argument("--only", default=",".join(OPS))
    parser.add_argument("--dry", action="store_true")
    given = parser.parse_args()
    started = time.monotonic()
    found = kernels(given.only.split(","))
    reports = compiled(found)
    print(f"{len(found)} kernels written and compiled in {time.monotonic() - started:.1f} s", flush=True)
    if given.dry:
        for one in found:
            report = reports[one.op, one.shape, one.variant]
            launches = [
                f"{step.kernel} {step.grid[0]}x{step.grid[1]}x{step.block[0]}" for step in one.plan.launches
            ]
            parts = [
                f"{k.registers} regs {k.spill_store_bytes} spilled" for k in getattr(report, "kernels", ())
            ]
            print(f"{one.op:<12}{one.shape!s:<18}{one.variant:<34}", launches, parts or report)
        return
    run(found, reports, given.seconds - (time.monotonic() - started))


if __name__ == "__main__":
    main()
