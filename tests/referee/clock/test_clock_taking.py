"""The whole clock on a simulated GPU: how often its verdicts are right."""

from __future__ import annotations

from collections import Counter

import pytest

from workbench.referee.clock.conditions import Blind, Snapshot, is_throttled, named, summary
from workbench.referee.clock.options import INTERACTIVE, ClockOptions
from workbench.referee.clock.samples import KERNEL
from workbench.referee.clock.simulated import Noise, SimulatedSampler
from workbench.referee.clock.taking import Taken, Turn, Watch, take_case
from workbench.referee.clock.verdicts import rivals_of

RUNS = 100
FAST = INTERACTIVE.model_copy(update={"resamples": 200})
LOUD = Noise(relative=0.015, drift=0.02, outliers=0.03)


def verdicts(kernel_us: float, rival_us: float, noise: Noise, runs: int = RUNS) -> Counter[str]:
    found: Counter[str] = Counter()
    for seed in range(runs):
        sampler = SimulatedSampler({KERNEL: kernel_us, "rival": rival_us}, noise, seed)
        taken = take(sampler, FAST)
        found[rivals_of(taken.raw, FAST)[0].verdict] += 1
    return found


def take(sampler: SimulatedSampler, options: ClockOptions) -> Taken:
    return take_case(sampler, "8", tuple(sampler.times_us), options, Watch(sampler.now, Blind()))


@pytest.mark.parametrize("noise", [Noise(), LOUD], ids=["as seen", "loud"])
def test_a_kernel_against_itself_is_the_same(noise: Noise) -> None:
    found = verdicts(100.0, 100.0, noise)
    assert found["SAME"] >= 95, found


@pytest.mark.parametrize("noise", [Noise(), LOUD], ids=["as seen", "loud"])
def test_two_percent_of_a_hundred_microseconds_are_found(noise: Noise) -> None:
    assert verdicts(102.0, 100.0, noise)["SLOWER"] >= 90
    assert verdicts(100.0, 102.0, noise, runs=20)["FASTER"] >= 18


def test_a_short_kernel_is_not_called_faster_for_a_tick_of_the_timer() -> None:
    found = verdicts(4.0, 4.0, Noise(), runs=8)
    assert found["FASTER"] + found["SLOWER"] <= 1, found


def test_an_interactive_verdict_takes_a_fraction_of_a_second() -> None:
    sampler = SimulatedSampler({KERNEL: 100.0, "eager": 150.0, "compile": 110.0}, seed=1)
    take(sampler, INTERACTIVE)
    assert sampler.clock_s < 0.4
    slow = SimulatedSampler({KERNEL: 8000.0, "eager": 14000.0, "compile": 9000.0}, seed=1)
    taken = take(slow, INTERACTIVE)
    assert len(taken.raw.track(KERNEL).blocks) >= INTERACTIVE.blocks
    assert slow.clock_s < 3.0


def test_the_full_rules_are_kept() -> None:
    sampler = SimulatedSampler({KERNEL: 100.0, "eager": 150.0}, Noise(relative=0.001, drift=0.001))
    taken = take(sampler, ClockOptions())
    assert taken.seconds >= 0.5
    assert sampler.clock_s >= 0.7, "warming up comes on top"
    assert len(taken.raw.track(KERNEL).samples) >= 30


def test_without_baselines_only_the_kernel_is_timed() -> None:
    sampler = SimulatedSampler({KERNEL: 100.0})
    taken = take(sampler, FAST)
    assert taken.raw.rivals == ()
    assert rivals_of(taken.raw, FAST) == ()


def test_both_sides_of_a_half_block_read_the_same_tensors() -> None:
    seen: list[Turn] = []

    class Recording(SimulatedSampler):
        def take(self, turns):  # type: ignore[no-untyped-def]
            seen.extend(turns)
            return super().take(turns)

    take(Recording({KERNEL: 100.0, "rival": 100.0}), FAST)
    last = max(i for i in range(len(seen)) if seen[i].rotation == 0)
    first = seen[last - 1 : last + 3]
    assert [turn.rotation for turn in first] == [0, 0, 1, 1]
    assert [turn.name for turn in first] == [KERNEL, "rival", "rival", KERNEL]


# ------------------------------------------------------------------------------------ the card's state


class Card:
    """Throttles in the first looks."""

    def __init__(self, throttled: int, reason: str) -> None:
        self.left, self.reason = throttled, reason

    def look(self) -> Snapshot:
        self.left -= 1
        return Snapshot(1500 if self.left >= 0 else 1980, 600.0, 60, (self.reason,) if self.left >= 0 else ())

    def others(self) -> int:
        return 1


def test_samples_of_a_throttled_card_are_dropped() -> None:
    sampler = SimulatedSampler({KERNEL: 100.0})
    watch = Watch(sampler.now, Card(2, "temperature"))
    conditions = take_case(sampler, "8", (KERNEL,), FAST, watch).conditions
    assert conditions.dropped > 0
    assert conditions.throttled == ("temperature",)
    assert (conditions.sm_mhz_low, conditions.sm_mhz_high) == (1500, 1980)
    assert conditions.other_processes == 1


def test_a_power_cap_is_told_but_costs_nothing() -> None:
    sampler = SimulatedSampler({KERNEL: 100.0})
    conditions = take_case(sampler, "8", (KERNEL,), FAST, Watch(sampler.now, Card(2, "power cap"))).conditions
    assert conditions.dropped == 0
    assert conditions.throttled == ("power cap",)


def test_a_card_that_never_cools_still_ends() -> None:
    sampler = SimulatedSampler({KERNEL: 100.0})
    taken = take_case(sampler, "8", (KERNEL,), FAST, Watch(sampler.now, Card(10**9, "temperature")))
    assert taken.raw.track(KERNEL).blocks
    assert taken.conditions.dropped > 0


def test_reasons_in_words() -> None:
    assert named(0x1) == (), "idling is no reason"
    assert named(0x4 | 0x20) == ("power cap", "temperature")
    assert not is_throttled(Snapshot(0, 0, 0, ("power cap", "application clocks")))
    assert is_throttled(Snapshot(0, 0, 0, ("power brake",)))
    assert summary((), 0, None).sm_mhz_high == 0
