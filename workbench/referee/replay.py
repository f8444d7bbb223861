"""Checks a receipt: what it says of itself, what can be derived again, what a new measurement says.

Owns the findings, one sentence each. Needs no GPU but for ``remeasured``, whose evaluation it is given.
Imports no torch.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Iterable, Iterator
from typing import Literal

from workbench.compile import load_cubin
from workbench.compile.options import nvrtc_version
from workbench.errors import NotCovered, PlanError
from workbench.model import CaseTime, CompileFailed, Evaluation, Measured, Passed, Rival, TimedOut, Value
from workbench.plan.parse import parse
from workbench.plan.steps import Plan
from workbench.referee.clock.samples import KERNEL
from workbench.referee.clock.statistics import Interval, median_interval
from workbench.referee.clock.suspicion import suspicion
from workbench.referee.clock.verdicts import chained_rivals, rivals_of
from workbench.referee.judge import judge
from workbench.referee.options import JudgeOptions
from workbench.referee.planning import plan_cases, situations
from workbench.referee.receipts import SEED_FACT, CaseReceipt, Receipt, cubin_of, wanted_kernels

State = Literal["agrees", "differs", "not checked"]
INTERNAL_NAME = b"_INTERNAL_"
"""In the machine code of sources that include a library's headers."""
UNSEEDED = "it names a header's internals by a number of the process that compiled it"
EXACT = 1e-9
"""Relative: another library version may round the last bits of a mean otherwise."""


class Finding(Value):
    """One thing that was looked at."""

    what: str
    state: State
    detail: str = ""


def rechecked(receipt: Receipt) -> tuple[Finding, ...]:
    """Everything that needs no GPU: hashes, plans, machine code, claims, numbers on the emulator."""
    return (*hashes(receipt), *plans(receipt), *claims(receipt), rejudged(receipt))


def hashes(receipt: Receipt) -> tuple[Finding, ...]:
    """The content is what its own digests name."""
    pairs = (
        ("problem", receipt.problem, receipt.problem_digest),
        ("kernel", receipt.kernel, receipt.kernel_digest),
    )
    return tuple(_same(f"{what} hash", stated in _names(held), stated[:12]) for what, held, stated in pairs)


def _names(held: Value) -> tuple[str, str]:
    """What a value is called now, and by the fields alone that its file gives: those there were then."""
    stored = held.model_dump_json(exclude_unset=True).encode()
    return held.digest, hashlib.sha256(stored).hexdigest()


def plans(receipt: Receipt) -> tuple[Finding, ...]:
    """Plans and machine code, made again from the source."""
    try:
        program = parse(receipt.kernel.source)
        wanted = situations(receipt.problem)
        planned = {p.case.label: p.plan for p in plan_cases(program, wanted, receipt.target)}
    except (PlanError, NotCovered) as error:
        return (Finding(what="plan", state="differs", detail=str(error)),)
    findings = []
    for one in receipt.cases:
        plan = planned.get(one.case)
        if plan is None:
            findings.append(Finding(what=f"plan at {one.case}", state="differs", detail="there is none"))
            continue
        known = {plan.digest, *plan.former_digests}
        findings.append(_same(f"plan at {one.case}", one.plan in known, one.plan[:12]))
        findings.append(_machine_code(receipt, one, plan))
    return tuple(findings)


def _machine_code(receipt: Receipt, one: CaseReceipt, plan: Plan) -> Finding:
    what = f"machine code at {one.case}"
    theirs = dict(receipt.machine.versions).get("nvrtc", "another version")
    if theirs != nvrtc_version():
        detail = f"NVRTC is {nvrtc_version()} here and was {theirs}"
        return Finding(what=what, state="not checked", detail=detail)
    stated = {cubin.consts: cubin for cubin in one.cubins}
    for consts, kernels in wanted_kernels(plan).items():
        known = stated.get(consts)
        answer = load_cubin(
            receipt.kernel.source, consts, known.kernels if known else kernels, receipt.target.arch
        )
        if isinstance(answer, CompileFailed):
            return Finding(what=what, state="differs", detail=answer.diagnostics[0].message)
        if known is None:
            return Finding(what=what, state="differs", detail="a cubin that the receipt does not know")
        if known.sha256 != cubin_of(consts, known.kernels, answer[0]).sha256:
            if INTERNAL_NAME in answer[0] and SEED_FACT not in receipt.machine.versions:
                return Finding(what=what, state="not checked", detail=UNSEEDED)
            return Finding(what=what, state="differs", detail="another cubin")
    return Finding(what=what, state="agrees", detail=f"{len(stated)} cubins")


# ------------------------------------------------------------------------------------ claims


def claims(receipt: Receipt) -> tuple[Finding, ...]:
    """Times, intervals, verdicts and suspicion, derived again from the raw samples."""
    return tuple(_claim(receipt, one) for one in receipt.cases)


