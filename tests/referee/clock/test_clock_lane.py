"""Samplers on a fake device: what lies between two marks is a sample, and anything else is not believed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fake_lane import FakeLane, ones

from workbench.model import H100, Conditions
from workbench.referee.clock import measure as measuring
from workbench.referee.clock.crosscheck import looked_again, slope_us, slower_us, usable
from workbench.referee.clock.lane import CuptiSampler, EventSampler, LostRecords, Record, Span, spans_of
from workbench.referee.clock.measure import MOST_ADDED_US, Setting, measure
from workbench.referee.clock.options import INTERACTIVE, Physics
from workbench.referee.clock.samples import KERNEL, RawTimes, Track
from workbench.referee.clock.suspicion import EVENTS, SLOPE, beyond_physics, disagreement, suspicion
from workbench.referee.clock.taking import Turn

OPTIONS = INTERACTIVE.model_copy(update={"resamples": 100})


def acts(lane: FakeLane, kernels: int = 1, **times_us: float) -> dict[str, Any]:
    def act(time_us: float) -> Any:
        def call(rotation: int) -> Any:
            lane.work(time_us, kernels)
            return ones(rotation)

        return call

    return {name: act(time_us) for name, time_us in times_us.items()}


def test_a_sample_runs_from_the_first_start_to_the_last_end() -> None:
    records = [
        Record(10, 20, "work"),
        Record(20, 30, "open"),
        Record(40, 1040, "work"),
        Record(500, 2040, "work"),
        Record(600, 700, "work"),
        Record(2100, 2101, "close"),
        Record(3000, 9000, "work"),
    ]
    assert spans_of(reversed(records)) == [Span(2.0, 3)]


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([Record(1, 2, "open"), Record(3, 4, "close")], "no work"),
        ([Record(1, 2, "open"), Record(3, 4, "work"), Record(5, 6, "open")], "no end"),
        ([Record(3, 4, "work"), Record(5, 6, "close")], "no beginning"),
        ([Record(1, 2, "open"), Record(0, 0, "work"), Record(5, 6, "close")], "no times"),
    ],
)
def test_a_trace_with_holes_is_not_used(records: list[Record], said: str) -> None:
    with pytest.raises(LostRecords, match=said):
        spans_of(records)


def test_cupti_and_events_see_the_same_kernel() -> None:
    lane = FakeLane()
    contestants = acts(lane, kernel=100.0, eager=50.0)
    host = dict.fromkeys(contestants, 5.0)
    turns = [Turn(KERNEL, 0), Turn("eager", 0), Turn(KERNEL, 1)]
    by_cupti = CuptiSampler(lane, contestants, host, trace=lane).take(turns)
    assert by_cupti == pytest.approx([100.0, 50.0, 100.0])
    by_events = EventSampler(lane, contestants, host, overhead_us=2.0).take(turns)
    assert by_events == pytest.approx([100.0, 50.0, 100.0], abs=1.1)


@pytest.mark.parametrize("warm", [False, True])
def test_lines_that_a_kernel_pins_cost_the_next_contestant_nothing(warm: bool) -> None:
    """A baseline of 7.5 us took 9.2 after a kernel that asked for its results to be evicted last."""
    lane = FakeLane()

    def pins(rotation: int) -> Any:
        lane.work(10.0)
        lane.left_behind_us = 3.0
        return ones(rotation)

    contestants = {KERNEL: pins, **acts(lane, eager=50.0)}
    sampler = CuptiSampler(lane, contestants, dict.fromkeys(contestants, 5.0), warm=warm, trace=lane)
    turns = [Turn(KERNEL, 0), Turn("eager", 0), Turn("eager", 1), Turn(KERNEL, 1)]
    assert sampler.take(turns)[1:3] == pytest.approx([50.0, 50.0])


def test_a_warm_sample_leaves_out_the_call_that_warms() -> None:
    lane = FakeLane()
    sampler = CuptiSampler(lane, acts(lane, kernel=100.0), {KERNEL: 5.0}, warm=True, trace=lane)
    assert sampler.take([Turn(KERNEL, 0)] * 3) == pytest.approx([100.0] * 3)


def test_a_slow_host_gets_a_head_start_that_is_not_measured() -> None:
    lane = FakeLane()
    sampler = CuptiSampler(lane, acts(lane, kernel=10.0), {KERNEL: 500.0}, trace=lane)
    before = lane.time_ns
    assert sampler.take([Turn(KERNEL, 0)]) == pytest.approx([10.0])
    assert lane.time_ns - before > 500_000


def test_a_sample_in_which_the_device_waited_for_the_host_is_taken_again() -> None:
    lane = FakeLane()
    calls = [0]

    def hesitant(rotation: int) -> Any:
        calls[0] += 1
        if calls[0] in (2, 4):
            lane.hold_up(500.0)
        lane.work(10.0)
        return ones(rotation)

    sampler = EventSampler(lane, {KERNEL: hesitant}, {KERNEL: 5.0}, overhead_us=2.0)
    assert sampler.take([Turn(KERNEL, turn) for turn in range(3)]) == pytest.approx([10.0] * 3, abs=1.1)
    assert calls[0] == 5, "the second twice more: its first repeat was late too"
    always = EventSampler(
        lane, {KERNEL: lambda turn: (lane.hold_up(500.0), hesitant(turn))[1]}, {KERNEL: 5.0}
    )
    assert always.take([Turn(KERNEL, 0)])[0] > 500.0, "a host that is always late is told as it is"


def test_several_kernels_in_a_call_are_timed_with_events(lane: FakeLane) -> None:
    eager = acts(lane, kernels=4, eager=100.0)
    found = measure("8", acts(lane, kernel=100.0)[KERNEL], eager, OPTIONS).measured
    assert found.clock == "events"
    assert found.missing == (
        ("clock cupti", "tracing stretches the gaps between several kernels: eager (4)"),
    )
    assert found.rivals[0].time_us == pytest.approx(103.0, abs=1.1), "with the gaps that there are"


def test_a_graph_of_several_kernels_is_not_traced_to_learn_that_they_are_several(lane: FakeLane) -> None:
    """On an H100 such a graph upset the trace, which was then called the reason."""
    eager = acts(lane, kernels=2, eager=100.0)["eager"]
    found = measure("8", acts(lane, kernel=100.0)[KERNEL], {"eager": eager, "graph of eager": lossy(lane)})
    assert found.measured.missing == (
        ("clock cupti", "tracing stretches the gaps between several kernels: eager (2)"),
    )


def test_whose_records_are_lost_is_said(lane: FakeLane) -> None:
    found = measure("8", acts(lane, kernel=100.0)[KERNEL], {"graph of eager": lossy(lane)}, OPTIONS)
    reason = "CUPTI lost records (graph of eager: a sample has no work)"
    assert found.measured.missing == (("clock cupti", reason),)
    assert found.measured.clock == "events"


def lossy(lane: FakeLane) -> Any:
    """Its work is never in the trace."""

    def replay(rotation: int) -> Any:
        lane.work(100.0)
        lane.records.pop()
        return ones(rotation)

    return replay


def test_the_cost_of_events_is_learnt_from_a_short_kernel(lane: FakeLane) -> None:
    lane.calibrated, lane.overhead_us = False, 0.0
    measure("8", acts(lane, kernel=100.0)[KERNEL], {}, OPTIONS)
    assert lane.calibrated
    assert lane.overhead_us == pytest.approx(2.0, abs=0.1)


def test_a_disturbed_calibration_flatters_nobody(lane: FakeLane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process on the card between two events, at every one of them, but not in CUPTI's records."""
    lane.calibrated, lane.overhead_us = False, 0.0
    monkeypatch.setattr(lane, "between_us", lambda first, second: (second - first) * 1e-3 + 16.0)
    measure("8", acts(lane, kernel=100.0)[KERNEL], {}, OPTIONS)
    assert lane.overhead_us == MOST_ADDED_US


