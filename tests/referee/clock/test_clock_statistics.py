"""Intervals cover the truth as often as they say, whatever the rare outlier does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.referee.clock.options import ClockOptions
from workbench.referee.clock.samples import RawTimes, Track, pairs, turns
from workbench.referee.clock.statistics import (
    Interval,
    chained_ratio,
    median_interval,
    paired_ratio,
    quietest,
    relative_spread,
)
from workbench.referee.clock.stopping import Stopping, stable
from workbench.referee.clock.verdicts import chained_rivals, comparison, rivals_of

OPTIONS = ClockOptions(resamples=300)


def blocks(mean: float, count: int, seed: int, spread: float = 0.01) -> tuple[tuple[float, float], ...]:
    draws = mean * (1 + spread * np.random.default_rng(seed).standard_normal((count, 2)))
    return tuple((float(a), float(b)) for a, b in draws)


def raw_of(**means: float) -> RawTimes:
    tracks = (
        Track(name=name, blocks=blocks(mean, 60, seed)) for seed, (name, mean) in enumerate(means.items())
    )
    return RawTimes(case="8", tracks=tuple(tracks))


def test_an_interval_covers_the_truth_in_about_95_of_100() -> None:
    covered = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        drift = 1 + 0.05 * random.standard_normal(30)
        kernel = 100 * drift * (1 + 0.01 * random.standard_normal(30))
        rival = 103 * drift * (1 + 0.01 * random.standard_normal(30))
        ratio = paired_ratio(kernel.tolist(), rival.tolist(), 400, seed)
        covered += ratio.low <= 1.03 <= ratio.high
    assert 180 <= covered <= 198


def test_a_ratio_is_not_moved_by_a_few_wild_blocks() -> None:
    kernel, rival = [100.0] * 20, [150.0] * 20
    rival[3], rival[7], rival[11] = 900.0, 4000.0, 150.1
    ratio = paired_ratio(kernel, rival, 200, 0)
    assert ratio.middle == pytest.approx(1.5)
    assert ratio.low == pytest.approx(1.5)


def test_the_same_samples_and_seed_give_the_same_interval() -> None:
    raw = raw_of(kernel=100.0, eager=150.0)
    assert rivals_of(raw, OPTIONS) == rivals_of(raw, OPTIONS)
    assert rivals_of(raw, OPTIONS) != rivals_of(raw, OPTIONS.model_copy(update={"seed": 1}))


def test_blocks_must_pair_up() -> None:
    with pytest.raises(ValueError, match="2 blocks of the kernel against 1"):
        paired_ratio([1.0, 1.0], [1.0], 10, 0)


@given(st.lists(st.floats(1.0, 1e4), min_size=2, max_size=40), st.floats(0.1, 10.0))
def test_spread_and_ratio_have_no_unit(samples: list[float], factor: float) -> None:
    scaled = [factor * sample for sample in samples]
    assert relative_spread(scaled) == pytest.approx(relative_spread(samples), abs=1e-9)
    ratio = paired_ratio(samples, scaled, 50, 0)
    assert ratio.middle == pytest.approx(factor)
    assert ratio.half_width == pytest.approx(0.0, abs=1e-6)


def test_a_median_lies_in_its_interval() -> None:
    interval = median_interval([1.0, 2.0, 3.0, 4.0, 100.0], 500, 0)
    assert interval.low <= interval.middle == 3.0 <= interval.high


def test_spread_is_a_standard_deviation_for_normal_noise() -> None:
    draws = 50 * (1 + 0.02 * np.random.default_rng(0).standard_normal(20_000))
    assert relative_spread(draws.tolist()) == pytest.approx(0.02, rel=0.05)
    assert relative_spread([3.0]) == 0.0


# ------------------------------------------------------------------------------------ verdicts


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.0, 1.0, "SAME"),
        (0.99, 1.012, "SAME"),
        (1.008, 1.012, "FASTER"),
        (0.97, 0.99, "SLOWER"),
        (0.98, 1.02, "AMBIGUOUS"),
        (1.005, 1.02, "AMBIGUOUS"),
        (0.9, 3.0, "AMBIGUOUS"),
        (1.5, 1.6, "FASTER"),
    ],
)
def test_words_of_intervals(low: float, high: float, verdict: str) -> None:
    assert comparison(Interval((low + high) / 2, low, high), 100.0, ClockOptions()) == verdict


def test_nothing_is_claimed_below_the_timers_tick() -> None:
    ratio = Interval(1.015, 1.012, 1.018)
    assert comparison(ratio, 100.0, OPTIONS) == "FASTER"
    assert comparison(ratio, 1.5, OPTIONS) == "SAME", "1.5% of 1.5 us is less than a tick of 32 ns"


@given(st.floats(0.5, 2.0), st.floats(0.0, 0.2))
def test_swapping_the_sides_swaps_the_word(middle: float, width: float) -> None:
    interval = Interval(middle, middle / (1 + width), middle * (1 + width))
    mirrored = Interval(1 / middle, 1 / interval.high, 1 / interval.low)
    opposite = {"FASTER": "SLOWER", "SLOWER": "FASTER", "SAME": "SAME", "AMBIGUOUS": "AMBIGUOUS"}
    edges = (1 + OPTIONS.margin, 1 / (1 + OPTIONS.margin), 1 + OPTIONS.same, 1 / (1 + OPTIONS.same))
    if not any(abs(end - edge) < 1e-9 for end in (interval.low, interval.high) for edge in edges):
        assert comparison(mirrored, 100.0, OPTIONS) == opposite[comparison(interval, 100.0, OPTIONS)]


def test_every_baseline_gets_its_own_verdict() -> None:
    first, second = rivals_of(raw_of(kernel=100.0, eager=150.0, compile=90.0), OPTIONS)
    assert (first.name, first.verdict, second.name, second.verdict) == (
        "eager",
        "FASTER",
        "compile",
        "SLOWER",
    )
    assert first.low < 1.5 < first.high
    assert first.blocks == 60


def test_a_baseline_timed_earlier_is_reached_through_one_timed_now() -> None:
    now = raw_of(kernel=100.0, compile=110.0)
    earlier = raw_of(eager=200.0, compile=120.0, autotuned=108.0)
    eager, autotuned = chained_rivals(now, earlier, OPTIONS)
    assert (eager.name, autotuned.name) == ("eager", "autotuned")
    assert eager.ratio == pytest.approx(110 / 100 * 200 / 120, rel=0.01)
    direct = rivals_of(now, OPTIONS)[0]
    assert autotuned.high / autotuned.low > direct.high / direct.low, "two runs are less certain than one"
    assert chained_rivals(now, raw_of(eager=1.0), OPTIONS) == ()


def test_chaining_adds_what_both_runs_do_not_know() -> None:
    sure, unsure = ([1.0] * 20, [2.0] * 20), ([1.0] * 20, [3.0, 3.3] * 10)
    ratio = chained_ratio(sure, unsure, 200, 0)
    alone = paired_ratio(*unsure, 200, 1)
    assert ratio.low == pytest.approx(2 * alone.low)
    assert ratio.high == pytest.approx(2 * alone.high)


# ------------------------------------------------------------------------------------ order and stopping


def test_a_block_goes_there_and_back_and_starts_at_either_end() -> None:
    assert turns(("a", "b"), 0) == ("a", "b", "b", "a")
    assert turns(("a", "b"), 1) == ("b", "a", "a", "b")
    assert turns(("a", "b", "c"), 2) == ("a", "b", "c", "c", "b", "a")
    assert pairs(("a", "b", "b", "a"), (1.0, 2.0, 3.0, 4.0)) == {"a": (1.0, 4.0), "b": (2.0, 3.0)}


def test_a_straight_drift_cancels_in_a_block() -> None:
    order = turns(("kernel", "eager", "compile"), 0)
    block = pairs(order, [100.0 + 2 * turn for turn in range(len(order))])
    assert len({sum(pair) for pair in block.values()}) == 1


def test_noise_is_stable_when_the_last_looks_agree() -> None:
    assert not stable([0.01, 0.01])
    assert stable([0.5, 0.0100, 0.0101, 0.0099])
    assert not stable([0.01, 0.02, 0.01])
    assert stable([0.0, 0.0, 0.0])


def looked(raw: RawTimes, seconds: float, **options: float) -> bool:
    return Stopping(ClockOptions(resamples=200).model_copy(update=options)).enough(raw, seconds)


def test_sampling_ends_when_all_is_known_and_not_before() -> None:
    quiet = RawTimes(
        case="8",
        tracks=(
            Track(name="kernel", blocks=blocks(100.0, 40, 0, 0.001)),
            Track(name="eager", blocks=blocks(100.0, 40, 1, 0.001)),
        ),
    )
    assert looked(quiet, 0.6)
    assert not looked(quiet, 0.4), "half a second has not passed"
    assert not looked(quiet, 0.6, samples=100)
    assert not looked(quiet, 0.6, blocks=50)
    assert not looked(quiet, 0.6, half_width=1e-6)
    noisy = raw_of(kernel=100.0, eager=100.0)
    assert not looked(noisy, 0.6), "1% of noise, seen once, is neither small nor known to stay"
    assert looked(noisy, 15.0)


def test_a_decided_ratio_need_not_be_narrow() -> None:
    loud = RawTimes(
        case="8",
        tracks=(
            Track(name="kernel", blocks=blocks(100.0, 20, 0, 0.001)),
            Track(name="eager", blocks=blocks(200.0, 20, 1, 0.1)),
        ),
    )
    assert looked(loud, 0.6)


def test_a_disturbed_stretch_does_not_raise_a_cost() -> None:
    assert quietest([16.0, 17.0, 16.5, 18.0, 16.0, 2.4, 2.5, 2.4, 9.0, 2.5, 16.0]) == 2.5


def test_fewer_samples_than_a_stretch_are_one() -> None:
    assert quietest([3.0, 1.0, 2.0]) == 2.0
