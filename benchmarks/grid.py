"""The grid: every sample op at four shapes, searched for, then measured once more against all baselines.

Two kinds of judgement, so that a kernel is never reported by the numbers it was picked on: kernels are found
on quick times against eager; the kernel that is found is judged afresh, against eager, ``torch.compile``,
max-autotune and CUDA graphs of both. Its receipt (raw samples, intervals, conditions) is what
``benchmarks/take_receipts.py`` and ``table.py`` turn into ``docs/benchmarks.md``.

Compiling baselines is most of the time, so all of it is done first, several processes side by side, while
nothing is being timed. What torch *chose* among its compiled kernels meanwhile is forgotten: it chooses by
the clock, and is to do so alone on the card.

Usage on a machine with an NVIDIA GPU: ``python benchmarks/grid.py [--ops softmax,layer_norm@1+3]
[--seconds 280]``: softmax at all of its shapes, layer norm at two of them. ``$WORKBENCH_RECEIPTS``
names the folder for ``grid.tgz``. ``--list`` prints ops and shapes and needs no GPU.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import on_the_gpu as gpu
from compiled_first import warm, warm_all

from workbench.model import Case, Digest, Evaluation, Hypothesis, Kernel, Passed, Problem
from workbench.playbook.generate import generate
from workbench.playbook.rules.by_shape import Found, from_found
from workbench.playbook.rules.experience import NOTHING, experience_of, reordered
from workbench.playbook.rules.moves import moves, seed_vectors
from workbench.views.numbers import verdict_message

ROOT = Path(__file__).resolve().parent.parent
MORE_SHAPES: dict[str, str] = {
    "argmax": "[(65536, 256)]",
    "batch_norm_act": "[(8, 64, 57, 57)]",
    "conv_bias_relu_pool": "[(16, 3, 112, 112)]",
    "conv_silu_bf16": "[((64, 64, 56, 56), (64, 64))]",
    "cosine_similarity": "[((512, 4096), (512, 4096))]",
    "cross_entropy": "[((64, 128256), (64,))]",
    "gelu_bias": "[((2048, 11008), (11008,), (2048, 11008))]",
    "instance_norm": "[(4, 32, 33, 33)]",
    "l2_norm": "[(512, 4096)]",
    "layer_norm": "[(16384, 4096)]",
    "linear_rowsum": "[((512, 8192), (2048, 8192), (2048,))]",
    "log_softmax": "[(65536, 128)]",
    "logsumexp": "[(1, 1048576)]",
    "masked_softmax": "[((8, 16, 1024, 1024), (8, 1, 1024, 1024))]",
    "mean_std": "[(512, 4096)]",
    "mse_loss": "[(65536, 1024)]",
    "rms_norm": "[(65536, 768)]",
    "rms_norm_bf16": "[(65536, 768)]",
    "rotary": "[((4, 16, 4096, 64), (4096, 64), (4096, 64)), ((1, 32, 1, 128), (1, 128), (1, 128))]",
    "silu_mul": "[(16384, 5632)]",
}
"""Shapes beyond those of ``sample_ops``, so that every op has four."""
FIRST, REFINED = 8, (8, 6)
"""Kernels tried before the first times are known, and then, from the best so far, in rounds."""
JOINED = 2
"""Then, files with each shape's fastest kernel, timed as their parts were; the best of all is measured."""
SECONDS = {
    "argmax": 25, "avg_pool": 20, "batch_norm_act": 52, "column_mean": 30, "conv_bias_relu_pool": 60,
    "conv_silu_bf16": 94,
    "cosine_similarity": 51, "cross_entropy": 42, "cumsum": 44, "embedding": 21, "gelu_bias": 23,
    "depthwise_conv": 40, "group_norm": 100, "instance_norm": 40, "kl_div": 138, "l2_norm": 26,
    "layer_norm": 70, "log_softmax": 72, "logsumexp": 44, "masked_softmax": 36, "max_pool": 20,
    "mean_std": 58, "mse_loss": 34, "rms_norm": 25, "rms_norm_bf16": 26, "rotary": 25, "silu_mul": 20,
    "softmax": 86, "transpose_add": 23,
}  # fmt: skip
"""What an op took on an H100 once its baselines were compiled; an op is begun only where so much is left."""
UNKNOWN_S = 60
SHAPES, STARTED_S = 4, 8
"""Of an op; an op with fewer of them still has as many kernels to generate, compile and prove."""
SLOW_TO_COMPILE = ("conv_bias_relu_pool", "conv_silu_bf16", "linear_rowsum", "problems/linear_rowsum")
"""Max-autotune compiles eighteen kernels for each shape of these, 40 s: a program for each shape."""


