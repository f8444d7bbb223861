"""Times a solution against the reference's own baselines, turn by turn; the trusted side.

Owns the order of turns, which timed outputs are compared, and the clock that the solution's process cannot
reach: the wall clock over rows of calls. The solution is timed in its own process, the baselines in this
one, both by ``stopwatch.py``. What comes out is a ``ForeignTime``; a wrong output of a timed call raises
``Decided``, a machine that cannot time raises ``NotTimed``.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from workbench.errors import DeviceError, ProblemError
from workbench.foreign import cases, verdicts
from workbench.foreign.arena import Full
from workbench.foreign.hatch import Decided, Hatch, decide
from workbench.foreign.protocol import Answer, Called, Followed, Sampled
from workbench.foreign.stopwatch import ATTEMPTS, Reading, Stopwatch, stopwatch, vary
from workbench.foreign.values import ForeignTime
from workbench.model import Case, Crashed, size_of
from workbench.numerics.inputs import draw, draw_on
from workbench.numerics.precision import precision
from workbench.referee.clock import crosscheck
from workbench.referee.clock.contestants import Baselines, prepare_inductor, told
from workbench.referee.clock.lane import Act
from workbench.referee.clock.options import ClockOptions, Physics
from workbench.referee.clock.physics import physics_of
from workbench.referee.clock.samples import KERNEL, RawTimes, pairs, raw_times, turns
from workbench.referee.clock.statistics import median_interval
from workbench.referee.clock.stopping import Stopping
from workbench.referee.clock.suspicion import SLOPE, suspicion
from workbench.referee.clock.verdicts import rivals_of
from workbench.referee.gpu_expectation import DRAWN_ON_CPU, Expectations
from workbench.referee.gpu_memory import Guarded, guarded

BASES, PLACES = 2, 3
"""Different contents to start from, and sets of addresses they are put at."""
WARM_UPS = 3
CHECKED_SHARE, LARGE_SHARE = 0.2, 0.07
"""How many of the timed calls are compared; fewer where an output is large."""
LARGE_BYTES = 2**26
ROW_US = 20_000.0
MOST_IN_A_ROW = 24
HOST_SPARE_US = 150.0
LATE_SHARE = 0.5
"""A solution most of whose time is on streams that the caller's does not wait for; a second net, for machines
without CUPTI (unjoined.py)."""
WALL_DISAGREEMENT, WALL_DISAGREEMENT_US = 0.10, 20.0
"""The wall clock also sees what two processes say to each other: more may lie between it and the events."""


class NotTimed(Exception):
    """There is no time, and why; the verdict stands without one."""


@dataclass
class _Scene:
    """One case: contents, addresses, and the two sides that are timed on them."""

    case: Case
    bases: list[dict[str, Tensor]]
    sets: list[tuple[Guarded, ...]]
    watch: Stopwatch
    acts: Mapping[str, Act] = field(default_factory=dict)
    missing: tuple[tuple[str, str], ...] = ()
    host_us: dict[str, float] = field(default_factory=dict)
    late_us: list[float] = field(default_factory=list)
    checked: int = 0
    first: bool = True

    @property
    def rooms(self) -> list[dict[str, Tensor]]:
        """The sets by name."""
        return [{one.name: one.tensor for one in held} for held in self.sets]


class Bench:
    """Times cases of one problem; one object a solution."""

    def __init__(self, hatch: Hatch, base: int) -> None:
        self.hatch, self.base = hatch, base
        self.problem, self.options = hatch.problem, hatch.options
        self.device = self.options.device
        self.expectations = Expectations(self.problem, self.device)
        self.baselines = Baselines(self.expectations.reference.form)
        self.varied = [spec.name for spec in self.problem.tensors if spec.role == "input"]
        self.dice = random.Random(cases.seed(base, 9300))

    def timed(self, case: Case) -> ForeignTime:
        """Time one case. Raises ``NotTimed``, ``Decided`` and ``Ended``."""
        try:
            with torch.no_grad(), precision(self.problem.contract), self._closing():
                return self._timed(case)
        except Full as full:
            raise NotTimed(f"its tensors are too large to hand over ({full})") from full
        except (
            RuntimeError,
            ImportError,
            OSError,
            DeviceError,
            ProblemError,
        ) as error:  # the GPU's or the compiler's, in this process
            raise NotTimed(told(error)) from error

    @contextmanager
    def _closing(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.baselines.close()

    def _timed(self, case: Case) -> ForeignTime:
        scene = self._scene(case)
        for _ in range(WARM_UPS):
            for name in (KERNEL, *scene.acts):
                self._sampled(scene, name, check=False)
        self._followed(scene)
        raw = self._blocks(scene)
        kernel = raw.track(KERNEL)
        time_us = statistics.median(kernel.medians)
        wall_us = self._wall_us(scene, time_us)
        self._sampled(scene, KERNEL, check=True)  # after timing, one more that looks like any other
        late_us = statistics.median(scene.late_us)
        interval = median_interval(kernel.medians, self.options.clock.resamples, self.options.clock.seed)
        return ForeignTime(
            case=case.label,
            clock="events" if self.device == "cuda" else "host",
            time_us=time_us,
            low_us=interval.low,
            high_us=interval.high,
            samples=len(kernel.samples),
            checked=scene.checked,
            host_us=scene.host_us[KERNEL],
            late_us=late_us,
            wall_us=wall_us,
            rivals=rivals_of(raw, self.options.clock),
            missing=scene.missing,
            suspicion=afterwards(late_us, time_us) or self._odd(case, time_us, wall_us),
        )

    # -------------------------------------------------------------------------------- setting up

    def _scene(self, case: Case) -> _Scene:
        bases = [self._drawn(case, turn) for turn in range(BASES)]
        held = {name: tensor for name, tensor in bases[0].items() if name not in self.varied}
        bases = [{**base, **held} for base in bases]
        self.hatch.hand_over(case, held)
        self.hatch.outbox.clear()
        question = {
            "kind": "bench",
            "arguments": [self.hatch.arguments(base, returned=False) for base in bases],
            "places": PLACES,
            "clock": self.options.clock.model_dump(),
        }
        ready = self.hatch.asked(Answer, question)
        if ready.raised is not None:
            raise NotTimed(f"its process says {ready.raised.type}: {ready.raised.message[:200]}")
        metas = self.problem.metas(case)
        sets = [tuple(guarded(name, metas[name], self.device) for name in bases[0]) for _ in range(PLACES)]
        scene = _Scene(case, bases, sets, stopwatch(self.device, self.options.clock))
        for place, room in enumerate(scene.rooms):
            self._fill(scene, place, 0, 0)
            for name in held:
                room[name].copy_(held[name])
        if self.device == "cuda":
            prepare_inductor()
        names = [name for name in self.options.baselines if self.device == "cuda" or name == "eager"]
        scene.acts, scene.missing = self.baselines.acts(names, scene.rooms)
        return scene

    def _drawn(self, case: Case, turn: int) -> dict[str, Tensor]:
        seed = cases.seed(self.base, 9301 + turn)
        metas = self.problem.metas(case)
        if self.device == "cpu" or sum(meta.numel for meta in metas.values()) <= DRAWN_ON_CPU:
            return {n: t.to(self.device) for n, t in draw(self.problem, case, "normal", seed).items()}
        places = {name: guarded(name, meta, self.device).tensor for name, meta in metas.items()}
        draw_on(self.device, self.problem, case, "normal", seed, places)
        return places

    def _fill(self, scene: _Scene, place: int, base: int, seed: int) -> None:
        """The contents that the solution's process writes for the same seed."""
        rooms, values = scene.rooms[place], scene.bases[base]
        for turn, name in enumerate(self.problem.signature):
            if name in values:
                vary(rooms[name], values[name], seed + 2**20 * turn)

    # -------------------------------------------------------------------------------- turns

    def _blocks(self, scene: _Scene) -> RawTimes:
        """Blocks there and back, until the stopping rule is content."""
        names, stopping = (KERNEL, *scene.acts), Stopping(self.options.clock)
        blocks: list[dict[str, tuple[float, float]]] = []
        started = time.perf_counter()
        while True:
            order = turns(names, len(blocks))
            blocks.append(pairs(order, [self._sampled(scene, name) for name in order]))
            raw = raw_times(scene.case.label, names, blocks)
            if stopping.enough(raw, time.perf_counter() - started):
                return raw

    def _sampled(self, scene: _Scene, name: str, check: bool | None = None) -> float:
        """One timed call of one contestant, on contents nobody has seen; microseconds."""
        base, place = self.dice.randrange(BASES), self.dice.randrange(PLACES)
        seeds = [self.dice.randrange(2**40) for _ in range(ATTEMPTS)]
        if name == KERNEL:
            return self._of_solution(scene, (base, place), seeds, check)
        fill = partial(self._fill_attempt, scene, (base, place), seeds)
        lead_us = scene.host_us.get(name, 1000.0)
        reading: Reading = scene.watch.once(fill, lambda: scene.acts[name](place), lead_us)
        scene.host_us[name] = reading.host_us
        return reading.time_us

    def _fill_attempt(self, scene: _Scene, where: tuple[int, int], seeds: list[int], attempt: int) -> None:
        self._fill(scene, where[1], where[0], seeds[attempt])

    def _of_solution(
        self, scene: _Scene, where: tuple[int, int], seeds: list[int], check: bool | None
    ) -> float:
        outputs = self._outputs(scene.case)
        nbytes = sum(verdicts.nbytes(name, shape) for name, shape in outputs)
        share = LARGE_SHARE if nbytes > LARGE_BYTES else CHECKED_SHARE
        wanted = scene.first or (self.dice.random() < share if check is None else check)
        self.hatch.outbox.clear()
        slots = self.hatch.places(outputs) if wanted else []
        question = {"kind": "sample", "base": where[0], "place": where[1], "seeds": seeds, "slots": slots,
                    "host_us": scene.host_us.get(KERNEL, 1000.0)}  # fmt: skip
        called = self.hatch.asked(Sampled, question)
        self._stands(called, scene, slots)
        if wanted:
            self._compare(scene, where, seeds[called.attempt], slots)
        scene.first = False
        scene.host_us[KERNEL] = min(called.host_us, 1e6)
        scene.late_us.append(called.late_us)
        return called.time_us

    def _followed(self, scene: _Scene) -> None:
        """Work that the caller's stream does not wait for is told before anything is timed."""
        base, place = self.dice.randrange(BASES), self.dice.randrange(PLACES)
        question = {"kind": "follow", "base": base, "place": place, "seed": self.dice.randrange(2**40)}
        followed = self.hatch.asked(Followed, question)
        decide(verdicts.unjoined(followed))  # what it raises here it raises again where it is timed

    def _stands(self, called: Called, scene: _Scene, slots: list[dict[str, Any]]) -> None:
        if called.raised is not None:
            raise Decided(verdicts.failed(called.raised, scene.case.label))
        if slots:
            decide(verdicts.form(called, slots, scene.case.label, self.device))
        decide(verdicts.wires(called))

    def _compare(self, scene: _Scene, where: tuple[int, int], seed: int, slots: list[dict[str, Any]]) -> None:
        """A timed call's outputs against the oracle, on this side's own copy of its contents."""
        self._fill(scene, where[1], where[0], seed)
        outputs = tuple(out.to(self.device) for out in self.hatch.read(slots))
        found = self.expectations.differences(
            self.expectations.held(scene.case, scene.sets[where[1]]), outputs
        )
        scene.checked += 1
        decide(verdicts.mismatch(found, scene.case.label, "in a timed call"))

    def _outputs(self, case: Case) -> list[Any]:
        sizes = case.size_map
        return [
            (spec.dtype, tuple(size_of(dim, sizes) for dim in spec.dims)) for spec in self.problem.outputs
        ]

    # -------------------------------------------------------------------------------- another clock

    def _wall_us(self, scene: _Scene, time_us: float) -> float | None:
        """What one more call in a row adds by this process's own clock; None where the host sets the pace."""
        if time_us <= 1.2 * (scene.host_us[KERNEL] + HOST_SPARE_US) or self.device != "cuda":
            return None
        count = max(2, min(MOST_IN_A_ROW, int(ROW_US / (time_us + scene.watch.flush_us))))

        def slope(idle: bool) -> float:
            looks = [self._row_s(scene, 2 * count, idle) - self._row_s(scene, count, idle) for _ in range(3)]
            return 1e6 * statistics.median(looks) / count

        tolerant = self._tolerant()
        return crosscheck.looked_again(lambda: slope(False) - slope(True), time_us, tolerant)

    def _row_s(self, scene: _Scene, count: int, idle: bool) -> float:
        seed = self.dice.randrange(2**40)
        self.hatch.outbox.clear()
        slots = [] if idle else self.hatch.places(self._outputs(scene.case))
        question = {"kind": "row", "count": count, "seed": seed, "idle": idle, "slots": slots}
        started = time.perf_counter()
        called = self.hatch.asked(Called, question)
        spent = time.perf_counter() - started
        self._stands(called, scene, slots)
        if called.done != count:
            raise Decided(
                Crashed(case=self.hatch.at, message="the process gave an answer that makes no sense")
            )
        if slots and self.dice.random() < CHECKED_SHARE:
            last = count - 1
            self._compare(scene, (last % BASES, last % PLACES), seed + last, slots)
        return spent

    def _odd(self, case: Case, time_us: float, wall_us: float | None) -> str:
        physics = Physics()
        if self.device == "cuda":
            from workbench.referee.gpu_card import card

            own = card(0, measure_copy=False)
            physics = physics_of(self.problem, case, own.target, own.dram_peak_bytes_per_s)
        seen = ((SLOPE, wall_us),) if wall_us is not None else ()
        return suspicion(time_us, seen, physics, self._tolerant())

    def _tolerant(self) -> ClockOptions:
        more = {"device_disagreement": WALL_DISAGREEMENT, "disagreement_us": WALL_DISAGREEMENT_US}
        return self.options.clock.model_copy(update=more)


def afterwards(late_us: float, time_us: float) -> str:
    """What is odd about a call whose work the caller's stream mostly does not wait for, or nothing."""
    if late_us <= LATE_SHARE * time_us:
        return ""
    return f"{late_us:.0f} of its {time_us:.0f} us are on streams that the caller's stream does not wait for"