def test_lost_records_are_noticed() -> None:
    lane = FakeLane(lost=4)
    sampler = CuptiSampler(lane, acts(lane, kernel=10.0), {KERNEL: 5.0}, trace=lane)
    with pytest.raises(LostRecords):
        sampler.take([Turn(KERNEL, 0), Turn(KERNEL, 1)])


def test_the_slope_sees_work_that_the_device_clocks_miss() -> None:
    lane = FakeLane()
    honest = acts(lane, kernel=100.0)[KERNEL]
    assert slope_us(lane, honest, 100.0, 3) == pytest.approx(100.0, abs=2.0)

    def sneaky(rotation: int) -> Any:
        lane.work_behind(60.0)
        return honest(rotation)

    seen = slope_us(lane, sneaky, 100.0, 3)
    assert seen == pytest.approx(160.0, abs=2.0)
    assert "disagree: 100.0 us on the device, 160" in disagreement(100.0, [(SLOPE, seen)], OPTIONS)


def test_a_card_that_slows_down_in_a_row_of_calls_is_not_work_behind_the_clocks() -> None:
    """5415 us with pauses, 5901 in a row, on an H100 at its power limit."""
    lane = FakeLane()
    slowed = acts(lane, kernel=110.0)[KERNEL]  # in a row; by itself it took 100
    seen = slope_us(lane, slowed, 100.0, 3)
    assert disagreement(100.0, [(SLOPE, seen)], OPTIONS)
    seen -= slower_us(lane, slowed, 100.0)
    assert not disagreement(100.0, [(SLOPE, seen)], OPTIONS)

    def sneaky(rotation: int) -> Any:
        lane.work_behind(60.0)
        return acts(lane, kernel=100.0)[KERNEL](rotation)

    seen = slope_us(lane, sneaky, 100.0, 3) - slower_us(lane, sneaky, 100.0)
    assert "disagree" in disagreement(100.0, [(SLOPE, seen)], OPTIONS)


