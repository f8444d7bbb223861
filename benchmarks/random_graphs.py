"""Random graphs through the playbook: each kernel must agree with float64 on the emulator, without hazards.

Every graph, its inputs (types, strides) and its technique vector are drawn from a seed by graph_maker.py.
Kernels of many graphs are compiled as one text, each in a namespace of its own, because the emulator's
header costs more than most kernels; a batch runs in a process of its own. Usage, from the root:

    python benchmarks/random_graphs.py --count 500 --seed 1

Seeds from 3000000000 on begin with statistics of columns that several blocks share.
``--processes 16 --seconds 500`` runs batches side by side, one a core, and begins none after so long; the
receipt then says how many graphs it came to. Prints failures as they come; adds the run to
``random-graphs.json`` in ``benchmarks/receipts``, or in the folder ``$WORKBENCH_RECEIPTS`` names. One graph
again, with its kernel: ``--count 1 --seed N --show``.

A value may be wrong by a few roundings of its type. Where it is further off, the graph is run eleven more
times in float64 with every intermediate result moved by, or rounded to, its type, sums, products and scans
also step by step, and twice with every zero of one sign: what that changes, a right kernel may change too.
Such graphs are counted as ``sensitive``.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import os
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import torch  # noqa: E402
from graph_maker import TORCH, Sample, sample  # noqa: E402
from seed_batches import Rows, save_into, side_by_side, with_run  # noqa: E402
from torch import Tensor  # noqa: E402

from workbench.emulator import toolchain  # noqa: E402
from workbench.emulator.build import build  # noqa: E402
from workbench.emulator.execute import execute  # noqa: E402
from workbench.emulator.values import Module, Options  # noqa: E402
from workbench.errors import EmulatorBuildError  # noqa: E402
from workbench.model import H100, Arg, OpNode, Ref, Sym, TensorMeta, size_of  # noqa: E402
from workbench.plan.interpret import interpret  # noqa: E402
from workbench.plan.parse import parse  # noqa: E402
from workbench.plan.steps import Launch, Library, Plan  # noqa: E402
from workbench.playbook.generate import generate  # noqa: E402
from workbench.referee.librarymeta import library_meta  # noqa: E402

BATCH = 16
SAVED_EVERY_S = 5
ROUNDING = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24}
TINY = 2.0**-140
"""Neither zero nor, in float32, anything else that counts."""
DRAWS = 8
NAMES = {dtype: name for name, dtype in TORCH.items()}
_PLAN = re.compile(r"\A/\* plan.*?\*/", re.DOTALL)
_INCLUDE = re.compile(r"^#include .*$", re.MULTILINE)


@dataclass
class Outcome:
    """What came of one seed."""

    seed: int
    kinds: tuple[str, ...] = ()
    failure: str = ""
    """Stage and message; empty when all is well."""
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Written:
    """A sample with its kernel and the plan for its inputs."""

    sample: Sample
    source: str
    plan: Plan


# ------------------------------------------------------------------------------------ the reference


class Reference:
    """Runs a graph's nodes with torch in float64; ``noise`` moves every result by roundings of its type.

    ``rounds`` rounds every result to its type, as torch does: what is rounded to one side adds up. With an
    ``order`` sums, products and scans round after every step as well, one term after the other or in pairs
    of pairs: of many like terms each step is rounded to the same side. ``zeros`` is added to every result
    that is zero: the sign of a zero is anyone's choice, a minimum's over zeros of both signs too, and atan2
    hears it.
    """

    def __init__(
        self, drawn: Sample, noise: int = 0, rounds: bool = False, order: str = "", zeros: float = 0.0
    ) -> None:
        self.drawn = drawn
        self.zeros = zeros
        self.rounds = rounds
        self.order = order
        self.sizes = drawn.problem.cases[0].size_map
        self.noise = torch.Generator().manual_seed(noise) if noise else None
        self.values: dict[Ref, Tensor] = {}
        for name, tensor in drawn.tensors.items():
            self.values[Ref(ref=name)] = tensor.double() if tensor.is_floating_point() else tensor

    def outputs(self) -> tuple[Tensor, ...]:
        """The graph's outputs."""
        for node in self.drawn.problem.graph.nodes:
            self._node(node)
        return tuple(self.values[ref] for ref in self.drawn.problem.graph.outputs)

    def _node(self, node: OpNode) -> None:
        args = [self._arg(arg) for arg in node.args]
        kwargs = {name: self._arg(arg) for name, arg in node.kwargs}
        operation: Any = torch.ops
        for part in node.op.replace("aten.view.default", "aten.reshape.default").split("."):
            operation = getattr(operation, part)
        made = operation(*args, **kwargs)
        if self.order and node.op in STEPS:
            made = _stepped(self.order, node.op, args)
        results = (made,) if isinstance(made, Tensor) else tuple(made)
        for item, (out, result) in enumerate(zip(node.outs, results, strict=True)):
            moved = self._moved(result, TORCH[out.dtype])
            self.values[Ref(ref=node.name, item=item)] = moved
            if item == 0:
                self.values[Ref(ref=node.name)] = moved

    def _moved(self, value: Tensor, dtype: torch.dtype) -> Tensor:
        if not value.is_floating_point():
            return value
        if self.zeros:
            return torch.where(value == 0, self.zeros, value)
        if self.rounds:
            return value.to(dtype).double()
        if self.noise is None:
            return value
        draw = torch.rand(value.shape, generator=self.noise, dtype=torch.float64) * 2 - 1
        return value * (1 + 2 * ROUNDING.get(dtype, 0.0) * draw) + TINY * draw

    def _arg(self, arg: Arg) -> Any:
        match arg:
            case Ref():
                return self.values[arg]
            case Sym(sym=text):
                return size_of(text, self.sizes)
            case tuple():
                return [self._arg(item) for item in arg]
            case str() if arg in TORCH:
                return torch.float64 if arg in ("f16", "bf16", "f32") else TORCH[arg]
        return arg