def _claim(receipt: Receipt, one: CaseReceipt) -> Finding:
    options, measured = receipt.options, one.measured
    kernel = one.raw.track(KERNEL)
    samples = kernel.samples
    interval = median_interval(kernel.medians, options.resamples, options.seed)
    derived = rivals_of(one.raw, options)
    if one.baselines is not None:
        derived += chained_rivals(one.raw, one.baselines, options)
    odd = suspicion(one.time_us, measured.crosschecks, one.physics, options, measured.disturbed)
    wrong = [
        *([] if _near(statistics.median(kernel.medians), one.time_us) else ["the time"]),
        *([] if _near(interval.low, measured.low_us) else ["the interval of the time"]),
        *([] if _near(interval.high, measured.high_us) else ["the interval of the time"]),
        *([] if odd == measured.suspicion else ["the suspicion"]),
        *_unlike(derived, measured.rivals),
    ]
    what = f"claims at {one.case}"
    if wrong:
        told = f"{', '.join(dict.fromkeys(wrong))} cannot be derived from the samples"
        return Finding(what=what, state="differs", detail=told)
    return Finding(what=what, state="agrees", detail=f"{headline(measured)}; {len(samples)} samples")


def _unlike(derived: tuple[Rival, ...], stated: tuple[Rival, ...]) -> Iterator[str]:
    """Names of baselines whose claims are other ones than the samples give."""
    by_name = {rival.name: rival for rival in derived}
    for rival in stated:
        mine = by_name.pop(rival.name, None)
        if mine is None or mine.verdict != rival.verdict or not _near_all(mine, rival):
            yield f"the verdict against {rival.name}"
    yield from (f"{name}, which is not told," for name in by_name)


def _near_all(mine: Rival, stated: Rival) -> bool:
    pairs = ((mine.low, stated.low), (mine.high, stated.high), (mine.ratio, stated.ratio))
    return all(_near(a, b) for a, b in (*pairs, (mine.time_us, stated.time_us)))


def headline(measured: Measured) -> str:
    """The verdict against the fastest baseline in a few words."""
    rival = measured.fastest
    if rival is None:
        return "no baseline"
    return f"{rival.verdict} {rival.ratio:.3f}x ({rival.low:.3f} to {rival.high:.3f}) against {rival.name}"


# ------------------------------------------------------------------------------------ new runs


def rejudged(receipt: Receipt) -> Finding:
    """The kernel's numbers, judged again on the emulator. Raises ``DeviceError`` for a broken machine."""
    options = JudgeOptions(seed=receipt.seed, own_seed=receipt.own_seed)
    evaluation = judge(receipt.problem, receipt.kernel, receipt.target, options, lambda stage: None)
    what = "numbers, on the emulator"
    if isinstance(evaluation.outcome, Passed):
        own = "" if receipt.own_seed is None else ", that on its own seed among them"
        return Finding(what=what, state="agrees", detail=f"{len(evaluation.checks)} checks passed{own}")
    message = getattr(evaluation.outcome, "message", evaluation.outcome.kind)
    # A slow machine is no finding about the kernel: on its GPU it came to an end.
    state: State = "not checked" if isinstance(evaluation.outcome, TimedOut) else "differs"
    return Finding(what=what, state=state, detail=f"{evaluation.outcome.kind}: {message}")


def remeasured(receipt: Receipt, evaluation: Evaluation) -> tuple[Finding, ...]:
    """A new evaluation on a GPU, held against the receipt's claims case by case."""
    if not evaluation.passed:
        detail = f"{evaluation.outcome.kind}: {getattr(evaluation.outcome, 'message', '')}"
        return (Finding(what="new measurement", state="differs", detail=detail),)
    times = {time.case: time for time in evaluation.times}
    same_card = evaluation.target == receipt.machine.card
    return tuple(_again(one, times.get(one.case), same_card) for one in receipt.cases)


def _again(one: CaseReceipt, time: CaseTime | None, same_card: bool) -> Finding:
    what = f"new measurement at {one.case}"
    if time is None or time.measured is None:
        return Finding(what=what, state="not checked", detail="this case was not timed")
    now = {rival.name: rival for rival in time.measured.rivals}
    pairs = [(rival, now[rival.name]) for rival in one.measured.rivals if rival.name in now]
    told = f"{time.time_us:.1f} us now, {one.time_us:.1f} us then"
    apart = [old.name for old, new in pairs if not agree(_interval(old), _interval(new))]
    if not same_card:
        return Finding(what=what, state="not checked", detail=f"{told}, on another card")
    if apart:
        return Finding(
            what=what, state="differs", detail=f"{told}; intervals against {', '.join(apart)} differ"
        )
    against = ", ".join(f"{new.ratio:.3f}x {old.name}" for old, new in pairs)
    return Finding(what=what, state="agrees", detail=f"{told}; {against}" if against else told)


def agree(old: Interval, new: Interval, between_runs: float = 0.01) -> bool:
    """True when two intervals of one ratio overlap, or nearly.

    An interval covers one run's noise; buffers, clocks and temperature of another run move a ratio by up to
    ``between_runs`` more.
    """
    return old.low <= new.high * (1.0 + between_runs) and new.low <= old.high * (1.0 + between_runs)


def state_of(findings: Iterable[Finding]) -> State:
    """The whole: one difference is a difference."""
    states = {finding.state for finding in findings}
    return "differs" if "differs" in states else "agrees" if "agrees" in states else "not checked"


def _interval(rival: Rival) -> Interval:
    return Interval(rival.ratio, rival.low, rival.high)


def _same(what: str, same: bool, detail: str) -> Finding:
    return Finding(what=what, state="agrees" if same else "differs", detail=detail)


def _near(mine: float, theirs: float) -> bool:
    return abs(mine - theirs) <= EXACT * max(abs(mine), abs(theirs))