def test_a_call_that_takes_twice_as_long_in_a_row_is_not_excused_by_a_slow_card() -> None:
    lane = FakeLane()
    twice = acts(lane, kernel=200.0)[KERNEL]
    seen = slope_us(lane, twice, 100.0, 3) - slower_us(lane, twice, 100.0)
    assert "disagree" in disagreement(100.0, [(SLOPE, seen)], OPTIONS)


def test_a_slope_that_the_host_sets_is_none() -> None:
    lane = FakeLane(issue_ns=400_000)
    assert slope_us(lane, acts(lane, kernel=100.0)[KERNEL], 100.0, 3) == 0.0


def test_one_interrupted_look_is_looked_at_again_and_persistent_ones_are_not_excused() -> None:
    looks = iter([135.0, 101.0, 500.0])
    assert looked_again(lambda: next(looks), 100.0, OPTIONS) == 101.0
    assert looked_again(lambda: 160.0, 100.0, OPTIONS) == 160.0
    nothing = iter([250.0, 0.0, 250.0])
    assert looked_again(lambda: next(nothing), 100.0, OPTIONS) == 250.0, "where the host sets the pace"
    looks = iter([-70.0, 190.0, 130.0])
    assert looked_again(lambda: next(looks), 100.0, OPTIONS) == 130.0


def test_a_row_of_calls_that_the_host_paces_says_nothing() -> None:
    assert usable(host_us=10.0, time_us=5.0, flush_us=90.0)
    assert not usable(host_us=100.0, time_us=5.0, flush_us=90.0)


def test_clocks_may_differ_a_little_and_the_slope_may_be_shorter() -> None:
    assert disagreement(100.0, [(EVENTS, 104.0), (SLOPE, 104.9)], OPTIONS) == ""
    assert disagreement(5.0, [(EVENTS, 7.9)], OPTIONS) == "", "3 us are allowed in any case"
    assert disagreement(5.0, [(EVENTS, 8.5)], OPTIONS)
    assert disagreement(100.0, [(EVENTS, 90.0)], OPTIONS) == "", "a shorter time is nobody's gain"
    assert disagreement(100.0, [(SLOPE, 80.0)], OPTIONS) == ""


def test_faster_than_the_card_is_said_in_the_cards_terms() -> None:
    memory = Physics(dram_bytes=1e9, dram_bytes_per_s=3.4e12)
    assert beyond_physics(300.0, memory) == ""
    assert beyond_physics(200.0, memory) == "faster than the memory: 5.00 TB/s where the card has 3.40"
    product = Physics(flops=1e12, flops_per_s=180e12)
    assert beyond_physics(1000.0, product).startswith("faster than the arithmetic: 1000 TFLOP/s where")
    assert beyond_physics(0.001, Physics()) == "", "nothing known, nothing claimed"


# ------------------------------------------------------------------------------------ measure, end to end