REDUCED = {"aten.sum.dim_IntList": torch.add, "aten.prod.dim_int": torch.mul}
STEPS = {
    **REDUCED,
    "aten.cumsum.default": torch.add,
    "aten.cumprod.default": torch.mul,
    "aten.logcumsumexp.default": torch.logaddexp,
}


def _stepped(order: str, op: str, args: list[Any]) -> Tensor:
    """A sum, a product or a scan whose every step is rounded to float32, as a kernel's are."""
    terms, join = args[0].float(), STEPS[op]
    if op in REDUCED:
        given = args[1] if isinstance(args[1], list) else [args[1]]
        dims = [dim % terms.dim() for dim in given] or list(range(terms.dim()))
        kept = [dim for dim in range(terms.dim()) if dim not in dims]
        flat = terms.permute(*kept, *dims).reshape(*(terms.shape[dim] for dim in kept), -1)
        total = _scan(order, flat, join)[..., -1].double()
        return total.reshape(args[0].sum(args[1], len(args) > 2 and args[2]).shape)
    return _scan(order, terms.movedim(args[1], -1), join).movedim(-1, args[1]).double()


def _scan(order: str, terms: Tensor, join: Any) -> Tensor:
    """All prefixes along the last dimension, in float32."""
    if order == "serial":
        parts = [terms[..., 0]]
        for column in range(1, terms.shape[-1]):
            parts.append(join(parts[-1], terms[..., column]))
        return torch.stack(parts, -1)
    reach = 1
    while reach < terms.shape[-1]:
        terms = torch.cat([terms[..., :reach], join(terms[..., :-reach], terms[..., reach:])], -1)
        reach *= 2
    return terms