def ops() -> list[str]:
    """All sample ops."""
    return sorted(path.stem for path in (ROOT / "sample_ops").glob("*.py"))


def problems() -> list[str]:
    """The problems that have their own list of shapes, as ``problems/softmax``."""
    return sorted(f"problems/{path.stem}" for path in (ROOT / "benchmarks" / "problems").glob("*.py"))


def problem_of(asked: str) -> Problem:
    """A sample op at its four shapes, one of ``problems()`` or ``cells`` at its own; ``softmax@1+4`` at two.

    Raises ``ProblemError``; ``ValueError`` for a shape that it does not have.
    """
    from workbench.problem.capture import read_file
    from workbench.problem.intake import open_problem

    op, _, places = asked.partition("@")
    folder = ROOT / ("benchmarks" if op.startswith(("problems/", "cells/")) else "sample_ops")
    capture = read_file(folder / f"{op}.py")
    if more := MORE_SHAPES.get(op):
        source = f"{capture.source}\n\nmore_shapes = shapes + {more}\n"
        capture = capture.model_copy(update={"source": source, "shapes": "more_shapes"})
    problem = open_problem(capture)
    if not places:
        return problem
    wanted = [int(place) - 1 for place in places.split("+")]
    if not all(0 <= place < len(problem.cases) for place in wanted):
        raise ValueError(f"{asked}: {op} has shapes 1 to {len(problem.cases)}")
    return problem.model_copy(update={"cases": tuple(problem.cases[place] for place in wanted)})


# ------------------------------------------------------------------------------------ finding, measuring


