"""Which checks a kernel has to pass, in which order. Pure.

Every case is tried once on ordinary values with every access looked at; one typical case meets all
other kinds of input. A check's seed follows from its case and kind of input.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from zlib import crc32

from workbench.emulator.values import Mode
from workbench.model import TensorMeta
from workbench.numerics.kinds import InputKind
from workbench.referee.options import JudgeOptions
from workbench.referee.protocol import Trial

YOURS = "yours"
DECLARED_KINDS: tuple[InputKind, ...] = ("normal", "offset", "heavy-tailed", "scale 64")
LARGE_KINDS: tuple[InputKind, ...] = ("normal", "offset")
"""Inputs of declared cases on a GPU; fewer where a case is so large that each takes long."""
MANY_ELEMENTS = 2**25
SPECIAL = 3
"""NaN, inf and -inf."""
ROWS_FOR_ALL_SPECIAL = 6
"""From so many rows on one drawing of special values shows all three."""
SEEDS = 900
"""First seeds of a case and a kind of inputs; the rest of a thousand is for those that are drawn again."""
TYPICAL_ELEMENTS = 2**16
"""The case for all kinds of input is the largest one up to this size: long rows, quickly run."""


@dataclass(frozen=True)
class PlannedCheck:
    """One check to come."""

    trial: Trial
    inputs: str
    """An ``InputKind`` or ``yours``."""
    seed: int
    mode: Mode
    races: bool = False
    repeat: bool = False
    """Run twice, with the threads in opposite order, and compare bit by bit."""
    own: bool = False
    """On a seed that no other kernel meets: what must come of it is wanted once."""

    @property
    def may_be_refused(self) -> bool:
        """True for sizes and kinds of values that nobody promised the reference takes.

        What it indexes with may leave the table where a row holds a NaN, or where one of two tables is much
        shorter than in the declared sizes; no kernel is to blame for that.
        """
        promised = self.trial.case.origin == "declared" and not self.trial.probe
        return not promised or self.inputs not in (YOURS, "normal")


def checks_of(trials: Sequence[Trial], options: JudgeOptions, own_tensors: bool) -> tuple[PlannedCheck, ...]:
    """List the checks: the typical case first, so that most wrong kernels fail at once."""
    if not trials:
        return ()
    typical = typical_trial(trials)
    others = sorted((t for t in trials if t is not typical), key=elements)
    planned = [PlannedCheck(t, "normal", 0, "checked", races=options.races) for t in (typical, *others)]
    planned.append(PlannedCheck(typical, "normal", 0, "plain", repeat=True))
    for kind in options.kinds:
        times = _special_times(typical) if kind == "special values" else int(kind != "normal")
        planned += [PlannedCheck(typical, kind, 0, "plain")] * times
    if own_tensors:
        planned.append(PlannedCheck(trials[0], YOURS, 0, "plain"))
    return (*_seeded(planned, options), *_of_its_own(typical, options))


def checks_on_gpu(
    trials: Sequence[Trial], options: JudgeOptions, own_tensors: bool
) -> tuple[PlannedCheck, ...]:
    """List the checks of the GPU's lane: small cases as ever, and every declared case on several inputs.

    Declared cases run last, the smaller ones first: they take longest. One more check has a seed of this
    kernel's own: the others' expected values are kept for all kernels of a session.
    """
    small = [t for t in trials if t.case.origin == "proof"]
    declared = sorted((t for t in trials if t.case.origin == "declared"), key=elements)
    shared = options.model_copy(update={"own_seed": None})
    planned = list(checks_of(small, shared, own_tensors=False))
    planned = [replace(p, mode="plain", races=False) for p in planned]
    for trial in declared:
        kinds = LARGE_KINDS if elements(trial) > MANY_ELEMENTS else DECLARED_KINDS
        wanted = [kind for kind in kinds if kind in options.kinds] or [kinds[0]]
        planned += [PlannedCheck(trial, kind, 0, "plain", repeat=kind == wanted[0]) for kind in wanted]
    if own_tensors and declared:
        planned.append(PlannedCheck(first_declared(trials), YOURS, 0, "plain"))
    seeded = _seeded(planned, options)
    return (*seeded, *_of_its_own(typical_trial(small or declared), options)) if seeded else ()


def _of_its_own(trial: Trial, options: JudgeOptions) -> tuple[PlannedCheck, ...]:
    """One check more on a seed that no other kernel meets, where there is one."""
    seed = options.own_seed
    return () if seed is None else (PlannedCheck(trial, "normal", seed, "plain", own=True),)


def _special_times(trial: Trial) -> int:
    """Checks until NaN, inf and -inf have all been seen: seeds that follow one another take turns at them."""
    fewest = min((_rows(meta) for _, meta in trial.plan.arguments), default=1)
    return 1 if fewest >= ROWS_FOR_ALL_SPECIAL else SPECIAL


def _rows(meta: TensorMeta) -> int:
    return meta.numel // max(meta.shape[-1], 1) if meta.shape else 1


def first_declared(trials: Sequence[Trial]) -> Trial:
    """The most important declared case."""
    return next(t for t in trials if t.case.origin == "declared")


def _seeded(planned: Sequence[PlannedCheck], options: JudgeOptions) -> tuple[PlannedCheck, ...]:
    """A seed follows from the case and the kind of inputs, whatever else is checked: a kernel with one check
    more than the last one meets the same inputs in all others, and what must come of them is known."""
    met: Counter[tuple[str, str]] = Counter()
    seeded = []
    for one in planned:
        what = one.trial.case.label, one.inputs
        number = crc32(" ".join(what).encode()) % SEEDS + met[what]
        met[what] += 1
        seeded.append(replace(one, seed=options.first_seed + number))
    return tuple(seeded)


def typical_trial(trials: Sequence[Trial]) -> Trial:
    """The largest case that is still quick; of several rows where there is one."""
    candidates = [t for t in trials if not t.once] or trials
    quick = [t for t in candidates if elements(t) <= TYPICAL_ELEMENTS]
    if not quick:  # large weights: the smallest case, but not one of a single row
        return min(candidates, key=lambda t: (not _several(t), elements(t)))
    return max(quick, key=lambda t: (_several(t), elements(t)))


def elements(trial: Trial) -> int:
    """Elements of all arguments, or of all results where these are more: two short lists have many pairs."""
    made = sum(trial.plan.meta_of(name).numel for name in trial.plan.outputs)
    return max(made, sum(meta.numel for _, meta in trial.plan.arguments))


def threads(trial: Trial) -> int:
    """Of all launches: with many of them races are looked for in some blocks only."""
    return sum(math.prod(step.grid) * math.prod(step.block) for step in trial.plan.launches)


def _several(trial: Trial) -> bool:
    """True where no size is 1: special values need a row that has none of them beside one that has.

    The case says it, not the plan, whose author may name its tensors in any order.
    """
    return all(size > 1 for _, size in trial.case.sizes)
