"""The model of time held against times of a real GPU.

Reads a receipt of ``benchmarks/playbook_on_gpu.py``, generates every kernel of it again, asks NVRTC for
its resources and the emulator, at a small size, for its accesses, models each row with the referee's own
functions, and says how far the model is off and how well it orders kernels. Needs no GPU. The receipt
holds technique vectors and not sources, so the kernels are today's playbook's. Run from the root:

    python benchmarks/model_of_time.py [RECEIPT] [--rows] [--keep FOLDER] [OP ...]

Times by CUDA events hold 2.45 us that are not the kernel's; they are taken off.

``--rows`` prints every row, ``--keep`` saves what was gathered about each op so that a second run takes
seconds.
"""

from __future__ import annotations

import argparse
import json
import math
import pickle
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workbench.compile import compile_kernel
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.errors import WorkbenchError
from workbench.model import H100, Case, CompileFailed, CompileReport, Kernel, Problem, Vector
from workbench.numerics.inputs import draw
from workbench.plan.parse import parse
from workbench.plan.steps import Launch, Plan
from workbench.playbook.generate import generate
from workbench.problem.capture import read_file
from workbench.problem.intake import open_problem
from workbench.problem.reference import Reference
from workbench.referee.baselines import EagerOp
from workbench.referee.eager import eager_operations
from workbench.referee.planning import UNALIGNED, plan_cases, situations
from workbench.referee.roofline import EAGER, case_time
from workbench.referee.traffic import Observation, argument_bytes, kernel_stem

ROOT = Path(__file__).resolve().parents[1]
RECEIPT = ROOT / "benchmarks" / "receipts" / "2026-11-21-h100-playbook.json"
EVENT_OVERHEAD_US = 2.45
"""A kernel of 1.47 us by CUPTI is 3.92 us by events in ``receipts/2026-11-21-h100-clock.json``."""
NEAR = 1.10
"""A choice is right when it takes at most this much longer than the best."""


@dataclass(frozen=True)
class Measured:
    """A row of the receipt; microseconds are medians."""

    op: str
    case: str
    vector: Vector
    us: float
    eager_us: float


@dataclass(frozen=True)
class Candidate:
    """All the model has to know about a kernel."""

    plans: dict[str, Plan]
    compiled: CompileReport
    seen: tuple[Observation, ...]


@dataclass(frozen=True)
class Gathered:
    """An op with its candidates."""

    problem: Problem
    candidates: dict[Vector, Candidate]
    eager: dict[str, tuple[EagerOp, ...]]


@dataclass(frozen=True)
class Row:
    """A measured row and what the model says of it."""

    measured: Measured
    us: float
    eager_us: float
    told: str

    @property
    def ratio(self) -> float:
        """Model over measurement."""
        return self.us / self.measured.us


# ------------------------------------------------------------------------------------ the receipt


def read(receipt: dict[str, Any]) -> list[Measured]:
    """Rows that were measured, from a full receipt or a compact one."""
    rows = [row for row in receipt["rows"] if "us" in row]
    return [
        Measured(
            op=row["op"],
            case=row["case"],
            vector=tuple(sorted(row["vector"].items())),
            us=_median(row["us"]),
            eager_us=_median(row["eager_us"]),
        )
        for row in rows
    ]


def _median(samples: float | list[float]) -> float:
    return statistics.median(samples) if isinstance(samples, list) else samples


# ------------------------------------------------------------------------------------ gathering


def gather(name: str, vectors: Iterable[Vector]) -> Gathered:
    """Generate, plan, compile and count every candidate of an op."""
    problem = open_problem(read_file(ROOT / "sample_ops" / f"{name}.py"))
    candidates = {}
    for vector in dict.fromkeys(vectors):
        found = candidate(problem, generate(problem, vector).kernel)
        if found is not None:
            candidates[vector] = found
    reference = Reference(problem)
    eager = {case.label: eager_operations(reference, problem, case) for case in problem.cases}
    return Gathered(problem, candidates, eager)