class Searcher:
    """Finds a kernel for one problem on quick times."""

    def __init__(self, problem: Problem, device: Any) -> None:
        self.problem, self.device = problem, device
        self.found: list[Found] = []
        self.judged: set[Digest] = set()
        self.brought: list[tuple[str, str, float, float]] = []
        """Technique, value, predicted and found factor of each change of a parent."""
        self.judged_at: dict[str, float] = {}
        """By name, when it was known to be right and how long it takes: ``time.perf_counter``."""

    def _fresh(self, cards: Iterable[Hypothesis], most: int) -> tuple[list[Hypothesis], list[Kernel]]:
        """The first cards whose kernels nobody has judged: several vectors may come to the same text."""
        tried = {one.vector for one in self.found}
        fresh: list[Hypothesis] = []
        kernels: list[Kernel] = []
        for card in cards:
            if len(fresh) == most:
                break
            if card.vector is None or card.vector in tried:
                continue
            kernel = generate(self.problem, card.vector).kernel
            if kernel.digest not in self.judged:
                self.judged.add(kernel.digest)
                fresh.append(card)
                kernels.append(kernel)
        return fresh, kernels

    async def try_all(self, cards: Iterable[Hypothesis], most: int = 100) -> None:
        """Judge the kernels of cards that are not tried yet: compiled side by side, run in turn."""
        fresh, kernels = self._fresh(cards, most)
        judged = await asyncio.gather(*map(self._judged, kernels))
        for card, (evaluation, at) in zip(fresh, judged, strict=True):
            name = f"k{len(self.found) + 1}"
            print(
                f"    {name:<4}{card.title[:60]:<62}{evaluation.outcome.kind:<10}{_told(evaluation)}",
                flush=True,
            )
            self.found.append(Found(name, card.vector, evaluation))
            self.judged_at[name] = at

    async def _judged(self, kernel: Kernel) -> tuple[Evaluation, float]:
        evaluation: Evaluation = await self.device.evaluate(self.problem, kernel, lambda stage: None)
        return evaluation, time.perf_counter()

    @property
    def able(self) -> list[Found]:
        """The correct kernels."""
        return [one for one in self.found if one.evaluation and isinstance(one.evaluation.outcome, Passed)]

    @property
    def best(self) -> Found | None:
        """The correct kernel with the best geometric mean of its times."""
        return min(self.able, key=lambda one: _product(one.evaluation), default=None)

    async def _refine(self, parent: Found, most: int) -> None:
        """Judge changes of one technique; what they bring moves the next cards, as in a search."""
        cards = moves(self.problem, parent.vector, parent.evaluation, self.device.target)
        known = len(self.found)
        offered = {card.vector: card for card in reordered(cards, NOTHING, experience_of(self.brought))}
        await self.try_all(offered.values(), most)
        for one in self.found[known:]:
            card = offered[one.vector]
            if one in self.able:
                factor = math.exp(
                    (_product(parent.evaluation) - _product(one.evaluation)) / len(one.evaluation.times)
                )
                value = dict(card.vector).get(card.technique, "")
                self.brought.append((card.technique, value, card.predicted_factor, factor))

    async def run(self) -> Kernel | None:
        """The kernel to measure; None where none is correct."""
        target = self.device.target
        seeds = seed_vectors(self.problem, target, count=2 * FIRST)
        unfused = ("fusion", "none")  # the naive chain is never the answer
        await self.try_all([card for card in seeds if unfused not in card.vector], FIRST)
        if self.best is None:
            return None
        for most in REFINED:
            await self._refine(self.best, most)
        for _ in range(JOINED):  # once more where a shape is slower in the joined kernel than alone
            mixed = from_found(self.problem, self.able, target)
            await self.try_all([] if mixed is None else [mixed])
        return generate(self.problem, self.best.vector).kernel


def _tried(one: Found) -> dict[str, Any]:
    """A kernel of the search with its quick times, for ``benchmarks/predictions.py``."""
    assert one.evaluation is not None
    times = {time.case: time.time_us for time in one.evaluation.times}
    told = {"vector": dict(one.vector), "kind": one.evaluation.outcome.kind, "times": times}
    passed = isinstance(one.evaluation.outcome, Passed)
    return told if passed else {**told, "why": _told(one.evaluation)}


def _product(evaluation: Evaluation | None) -> float:
    assert evaluation is not None
    return math.fsum(math.log(time.time_us) for time in evaluation.times) if evaluation.times else math.inf


def _told(evaluation: Evaluation) -> str:
    """Its quick times, or why it has none."""
    outcome = evaluation.outcome
    if isinstance(outcome, Passed):
        return " ".join(f"{time.time_us:.1f}" for time in evaluation.times)
    return ": ".join(filter(None, (getattr(outcome, "case", ""), verdict_message(outcome))))


def measure(op: str, receipt: gpu.Receipt, quick: Any, thorough: Any) -> None:
    """One op: found, then judged afresh; a row for the receipt."""
    started = time.perf_counter()
    problem = problem_of(op)
    fitting = tuple(case for case in problem.cases if _bytes(problem, case) < gpu.LARGEST_BYTES)
    problem = problem.model_copy(update={"cases": fitting})
    print(f"{op}: {', '.join(case.label for case in problem.cases)}", flush=True)
    searcher = Searcher(problem, quick)
    kernel = asyncio.run(searcher.run())
    searched_s = time.perf_counter() - started
    if kernel is None:
        outcomes = [
            one.evaluation.outcome.model_dump_json()[:300] for one in searcher.found if one.evaluation
        ]
        card = quick.target.name
        receipt.add("rows", {"op": op, "card": card, "kind": "no correct kernel", "outcomes": outcomes})
        return
    row = gpu.judged_row(thorough, problem, kernel, full=True)
    tried = [_tried(one) for one in searcher.found]
    told = {"kernels": len(searcher.found), "searched_s": searched_s, "tried": tried}
    receipt.add("rows", {"op": op, **told, **row})
    for line in row["times"]:
        print("      ", line, flush=True)
    print(f"    {row['kind']}, {time.perf_counter() - started:.1f} s", flush=True)