@pytest.fixture
def lane(monkeypatch: pytest.MonkeyPatch) -> FakeLane:
    """Everything of ``measure`` but the GPU."""
    fake = FakeLane()

    class Clock:
        perf_counter = staticmethod(fake.now)

    class Blind:
        def look(self) -> None:
            return None

        def others(self) -> None:
            return None

    def host_us(act: Any) -> float:
        act(0)
        return 5.0

    monkeypatch.setattr(measuring, "time", Clock)
    monkeypatch.setattr(measuring, "lane_of", lambda options: fake)
    monkeypatch.setattr(measuring, "open_trace", lambda: (fake, "") if fake.tracing else (None, "no CUPTI"))
    monkeypatch.setattr(measuring, "open_monitor", lambda bus: Blind())
    monkeypatch.setattr(measuring, "pci_bus_id", lambda: "0000:00:00.0")
    monkeypatch.setattr(measuring, "host_us", host_us)
    monkeypatch.setattr(measuring, "replaying", _no_graph)
    return fake


class _no_graph:
    def __init__(self, act: Any) -> None:
        self.act = act

    def __enter__(self) -> Any:
        return self.act

    def __exit__(self, *_: object) -> None:
        pass


def test_a_kernel_is_measured_with_cupti_and_believed(lane: FakeLane) -> None:
    contestants = acts(lane, kernel=100.5, eager=150.0, compile=100.0)
    kernel = contestants.pop(KERNEL)
    timing = measure("8", kernel, contestants, OPTIONS)
    found = timing.measured
    assert timing.time_us == pytest.approx(100.5)
    assert (found.clock, found.suspicion, timing.wrong, found.missing) == ("cupti", "", "", ())
    assert [(r.name, r.verdict) for r in found.rivals] == [("eager", "FASTER"), ("compile", "SAME")]
    assert found.fastest is not None and found.fastest.name == "compile"
    assert found.verdict == "SAME"
    assert dict(found.crosschecks)[SLOPE] == pytest.approx(100.5, abs=2.0)
    assert found.host_us is None, "100 us are not launch-bound"
    assert found.conditions == Conditions()


def test_a_short_kernel_also_gets_host_latency_and_a_graph(lane: FakeLane) -> None:
    contestants = acts(lane, kernel=8.0, eager=20.0)
    found = measure("8", contestants.pop(KERNEL), contestants, OPTIONS).measured
    assert found.host_us == 5.0
    assert found.graph_us == pytest.approx(8.0, abs=1.1)
    assert found.rivals[0].graph_us == pytest.approx(20.0, abs=1.1)


@pytest.mark.parametrize("left_us", [-7.0, 0.2])
def test_a_replay_within_what_a_pair_of_events_adds_has_no_time(lane: FakeLane, left_us: float) -> None:
    lane.overhead_us = 10.0 - left_us  # a kernel of 8 us, and the 2 us that a pair of events adds here
    contestants = acts(lane, kernel=8.0, eager=20.0)
    found = measure("8", contestants.pop(KERNEL), contestants, OPTIONS).measured
    assert found.graph_us is None and found.host_us == 5.0
    assert found.rivals[0].graph_us is not None


@pytest.mark.parametrize("lost", [False, True])
def test_without_cupti_events_do_and_it_is_said(lane: FakeLane, lost: bool) -> None:
    lane.tracing, lane.lost = lost, 3 * lost
    found = measure("8", acts(lane, kernel=100.0)[KERNEL], {}, OPTIONS).measured
    assert found.clock == "events"
    assert found.missing[0][0] == "clock cupti"
    assert ("lost records" if lost else "no CUPTI") in found.missing[0][1]


def test_work_behind_the_clocks_is_suspect(lane: FakeLane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring.time, "sleep", lambda seconds: None, raising=False)
    honest = acts(lane, kernel=100.0)[KERNEL]

    def sneaky(rotation: int) -> Any:
        lane.work_behind(80.0)
        return honest(rotation)

    assert "disagree" in measure("8", sneaky, {}, OPTIONS).measured.suspicion