def difference(drawn: Sample, got: tuple[Tensor, ...]) -> tuple[str, bool]:
    """What is wrong with the outputs, empty for nothing; True when the graph is sensitive to roundings."""
    wanted = Reference(drawn).outputs()
    for number, (spec, mine, right) in enumerate(zip(drawn.problem.outputs, got, wanted, strict=True)):
        if mine.dtype != TORCH[spec.dtype] or mine.shape != right.shape:
            return (
                f"output {number}: {mine.dtype} {tuple(mine.shape)}, not {spec.dtype} {tuple(right.shape)}",
                False,
            )
    if all(bool((excess(mine, right) <= 0).all()) for mine, right in zip(got, wanted, strict=True)):
        return "", False
    others = [Reference(drawn, noise).outputs() for noise in range(1, DRAWS + 1)]
    others += [Reference(drawn, rounds=True, order=order).outputs() for order in ("", "serial", "pairs")]
    others += [Reference(drawn, zeros=zeros).outputs() for zeros in (TINY, -TINY)]
    for number, (mine, right) in enumerate(zip(got, wanted, strict=True)):
        over = excess(mine, right)
        near = [other[number] for other in others]
        if mine.is_floating_point():
            spread = torch.stack([(other - right).abs() for other in near]).amax(0)
            bad = over > 4 * spread.nan_to_num(nan=float("inf"))
        else:
            bad = (over > 0) & ~torch.stack([mine == other for other in near]).any(0)
        if bool(bad.any()):
            where = tuple(bad.nonzero()[0].tolist())
            return (
                f"output {number}{list(where)} is {mine[where].item()}, float64 says {right[where].item()}",
                True,
            )
    return "", True


def excess(got: Tensor, right: Tensor) -> Tensor:
    """How far each element is beyond the roundings that any order of float32 arithmetic would make."""
    if not got.is_floating_point():
        return (got != right).float()
    wide = got.double()
    same = torch.isfinite(right) == torch.isfinite(wide)
    finite = right.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).abs()
    scale = finite.mean().clamp(min=0.25) if finite.numel() else 1.0
    allowed = 2.0**-18 * (finite + scale) + 1.01 * ROUNDING.get(got.dtype, 2.0**-24) * finite
    error = (wide - right).abs().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    largest = torch.finfo(got.dtype).max
    beyond = torch.where(same, error - allowed, torch.full_like(error, float("inf")))
    return torch.where(finite > 0.99 * largest, torch.zeros_like(beyond), beyond)


# ------------------------------------------------------------------------------------ one text for many


def written(drawn: Sample) -> Written:
    """Generate the kernel and interpret its plan for the sample's inputs."""
    source = generate(drawn.problem, drawn.vector).kernel.source
    metas = {
        name: TensorMeta(dtype=NAMES[t.dtype], shape=tuple(t.shape), strides=tuple(t.stride()))  # type: ignore[arg-type]
        for name, t in drawn.tensors.items()
    }
    return Written(drawn, source, interpret(parse(source), metas, H100, library_meta))


def joined(parts: Iterable[Written]) -> tuple[str, list[tuple[Written, Plan]]]:
    """One text with a namespace for every kernel and set of macros, and the plans that launch from it."""
    includes: dict[str, None] = {}
    bodies: list[str] = []
    plans: list[tuple[Written, Plan]] = []
    for number, part in enumerate(parts):
        body = _PLAN.sub("", part.source)
        includes.update(dict.fromkeys(_INCLUDE.findall(body)))
        body = _INCLUDE.sub("", body)
        spaces: dict[tuple[tuple[str, str], ...], str] = {}
        steps: list[Any] = []
        for step in part.plan.steps:
            if isinstance(step, Launch):
                if step.consts not in spaces:
                    spaces[step.consts] = f"g{number}_{len(spaces)}"
                    defines = "".join(f"#define {name} {value}\n" for name, value in step.consts)
                    undefines = "".join(f"#undef {name}\n" for name, _ in step.consts)
                    space = spaces[step.consts]
                    bodies.append(
                        f"{defines}namespace {space} {{\n{body}\n}}  // namespace {space}\n{undefines}"
                    )
                kernel = f"{spaces[step.consts]}::{step.kernel}"
                step = step.model_copy(update={"kernel": kernel, "consts": ()})
            steps.append(step)
        plans.append((part, part.plan.model_copy(update={"steps": tuple(steps)})))
    return "\n".join([*includes, *bodies]), plans


