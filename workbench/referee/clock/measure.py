"""Times one case: the kernel and its baselines in turns, cross-checked, judged, checked again afterwards.

The child side's entry: tensors, streams and the precision contract are set up here. Runs in a worker child
with a GPU. Never decides whether a result is right: it asks the ``check`` it is given.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from workbench.errors import GpuError
from workbench.model import Contract, Measured, Rival, StepTime
from workbench.numerics.precision import precision
from workbench.referee.clock import crosscheck
from workbench.referee.clock.conditions import open_monitor
from workbench.referee.clock.contestants import EAGER, told
from workbench.referee.clock.gpu import GpuLane, host_us, lane_of, pci_bus_id
from workbench.referee.clock.graphs import replaying
from workbench.referee.clock.lane import Act, CuptiSampler, EventSampler, LostRecords, Record, Trace
from workbench.referee.clock.options import ClockOptions, Physics
from workbench.referee.clock.samples import KERNEL, RawTimes
from workbench.referee.clock.sanity import LARGEST_RMS, allowed_beside, parts_of, unlike
from workbench.referee.clock.statistics import median_interval, quietest, relative_spread
from workbench.referee.clock.steps import Marked, step_times_us
from workbench.referee.clock.suspicion import EVENTS, SLOPE, disagreement, suspicion
from workbench.referee.clock.taking import Sampler, Taken, Turn, Watch, take_case
from workbench.referee.clock.tracing import CuptiTrace, open_trace
from workbench.referee.clock.verdicts import chained_rivals, rivals_of

NOTHING_KNOWN = Physics()
CALIBRATIONS = 30
MOST_ADDED_US = 4.0
"""What a pair of events can add to a time; 2.45 us on an H100. More means a disturbed calibration: on a card
that another process used, 16 us were taken off every time; the wall clock found every kernel ``Suspect``."""
REPLAY_US = 10.0
"""Host time of replaying a graph, generously."""
LEAST_REPLAY_US = 0.5
"""What is hardly above a pair of events' own time says nothing: a replay may add less than a launch does. A
kernel of 1024 elements, which takes a microsecond, came to 0.16 us on an H100."""
PAUSES_S = (0.5, 2.0)
"""What is waited for a machine to become quiet."""
ANOTHER = 3
"""The copy of the inputs that outputs are looked at for after timing; not the first."""

Check = Callable[[Sequence[Tensor]], str]
"""What is wrong with the kernel's outputs, in a sentence; empty when nothing is."""


@dataclass(frozen=True)
class Setting:
    """What the clock is told about a case beside the contestants."""

    contract: Contract = "ieee-fp32"
    physics: Physics = NOTHING_KNOWN
    check: Check | None = None
    """Judges the kernel's output of a sample taken after the timing; None compares with a baseline's."""
    left_open: bool = False
    """Several results are the reference's (``leaves_open``): the check is asked of a baseline's as well."""
    baselines: RawTimes | None = None
    """Baselines timed earlier, in turns with each other; chained to the kernel through one of the rivals."""
    missing: tuple[tuple[str, str], ...] = ()
    """Baselines that could not be had, and why."""
    cupti: bool = True
    """False to time with events at once."""
    steps: Sequence[StepTime] = ()
    """The kernel's steps in order, times unknown."""
    marked: Marked | None = None
    """The kernel with a mark behind every one of them."""


@dataclass(frozen=True)
class Timing:
    """One case, timed."""

    time_us: float
    """The kernel's device time, cold: what ``CaseTime.time_us`` is."""
    measured: Measured
    raw: RawTimes
    options: ClockOptions
    seconds: float
    wrong: str = ""
    """What the check said of the output of a timed sample; such a kernel has not passed."""


def measure(
    case_label: str,
    candidate: Act,
    rivals: Mapping[str, Act],
    options: ClockOptions | None = None,
    setting: Setting | None = None,
) -> Timing:
    """Time ``candidate`` against ``rivals`` on the current stream of the current device.

    An act issues one call on the given copy of the inputs (any number; take it modulo what there are) and
    returns its output tensors. Raises ``DeviceError`` or torch's own errors when the device fails.
    """
    started = time.perf_counter()
    options, setting = options or ClockOptions(), setting or Setting()
    with torch.no_grad(), precision(setting.contract):
        run = _Run(case_label, {KERNEL: candidate, **rivals}, options, setting)
        timing = run.timed()
    return replace(timing, seconds=time.perf_counter() - started)