@pytest.mark.parametrize(("looks", "words"), [(1, ""), (9, "so do those of eager (100.0 us, ")])
def test_where_a_baselines_clocks_disagree_as_well_it_is_not_the_kernel(
    lane: FakeLane, monkeypatch: pytest.MonkeyPatch, looks: int, words: str
) -> None:
    """Others on the machine made 592 us 10,419 by the wall clock; they may be done soon."""
    paused = list[float]()
    monkeypatch.setattr(measuring.time, "sleep", paused.append, raising=False)
    both = acts(lane, kernel=80.0, eager=100.0)

    def beside_others(name: str) -> Any:
        def act(rotation: int) -> Any:
            if len(paused) < looks:
                lane.work_behind(80.0)
            return both[name](rotation)

        return act

    found = measure("8", beside_others(KERNEL), {"eager": beside_others("eager")}, OPTIONS).measured
    assert words in found.suspicion and ("disagree" in found.suspicion) is bool(words)
    assert "work may go on" not in found.suspicion and 0 < len(paused) <= looks
    again = suspicion(80.0, found.crosschecks, Physics(), OPTIONS, found.disturbed)
    assert again == found.suspicion, "a receipt is derived again from what it holds"


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("looks", [1, 9])
def test_where_a_baseline_is_quiet_it_is_the_kernel_unless_that_is_quiet_later(
    lane: FakeLane, monkeypatch: pytest.MonkeyPatch, looks: int, alone: bool
) -> None:
    """A baseline of 10 ms hides what makes 80 us 160; what goes on behind the clocks goes on each time."""
    paused = list[float]()
    monkeypatch.setattr(measuring.time, "sleep", paused.append, raising=False)
    both = acts(lane, kernel=80.0, eager=10_000.0)

    def sneaky(rotation: int) -> Any:
        if len(paused) < looks:
            lane.work_behind(80.0)
        return both[KERNEL](rotation)

    found = measure("8", sneaky, {} if alone else {"eager": both["eager"]}, OPTIONS).measured
    assert ("work may go on after the kernel" in found.suspicion) is (looks == 9)
    assert 0 < len(paused) <= 3


@pytest.mark.parametrize(("behind_us", "suspect"), [(0.0, False), (400.0, True)])
def test_a_short_time_keeps_the_wall_clock_away_only_while_the_host_sets_the_pace(
    lane: FakeLane, monkeypatch: pytest.MonkeyPatch, behind_us: float, suspect: bool
) -> None:
    """On an H100, 170 us on another stream were claimed to be 0.01, and the host took longer than a flush."""
    monkeypatch.setattr(measuring, "host_us", lambda act: (act(0), 150.0)[1])
    honest = acts(lane, kernel=5.0)[KERNEL]

    def sneaky(rotation: int) -> Any:
        lane.host_ns += 150_000
        lane.work_behind(behind_us)
        return honest(rotation)

    found = measure("8", sneaky, {}, OPTIONS).measured
    assert ("disagree" in found.suspicion) is suspect, found
    assert (SLOPE in dict(found.crosschecks)) is suspect


def test_beyond_physics_is_suspect(lane: FakeLane) -> None:
    setting = Setting(physics=Physics(dram_bytes=1e9, dram_bytes_per_s=1.12 * H100.dram_bytes_per_s))
    found = measure("8", acts(lane, kernel=100.0)[KERNEL], {}, OPTIONS, setting).measured
    assert found.suspicion.startswith("faster than the memory: 10.00 TB/s")


def test_outputs_are_looked_at_again_after_timing(lane: FakeLane) -> None:
    honest = acts(lane, kernel=100.0, eager=100.0, compile=100.0)
    calls = [0]

    def tires(rotation: int) -> Any:
        calls[0] += 1
        lane.work(100.0)
        return (ones(rotation)[0] * (1.0 if calls[0] <= 10 else 0.0),)

    wrong = measure("8", tires, {"eager": honest["eager"]}, OPTIONS).wrong
    assert wrong.startswith("output 0 is off by 1")
    setting = Setting(check=lambda outputs: "all zero" if not outputs[0].any() else "")
    assert measure("8", tires, {"eager": honest["eager"]}, OPTIONS, setting).wrong == "all zero"
    timing = measure("8", honest[KERNEL], {"eager": honest["eager"], "compile": tires}, OPTIONS)
    assert timing.wrong == ""
    assert [rival.name for rival in timing.measured.rivals] == ["eager"]
    assert timing.measured.missing[0][0] == "compile"


def off_by(lane: FakeLane, share: float) -> Any:
    """A call whose output is further from everybody's by a share of it."""

    def act(rotation: int) -> Any:
        lane.work(100.0)
        return (ones(rotation)[0] * (1.0 + share),)

    return act