def modules(parts: list[Written]) -> Iterator[tuple[Written, Plan, Module | None, str]]:
    """Every part with its plan and library; where the whole does not compile, part by part."""
    text, plans = joined(parts)
    instances = [instance for _, plan in plans for instance in plan.instances]
    if not instances:
        yield from (
            (part, plan, Module(mode="checked", binaries=(), seconds=0, cached=True), "")
            for part, plan in plans
        )
        return
    try:
        module = build(text, instances, "checked")
    except EmulatorBuildError as error:
        if len(parts) == 1:
            yield parts[0], plans[0][1], None, f"compile: {error.diagnostics[0].message}"
            return
        for part in parts:
            yield from modules([part])
        return
    yield from ((part, plan, module, "") for part, plan in plans)


# ------------------------------------------------------------------------------------ running


def quick_flags() -> tuple[str, ...]:
    """Half of the time of g++: what is checked are addresses and numbers, not speed."""
    return tuple("-O1" if flag == "-O2" else flag for flag in toolchain.FLAGS["checked"])


def batch(seeds: list[int]) -> list[Outcome]:
    """Draw, write, compile and run the graphs of some seeds."""
    outcomes = {seed: Outcome(seed) for seed in seeds}
    parts = []
    for seed in seeds:
        outcome = outcomes[seed]
        try:
            drawn = sample(seed)
            outcome.kinds = drawn.kinds
            outcome.facts = described(drawn)
            parts.append(written(drawn))
        except Exception as error:
            outcome.failure = f"write: {type(error).__name__}: {error} {_where(error)}"
    for part, plan, module, failure in modules(parts) if parts else ():
        outcome = outcomes[part.sample.seed]
        outcome.facts["library"] = [step.op for step in plan.steps if isinstance(step, Library)]
        outcome.facts["launches"] = len(plan.launches)
        outcome.failure = failure or _ran(part, plan, module, outcome)
    return list(outcomes.values())


def _ran(part: Written, plan: Plan, module: Module | None, outcome: Outcome) -> str:
    assert module is not None
    try:
        done = execute(plan, module, part.sample.tensors, Options(case="drawn", statistics=False, workers=1))
        if done.report.hazards:
            return f"hazard: {done.report.hazards[0].message}"
        if done.report.trap or done.report.unwritten:
            return f"hazard: {done.report.trap or 'elements that nobody wrote'}"
        wrong, outcome.facts["sensitive"] = difference(part.sample, done.outputs)
    except Exception as error:
        return f"run: {type(error).__name__}: {error} {_where(error)}"
    return f"numbers: {wrong}" if wrong else ""