class _Run:
    """One case being timed."""

    def __init__(self, case: str, acts: Mapping[str, Act], options: ClockOptions, setting: Setting) -> None:
        self.case, self.options, self.setting = case, options, setting
        self.acts = dict(acts)
        self.missing = list(setting.missing)
        self.lane: GpuLane = lane_of(options)
        self.host: dict[str, float] = {}
        self.disturbed = ""

    def timed(self) -> Timing:
        """Everything in order: first calls, turns, other clocks, outputs."""
        self._first_calls()
        taken, sampler, warm_us = self._taken()
        kernel = taken.raw.track(KERNEL)
        time_us = statistics.median(kernel.medians)
        checks = self._crosschecks(sampler, taken, time_us)
        wrong, odd = self._outputs_again()
        raw = _without(taken.raw, odd)
        interval = median_interval(kernel.medians, self.options.resamples, self.options.seed)
        held = rivals_of(raw, self.options)
        if self.setting.baselines is not None:
            held += chained_rivals(raw, self.setting.baselines, self.options)
        host, graphs = self._launch_bound(time_us)
        steps = self._steps()
        measured = Measured(
            clock=sampler.clock,
            low_us=interval.low,
            high_us=interval.high,
            samples=len(kernel.samples),
            relative_stdev=relative_spread(kernel.samples),
            warm_us=warm_us,
            host_us=host.get(KERNEL),
            graph_us=graphs.get(KERNEL),
            rivals=tuple(_with_latency(rival, host, graphs) for rival in held),
            steps=steps,
            missing=(*self.missing, *odd),
            crosschecks=checks,
            conditions=taken.conditions,
            suspicion=suspicion(time_us, checks, self.setting.physics, self.options, self.disturbed),
            disturbed=self.disturbed,
        )
        return Timing(time_us, measured, raw, self.options, 0.0, wrong)

    def _first_calls(self) -> None:
        """Whatever happens once happens here; a baseline that fails is missing, not the kernel's fault."""
        for name in list(self.acts):
            try:
                self.acts[name](0)
                self.host[name] = host_us(self.acts[name])
            except Exception as error:
                if name == KERNEL:
                    raise
                del self.acts[name]
                self.missing.append((name, told(error)))

    def _taken(self) -> tuple[Taken, Sampler, float]:
        """With CUPTI where it works and everybody is one kernel, else with events."""
        watch = Watch(time.perf_counter, open_monitor(pci_bus_id()))
        trace, reason = open_trace() if self.setting.cupti else (None, "")
        if trace is not None:
            sampler, warm = self._traced(trace), self._traced(trace, warm=True)
            try:
                self._calibrate(trace)
                with trace.running():
                    reason = self._stretched(sampler)
                    if not reason:
                        taken = take_case(sampler, self.case, tuple(self.acts), self.options, watch)
                        return taken, sampler, self._warm_us(warm, taken)
            except LostRecords as lost:
                reason = f"CUPTI lost records ({lost})"
        self.missing += [("clock cupti", reason)] if reason else []
        events = self._events()
        taken = take_case(events, self.case, tuple(self.acts), self.options, watch)
        return taken, events, self._warm_us(self._events(warm=True), taken)

    def _traced(self, trace: Trace, warm: bool = False) -> CuptiSampler:
        return CuptiSampler(self.lane, self.acts, self.host, warm, trace=trace)

    def _stretched(self, sampler: CuptiSampler) -> str:
        """Why CUPTI's times would not be fair; empty when they are.

        One contestant at a time: the first that has several activities settles it, and a graph of it is never
        traced. In a graph a memory set, with which torch begins sums of few long rows, upsets the marks: all
        17 cases on an H100 whose samples had "no end" held such a graph; without it the same references were
        traced well. Raises ``LostRecords`` that names the contestant.
        """
        for name in self.acts:
            try:
                sampler.take([Turn(name, 0)])
            except LostRecords as lost:
                raise LostRecords(f"{name}: {lost}") from lost
            if (several := sampler.activities[name]) > 1:
                return f"tracing stretches the gaps between several kernels: {name} ({several})"
        return ""

    def _calibrate(self, trace: CuptiTrace[Record]) -> None:
        """Once a process: what a pair of events adds to the time of a short kernel."""
        if self.lane.calibrated:
            return
        short = {"short": self.lane.short}
        turns = [Turn("short", 0)] * CALIBRATIONS
        by_events = EventSampler(self.lane, short, {"short": 10.0}).take(turns)  # while nothing is traced
        with trace.running():
            by_cupti = CuptiSampler(self.lane, short, {"short": 10.0}, trace=trace).take(turns)
        added = quietest(by_events) - quietest(by_cupti)
        self.lane.overhead_us = min(max(self.lane.overhead_us, added), MOST_ADDED_US)
        self.lane.calibrated = True

    def _events(self, warm: bool = False) -> EventSampler:
        return EventSampler(self.lane, self.acts, self.host, warm, self.lane.overhead_us)

    def _warm_us(self, sampler: Sampler, taken: Taken) -> float:
        cold_us = taken.raw.track(KERNEL).blocks[0][0]
        return statistics.median(sampler.take([Turn(KERNEL, 0)] * self.options.checks_at(cold_us)))

    def _crosschecks(self, sampler: Sampler, taken: Taken, time_us: float) -> tuple[tuple[str, float], ...]:
        found = []
        samples, act = self.options.checks_at(time_us), self.acts[KERNEL]
        if sampler.clock == "cupti":
            look = partial(crosscheck.events_us, self._events(), KERNEL, samples)
            found.append((EVENTS, crosscheck.looked_again(look, time_us, self.options)))
        host_us, flush_us = self.host[KERNEL], self.lane.flush_us
        look = partial(crosscheck.slope_us, self.lane, act, time_us, samples)
        paced = not crosscheck.usable(host_us, time_us, flush_us)
        seen = look() if paced else crosscheck.looked_again(look, time_us, self.options)
        seen = self._less_heat(seen, act, time_us)
        if not paced and disagreement(time_us, [(SLOPE, seen)], self.options):
            seen = self._undisturbed(seen, time_us, taken)
        # By what was seen, not by what is claimed: a short time must not be what keeps the wall clock away.
        if not paced or crosscheck.usable(host_us, seen, flush_us):
            found.append((SLOPE, seen))
        return crosscheck.believed(found)

    def _undisturbed(self, seen: float, time_us: float, taken: Taken) -> float:
        """The wall clock again, some time later, beside a baseline's.

        A baseline's work ends when it seems to. Where the wall clock sees more than the device of it as well,
        something else keeps the host or the card busy, and nothing is told of the kernel: others opening
        problems on the same machine made a kernel of 592 us one of 10,419. A baseline that takes long hides
        what disturbs a short kernel, and what disturbs may be gone by then: 27 us were 36 beside a baseline
        of 1315, and 753 were 2199 once. So the kernel is looked at again too. What goes on behind the clocks
        goes on each time.
        """
        rival, also, quiet = next(iter(taken.raw.rivals), None), "", False
        for pause_s in (*PAUSES_S, 0.0):
            theirs_us = statistics.median(rival.medians) if rival else 0.0
            theirs = self._wall_us(rival.name, theirs_us) if rival else 0.0
            if rival is None or not disagreement(theirs_us, [(SLOPE, theirs)], self.options):
                quiet, seen = True, crosscheck.nearer(seen, self._wall_us(KERNEL, time_us), time_us)
                if not disagreement(time_us, [(SLOPE, seen)], self.options):
                    return seen
            else:
                also = f"so do those of {rival.name} ({theirs_us:.1f} us, {theirs:.1f} us)"
            time.sleep(pause_s)
        self.disturbed = "" if quiet else also
        return seen

    def _wall_us(self, name: str, time_us: float) -> float:
        samples, act = self.options.checks_at(time_us), self.acts[name]
        seen = crosscheck.slope_us(self.lane, act, time_us, samples)
        return self._less_heat(seen, act, time_us)

    def _less_heat(self, seen: float, act: Act, time_us: float) -> float:
        """Less what a call takes longer in a row of calls, where the clocks disagree."""
        if not disagreement(time_us, [(SLOPE, seen)], self.options):
            return seen
        return seen - crosscheck.slower_us(self.lane, act, time_us)

    def _steps(self) -> tuple[StepTime, ...]:
        """What each step of the plan takes, where there are several and CUPTI tells."""
        trace = open_trace()[0] if self.setting.cupti else None
        if trace is None or self.setting.marked is None or len(self.setting.steps) < 2:
            return ()
        try:
            with trace.running():
                times = step_times_us(self.lane, trace, self.setting.marked, len(self.setting.steps))
        except (LostRecords, GpuError, torch.OutOfMemoryError) as why:  # the time of the whole stands
            self.missing.append(("clock cupti", f"the steps of the plan were not timed: {told(why)}"))
            return ()
        pairs = zip(self.setting.steps, times, strict=True)
        return tuple(step.model_copy(update={"time_us": time_us}) for step, time_us in pairs)

    def _outputs_again(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """What is wrong with the kernel's output, and baselines whose output is not the reference's.

        One more cold call of each, on a copy of the inputs that is not the first; it looks like any other.
        """
        outputs = self._one_more(KERNEL)
        wrong = self.setting.check(outputs) if self.setting.check else ""
        mine = parts_of(outputs)
        del outputs
        names = [name for name in self.acts if name != KERNEL]
        rms, reference = LARGEST_RMS, mine
        if self.setting.check is not None and EAGER in names:
            names.remove(EAGER)  # it is the reference, however it rounds
            reference = parts_of(self._one_more(EAGER))
            rms = allowed_beside(mine, reference)
        theirs = ((name, parts_of(self._one_more(name))) for name in names)
        # What comes in nobody's order, as topk's unsorted, torch's own calls bring as the reference has it.
        odd = [(name, unlike(mine, parts, rms) and unlike(reference, parts, rms)) for name, parts in theirs]
        odd = [(name, "" if why and self._is_one_of_several(name) else why) for name, why in odd]
        if self.setting.check is None and odd and odd[0][1]:
            return odd[0][1], ()  # nobody else says who is right: it is not the kernel
        told = "its output is not the reference's"
        return wrong, tuple((name, f"{told}: {why}") for name, why in odd if why and not wrong)

    def _is_one_of_several(self, name: str) -> bool:
        """True where the reference leaves open which result it has, and nobody says that this is none."""
        check = self.setting.check
        return self.setting.left_open and (check is None or not check(self._one_more(name)))

    def _one_more(self, name: str) -> tuple[Tensor, ...]:
        self.lane.open_cold()
        outputs = self.acts[name](ANOTHER)
        self.lane.close()
        self.lane.wait()
        return outputs

    def _launch_bound(self, time_us: float) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """Host latency and time under a CUDA graph of everybody, where the kernel is short."""
        if time_us >= self.options.launch_bound_us:
            return {}, {}
        with ExitStack() as stack:
            graphs = {name: stack.enter_context(replaying(act)) for name, act in self.acts.items()}
            held = {name: act for name, act in graphs.items() if act is not None}
            host = dict.fromkeys(held, REPLAY_US)
            events = EventSampler(self.lane, held, host, overhead_us=self.lane.overhead_us)
            times = {name: crosscheck.events_us(events, name, self.options.checks) for name in held}
        return self.host, {name: us for name, us in times.items() if us > LEAST_REPLAY_US}


def _without(raw: RawTimes, odd: tuple[tuple[str, str], ...]) -> RawTimes:
    names = {name for name, _ in odd}
    return RawTimes(case=raw.case, tracks=tuple(t for t in raw.tracks if t.name not in names))


def _with_latency(rival: Rival, host: Mapping[str, float], graphs: Mapping[str, float]) -> Rival:
    return rival.model_copy(update={"host_us": host.get(rival.name), "graph_us": graphs.get(rival.name)})