def candidate(problem: Problem, kernel: Kernel) -> Candidate | None:
    """What the model needs of one kernel; None, with a word, when it no longer plans or compiles."""
    planned = plan_cases(parse(kernel.source), situations(problem), H100)
    plans = {one.case: one.plan for one in planned if one.plan and not one.case.label.endswith(UNALIGNED)}
    declared = {case.label: plans[case] for case in problem.cases if case in plans}
    instances = dict.fromkeys(i for plan in declared.values() for i in plan.instances)
    compiled = compile_kernel(kernel.source, instances, H100.arch)
    if isinstance(compiled, CompileFailed) or not declared:
        print("a kernel is left out: it does not plan or compile", file=sys.stderr)
        return None
    small = {case: plans[case] for case in problem.proofs if case in plans}
    launches = [step for plan in declared.values() for step in plan.launches]
    telling = dict.fromkeys(case for step in launches if (case := _most_alike(step, small)))
    seen = [count(problem, kernel, case, small[case]) for case in telling]
    return Candidate(declared, compiled, tuple(seen))


def _most_alike(launch: Launch, small: dict[Case, Plan]) -> Case | None:
    """The one small case whose counts the referee would carry over to a launch, so only that is run."""
    found = [
        ((step.kernel == launch.kernel, step.consts == launch.consts, argument_bytes(plan, step)), case)
        for case, plan in small.items()
        for step in plan.launches
        if kernel_stem(step.kernel) == kernel_stem(launch.kernel)
    ]
    return max(found, key=lambda pair: pair[0])[1] if found else None


def count(problem: Problem, kernel: Kernel, case: Case, plan: Plan) -> Observation:
    """One run on the emulator, every access looked at."""
    module = build(kernel.source, plan.instances, "checked")
    report = execute(plan, module, draw(problem, case, "normal", 0), Options(case=case.label)).report
    if report.counts is None or report.hazards or report.trap:
        raise RuntimeError(f"a kernel at {case.label} does not run on the emulator")
    return Observation(plan, report.launches, report.counts.sites)


# ------------------------------------------------------------------------------------ the model


def model(gathered: Gathered, rows: Sequence[Measured]) -> Iterator[Row]:
    """Model the rows of one op."""
    problem = gathered.problem
    for row in rows:
        found = gathered.candidates.get(row.vector)
        if found is None or row.case not in found.plans:
            continue
        case = next(case for case in problem.cases if case.label == row.case)
        eager = gathered.eager.get(row.case, ())
        time = case_time(H100, problem, case, found.plans[row.case], found.compiled, found.seen, eager)
        yield Row(row, time.time_us, dict(time.baselines).get(EAGER, math.nan), f"{time.bound}: {time.note}")


# ------------------------------------------------------------------------------------ the summary


def groups(rows: Iterable[Row]) -> list[list[Row]]:
    """Candidates of one op at one case."""
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        found[row.measured.op, row.measured.case].append(row)
    return list(found.values())