def _bytes(problem: Problem, case: Case) -> int:
    return sum(meta.nbytes for meta in problem.metas(case).values())


def baselines(names: list[str], without: str) -> dict[str, list[str]]:
    """A program for the baselines of every op, of every shape where that takes long; those come first."""
    own = [sys.executable, __file__, "--without", without, "--warm"]
    slow = {
        f"{op} {case.label}": [*own, op, "--case", case.label]
        for op in names
        if op.partition("@")[0] in SLOW_TO_COMPILE
        for case in problem_of(op).cases
    }
    return slow | {op: [*own, op] for op in names if op.partition("@")[0] not in SLOW_TO_COMPILE}


def only(problem: Problem, label: str) -> Problem:
    """The problem at one of its shapes; at all of them where no label is given."""
    cases = tuple(case for case in problem.cases if label in ("", case.label))
    return problem.model_copy(update={"cases": cases})


def fits(op: str, left_s: float) -> bool:
    """True where an op that is begun now comes to its end; says so where it does not."""
    name, _, places = op.partition("@")
    takes = SECONDS.get(name, UNKNOWN_S)
    if places:
        takes = round(takes * len(places.split("+")) / SHAPES) + STARTED_S
    if left_s < takes:
        print(f"{op}: no time left ({left_s:.0f} s, it takes about {takes})", flush=True)
    return left_s >= takes


def run(names: list[str], seconds: float, without: list[str]) -> list[str]:
    """Search and measure one op after the other; pack the receipts after each. Returns what has no times."""
    from workbench.referee.clock.contestants import AT_ONCE, LATER

    give_up = time.monotonic() + seconds
    receipt = gpu.Receipt("judged")
    quick = gpu.open_device(timing=True, hazards=False, baselines=AT_ONCE[:1])
    rivals = tuple(name for name in (*AT_ONCE, *LATER) if name not in without)
    thorough = gpu.open_device(timing=True, hazards=False, baselines=rivals)
    thorough.keep_receipts(gpu.workplace() / "receipts")
    for op in names:
        if not fits(op, give_up - time.monotonic()):
            continue
        with receipt.guarded(op):
            measure(op, receipt, quick, thorough)
        gpu.pack("grid.tgz")
    for device in (quick, thorough):
        asyncio.run(device.close())
    failed = [one["what"] for one in receipt.values.get("failures", [])]
    return failed + [row["op"] for row in receipt.values.get("rows", []) if row["kind"] != "passed"]


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ops", default=",".join([*problems(), *ops()]))
    parser.add_argument("--seconds", type=float, default=280.0)
    parser.add_argument(
        "--warm", default="", help="compile the baselines of one op; the program calls itself so"
    )
    parser.add_argument("--case", default="", help="the one shape to compile for")
    parser.add_argument("--phase", choices=("compile", "measure", "both"), default="both")
    parser.add_argument(
        "--without", default="", help="baselines to leave out: for some ops one takes minutes"
    )
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    failed: list[str] = []
    if given.warm:
        warm(only(problem_of(given.warm), given.case), given.without.split(","))
    elif given.list:
        for op in given.ops.split(","):
            print(op, *(case.label for case in problem_of(op).cases))
    else:
        started = time.monotonic()
        if given.phase != "measure":
            failed += warm_all(baselines(given.ops.split(","), given.without), given.seconds / 2)
            print(f"baselines compiled after {time.monotonic() - started:.0f} s", flush=True)
        if given.phase != "compile":
            left_s = given.seconds - (time.monotonic() - started)
            failed += run(given.ops.split(","), left_s, given.without.split(","))
    if failed:
        raise SystemExit(f"no times: {', '.join(failed)}")


if __name__ == "__main__":
    main()