def test_a_reference_that_rounds_badly_stays_a_baseline(lane: FakeLane) -> None:
    """Steps in 16 bits may carry eager far from a kernel that was found right, and torch.compile as far."""
    contestants = acts(lane, kernel=100.0, eager=100.0, compile=100.0)
    honest = contestants.pop(KERNEL)

    rivals = {"eager": off_by(lane, 0.5), "compile": off_by(lane, -0.3), "graph of eager": off_by(lane, -1.0)}
    setting = Setting(check=lambda outputs: "")
    found = measure("8", honest, rivals, OPTIONS, setting).measured
    assert [rival.name for rival in found.rivals] == ["eager", "compile"]
    assert found.missing[0][0] == "graph of eager" and "off by" in found.missing[0][1]
    near = measure(
        "8", honest, {"eager": contestants["eager"], "compile": off_by(lane, -0.3)}, OPTIONS, setting
    )
    assert [rival.name for rival in near.measured.rivals] == ["eager"]


def test_a_baseline_in_the_references_order_stays_one(lane: FakeLane) -> None:
    """Of topk's unsorted places a kernel may have any order: torch.compile calls what eager does."""
    places = torch.arange(4096)

    def act(found: torch.Tensor) -> Any:
        def call(rotation: int) -> Any:
            lane.work(100.0)
            return (found,)

        return call

    rivals = {"eager": act(places.flip(0)), "compile": act(places.flip(0)), "graph of eager": act(places + 7)}
    found = measure("8", act(places), rivals, OPTIONS, Setting(check=lambda outputs: "")).measured
    assert [rival.name for rival in found.rivals] == ["eager", "compile"]
    assert [name for name, why in found.missing if "not the reference's" in why] == ["graph of eager"]


def test_where_several_results_are_the_references_a_baseline_may_have_any_of_them(lane: FakeLane) -> None:
    """Of two rows for one slot torch.compile keeps another one than eager and the kernel."""
    contestants = acts(lane, kernel=100.0, eager=100.0)
    honest = contestants.pop(KERNEL)

    def check(outputs: Any) -> str:
        return "none of them" if bool((outputs[0] > 1.5 * ones(1)[0]).any()) else ""

    rivals = {
        "eager": contestants["eager"],
        "compile": off_by(lane, 0.3),
        "graph of eager": off_by(lane, 0.9),
    }
    for left_open, able in ((True, ["eager", "compile"]), (False, ["eager"])):
        setting = Setting(check=check, left_open=left_open)
        found = measure("8", honest, rivals, OPTIONS, setting).measured
        assert [rival.name for rival in found.rivals] == able
    nobody = measure("8", honest, {"compile": off_by(lane, 0.3)}, OPTIONS, Setting(left_open=True))
    assert nobody.wrong == "" and [rival.name for rival in nobody.measured.rivals] == ["compile"]


def test_a_baseline_that_raises_is_missing_and_the_kernel_is_still_timed(lane: FakeLane) -> None:
    def broken(rotation: int) -> Any:
        raise RuntimeError("no such operator\nand a long tail")

    found = measure("8", acts(lane, kernel=100.0)[KERNEL], {"compile": broken}, OPTIONS).measured
    assert found.rivals == ()
    assert found.missing == (("compile", "RuntimeError: no such operator"),)
    with pytest.raises(RuntimeError, match="no such operator"):
        measure("8", broken, {}, OPTIONS)


def test_slow_baselines_measured_earlier_stand_beside_the_fast_ones(lane: FakeLane) -> None:
    earlier = RawTimes(
        case="8",
        tracks=(
            Track(name="eager", blocks=((200.0, 200.0),) * 10),
            Track(name="compile max-autotune", blocks=((90.0, 90.0),) * 10),
        ),
    )
    contestants = acts(lane, kernel=100.0, eager=200.0)
    found = measure("8", contestants.pop(KERNEL), contestants, OPTIONS, Setting(baselines=earlier)).measured
    assert [rival.name for rival in found.rivals] == ["eager", "compile max-autotune"]
    assert found.verdict == "SLOWER"
    assert found.fastest is not None
    assert found.fastest.ratio == pytest.approx(200 / 100 * 0.45, rel=0.01)