def _where(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"({Path(frame.filename).name}:{frame.lineno})"


def described(drawn: Sample) -> dict[str, Any]:
    """What the receipt counts of a sample."""
    return {
        "dtypes": [spec.dtype for spec in drawn.problem.tensors],
        "strided": sum(spec.strides is not None for spec in drawn.problem.tensors),
        "tensors": len(drawn.problem.tensors),
        "varying": bool(drawn.problem.symbols),
        "shape": "x".join(str(n) for n in drawn.tensors["x"].shape),
        "nodes": [node.op for node in drawn.problem.graph.nodes],
    }


def rows(seeds: list[int]) -> Rows:
    """A batch as its process hands it on."""
    return [vars(outcome) for outcome in batch(seeds)]


# ------------------------------------------------------------------------------------ the receipt


def playbook_digest() -> str:
    """Names the code that was tested."""
    state = hashlib.sha256()
    for file in sorted((ROOT / "workbench" / "playbook").glob("*.py")):
        state.update(file.read_bytes())
    return state.hexdigest()[:12]


def receipt_path() -> Path:
    """Where the receipt lies."""
    folder = Path(os.environ.get("WORKBENCH_RECEIPTS", ROOT / "benchmarks" / "receipts"))
    return folder / "random-graphs.json"


class Tally:
    """Counts over one run."""

    def __init__(self, first: int, digest: str) -> None:
        self.started = time.monotonic()
        self.run: dict[str, Any] = {
            "date": datetime.now(UTC).strftime("%Y-%m-%d"), "playbook": digest, "first_seed": first,
            "graphs": 0, "launches": 0, "with_library_calls": 0, "sensitive": 0, "varying_sizes": 0,
            "inputs": 0, "strided_inputs": 0, "seconds": 0.0, "failures": [],
        }  # fmt: skip
        self.counts = {
            name: Counter[str]() for name in ("families", "operations", "dtypes", "ranks", "library")
        }
        self.shapes: set[str] = set()

    def add(self, outcome: Outcome) -> None:
        """Count one graph."""
        run, facts = self.run, outcome.facts
        run["graphs"] += 1
        run["launches"] += facts.get("launches", 0)
        run["with_library_calls"] += bool(facts.get("library"))
        run["sensitive"] += bool(facts.get("sensitive"))
        run["varying_sizes"] += bool(facts.get("varying"))
        run["inputs"] += facts.get("tensors", 0)
        run["strided_inputs"] += facts.get("strided", 0)
        run["seconds"] = round(time.monotonic() - self.started, 1)
        self.counts["families"].update(outcome.kinds)
        self.counts["operations"].update(facts.get("nodes", ()))
        self.counts["dtypes"].update(facts.get("dtypes", ()))
        self.counts["library"].update(facts.get("library", ()))
        if "shape" in facts:
            self.shapes.add(facts["shape"])
            self.counts["ranks"][str(facts["shape"].count("x") + 1)] += 1
        if outcome.failure:
            run["failures"].append({"seed": outcome.seed, "what": outcome.failure[:400]})

    @property
    def whole(self) -> dict[str, Any]:
        """The run as the receipt holds it."""
        counted = {name: dict(counter.most_common()) for name, counter in self.counts.items()}
        return {**self.run, "shapes": len(self.shapes), **counted}


def merged(receipt: Mapping[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    """The receipt with the run in it; a run that went on replaces what it left before."""
    runs = with_run(receipt, run)
    return {
        "what": "random graphs against float64 on the emulator, with the hazards it checks",
        "graphs": sum(one["graphs"] for one in runs),
        "failures": sum(len(one["failures"]) for one in runs),
        "runs": runs,
    }


def save(run: dict[str, Any]) -> None:
    """Write the run into the receipt."""
    save_into(receipt_path(), lambda before: merged(before, run))


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1, help="batches side by side, one a core")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no further batch after")
    parser.add_argument("--show", action="store_true", help="print graph, vector and kernel; no receipt")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    toolchain.FLAGS["checked"] = quick_flags()
    if asked.show:
        for seed in range(asked.seed, asked.seed + asked.count):
            show(seed)
        return 0
    tally = Tally(asked.seed, playbook_digest())
    seeds = list(range(asked.seed, asked.seed + asked.count))
    batches = [seeds[start : start + BATCH] for start in range(0, len(seeds), BATCH)]
    saved = time.monotonic()
    for outcomes in side_by_side(rows, batches, asked.processes, asked.seconds):
        for outcome in (Outcome(**row) for row in outcomes):
            tally.add(outcome)
            if outcome.failure:
                print(f"seed {outcome.seed}: {outcome.failure}", flush=True)
        if time.monotonic() > saved + SAVED_EVERY_S:
            save(tally.whole)
            saved = time.monotonic()
    save(tally.whole)
    run = tally.whole
    print(
        f"{run['graphs']} of {len(seeds)} graphs in {run['seconds']:.0f} s, {len(run['failures'])} failures"
    )
    return 1 if run["failures"] else 0


def show(seed: int) -> None:
    """Print one sample and what comes of it."""
    drawn = sample(seed)
    for spec in drawn.problem.tensors:
        print(f"{spec.name}: {spec.dtype} {spec.dims} strides {spec.strides}")
    for node in drawn.problem.graph.nodes:
        args = ", ".join(getattr(arg, "ref", getattr(arg, "sym", None)) or str(arg) for arg in node.args)
        outs = [(out.dtype, out.dims) for out in node.outs]
        print(f"  {node.name} = {node.op}({args}) {node.kwargs or ''} -> {outs}")
    print(
        "sizes", drawn.problem.cases[0].size_map, "outputs", [str(ref) for ref in drawn.problem.graph.outputs]
    )
    print("vector", " ".join(f"{name}={value}" for name, value in drawn.vector))
    print(generate(drawn.problem, drawn.vector).kernel.source)
    print(batch([seed])[0].failure or "right")


if __name__ == "__main__":
    raise SystemExit(main())