def spearman(left: Sequence[float], right: Sequence[float]) -> float:
    """Rank correlation; nan when all of one side are equal."""
    a, b = _ranks(left), _ranks(right)
    if len(set(a)) < 2 or len(set(b)) < 2:
        return math.nan
    return statistics.correlation(a, b)


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks; equal values share the mean of theirs."""
    ordered = sorted(values)
    return [ordered.index(v) + (ordered.count(v) - 1) / 2 for v in values]


def agreed(rows: Sequence[Row]) -> tuple[int, int]:
    """Pairs of candidates that differ by a tenth or more when measured: put in that order, and all."""
    right = total = 0
    for number, one in enumerate(rows):
        for other in rows[:number]:
            slow, fast = sorted((one, other), key=lambda r: -r.measured.us)
            if slow.measured.us >= NEAR * fast.measured.us:
                total += 1
                right += slow.us > fast.us
    return right, total


def chosen(rows: Sequence[Row]) -> float:
    """Measured time of the candidate the model thinks best over the best measured one.

    Where the model cannot tell candidates apart, the mean of those it holds equal.
    """
    best = min(row.us for row in rows)
    equal = [row.measured.us for row in rows if row.us <= best * 1.0001]
    return statistics.fmean(equal) / min(row.measured.us for row in rows)


def summary(title: str, rows: Sequence[Row]) -> str:
    """One line of a Markdown table."""
    sets = groups(rows)
    ratios = sorted(row.ratio for row in rows)
    ranks = [spearman([r.us for r in s], [r.measured.us for r in s]) for s in sets]
    known = [0.0 if math.isnan(rank) else rank for rank in ranks]
    pairs = [agreed(s) for s in sets]
    right, total = sum(r for r, _ in pairs), max(sum(t for _, t in pairs), 1)
    near = sum(chosen(s) <= NEAR for s in sets)
    eager = sorted(s[0].eager_us / s[0].measured.eager_us for s in sets if not math.isnan(s[0].eager_us))
    tenths = statistics.quantiles(ratios, n=10) if len(ratios) > 1 else [ratios[0]] * 9
    spread = statistics.quantiles(eager, n=10) if len(eager) > 1 else [math.nan] * 9
    return (
        f"| {title} | {len(rows)} | {statistics.median(ratios):.2f} | {tenths[0]:.2f} - {tenths[-1]:.2f} "
        f"| {statistics.fmean(known):.2f} | {right / total:.0%} | {near}/{len(sets)} "
        f"| {statistics.median(eager) if eager else math.nan:.2f} | {spread[0]:.2f} - {spread[-1]:.2f} |"
    )


HEAD = (
    "| | rows | model / measured | 10 - 90% | rank correlation | pairs in order | best within 10% "
    "| eager / measured | 10 - 90% |\n|---|---|---|---|---|---|---|---|---|"
)


def report(rows: Sequence[Row]) -> Iterator[str]:
    """The summary: everything, both halves of the ops, each op."""
    ops = sorted({row.measured.op for row in rows})
    yield HEAD
    yield summary("all", rows)
    yield summary("fitted half", [r for r in rows if ops.index(r.measured.op) % 2 == 0])
    if len(ops) > 1:
        yield summary("held out", [r for r in rows if ops.index(r.measured.op) % 2 == 1])
    for op in ops:
        yield summary(op, [r for r in rows if r.measured.op == op])


def lines(rows: Sequence[Row]) -> Iterator[str]:
    """Every row, group after group."""
    for group in groups(rows):
        first = group[0]
        yield (
            f"\n{first.measured.op} {first.measured.case}: eager {first.measured.eager_us:.1f} us, "
            f"model {first.eager_us:.1f}; the model's choice takes {chosen(group):.2f} of the best"
        )
        for row in sorted(group, key=lambda r: r.measured.us):
            words = " ".join(f"{k}={v}" for k, v in row.measured.vector if v not in ("off", "1"))
            yield f"{row.measured.us:10.1f}{row.us:10.1f}{row.ratio:7.2f}  {words}  [{row.told}]"


def main() -> None:
    """Read, gather, model, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("receipt", nargs="?", type=Path, default=RECEIPT)
    parser.add_argument("ops", nargs="*")
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_intermixed_args()
    receipt = json.loads(options.receipt.read_text())
    measured = [_alone(row) for row in read(receipt) if not options.ops or row.op in options.ops]
    rows: list[Row] = []
    for op in sorted({row.op for row in measured}):
        mine = [row for row in measured if row.op == op]
        try:
            rows += model(kept(op, mine, options.keep), mine)
        except WorkbenchError as error:
            print(f"{op}: {error}", file=sys.stderr)
    print("\n".join([*(lines(rows) if options.rows else ()), *report(rows)]))


def _alone(row: Measured) -> Measured:
    """Without what a pair of events adds."""
    return replace(row, us=row.us - EVENT_OVERHEAD_US, eager_us=row.eager_us - EVENT_OVERHEAD_US)


def kept(op: str, rows: Sequence[Measured], folder: Path | None) -> Gathered:
    """What is known of an op: from ``folder`` when it was gathered before."""
    file = folder / f"{op}.pickle" if folder else None
    if file and file.exists():
        return pickle.loads(file.read_bytes())  # type: ignore[no-any-return]  # our own file
    gathered = gather(op, [row.vector for row in rows])
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(pickle.dumps(gathered))
        print(f"{op}: {len(gathered.candidates)} kernels gathered", file=sys.stderr)
    return gathered


if __name__ == "__main__":
    main()
