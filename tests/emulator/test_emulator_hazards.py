"""Planted mistakes must be found, at the right line, element and thread."""

from typing import Any

import pytest
import torch
from launching import Out, Shape, line_of, run

from workbench.model import Hazard


def only_hazard(kernel: str, shape: Shape, args: dict[str, Any], **options: Any) -> Hazard:
    execution = run(f"faults.cu:{kernel}", shape, args, **options)
    (hazard,) = execution.report.hazards
    assert hazard.case == "test"
    return hazard


def found_at(hazard: Hazard, kind: str, marker: str) -> str:
    assert (hazard.hazard, hazard.line) == (kind, line_of("faults.cu", marker)), hazard.message
    return hazard.message


@pytest.mark.many(2)
@pytest.mark.parametrize("workers", [1, 3])
def test_write_past_the_end(workers: int) -> None:
    args = {"x": torch.ones(1000), "y": Out((1000,)), "n": 1000}
    hazard = only_hazard("off_by_one", Shape(4, 256), args, workers=workers)
    message = found_at(hazard, "out_of_bounds", "writes y[n]")
    assert "thread (232, 0, 0) of block (3, 0, 0) writes output[1000], 1 element past its end" in message


def test_stray_write_is_seen_in_plain_mode_too() -> None:
    args = {"x": torch.ones(1000), "y": Out((1000,)), "n": 1000}
    hazard = only_hazard("off_by_one", Shape(4, 256), args, mode="plain")
    assert (hazard.hazard, hazard.line) == ("out_of_bounds", None)
    assert "1 element past the end of output" in hazard.message


def test_read_before_the_start() -> None:
    args = {"x": torch.ones(8), "y": Out((8,)), "n": 8}
    message = found_at(only_hazard("reads_before_start", Shape(1, 32), args), "out_of_bounds", "reads x[-1]")
    assert "thread (0, 0, 0) of block (0, 0, 0) reads x[-1], 1 element before its start" in message


def test_the_lowest_block_is_the_one_reported() -> None:
    args = {"x": torch.ones(4), "y": Out((4,)), "n": 4096}
    for workers in (1, 2, 4):
        hazard = only_hazard("off_by_one", Shape(16, 256), args, workers=workers)
        assert "thread (4, 0, 0) of block (0, 0, 0)" in hazard.message


def test_misaligned_vector_load() -> None:
    args = {"x": torch.ones(64), "y": Out((8,))}
    message = found_at(only_hazard("misaligned", Shape(1, 8), args), "misaligned", "4 bytes off")
    assert "reads 16 bytes at an address that is not a multiple of 16: x[1]" in message


def test_shared_arrays_have_bounds() -> None:
    hazard = only_hazard("past_shared_array", Shape(1, 32), {"y": Out((32,))})
    message = found_at(hazard, "out_of_bounds", "writes tile[32]")
    assert "byte 128 of shared tile, which has 128 bytes" in message
    hazard = only_hazard("past_dynamic_shared", Shape(1, 64, 128), {"y": Out((64,))})
    message = found_at(hazard, "out_of_bounds", "more threads than room")
    assert "thread (32, 0, 0)" in message
    assert "byte 128 of 128 bytes of dynamic shared memory" in message
    hazard = only_hazard("past_dynamic_shared", Shape(1, 64), {"y": Out((64,))})
    assert "byte 0 of dynamic shared memory, of which the launch has none: write smem=BYTES" in hazard.message


def test_the_last_shared_array_has_an_end_too() -> None:
    (hazard,) = run("one_array.cu:past_the_only_array", Shape(1, 128), {"y": Out((128,))}).report.hazards
    assert hazard.line == line_of("one_array.cu", "more threads than elements")
    assert "thread (64, 0, 0) of block (0, 0, 0) writes byte 256 of shared tile, which has 256 bytes" in (
        hazard.message
    )


def test_vector_that_begins_inside_and_ends_outside() -> None:
    args = {"x": torch.ones(6), "y": Out((2,))}
    message = found_at(only_hazard("vector_over_the_end", Shape(1, 2), args), "out_of_bounds", "four of six")
    assert "thread (1, 0, 0) of block (0, 0, 0) reads 16 bytes from x[4] on, past" in message
    assert "the end (shape 6)" in message


def test_zero_without_a_barrier_before_the_atomics_of_others() -> None:
    hazard = only_hazard("sets_then_adds", Shape(1, 64), {"y": Out((64,))}, races=True)
    message = found_at(hazard, "race", "perhaps before the zero")
    first = line_of("faults.cu", "no barrier behind it")
    assert f"which thread 0 of the same block wrote in line {first} with nothing in between" in message


def test_atomic_on_shared_memory_that_nobody_set() -> None:
    hazard = only_hazard("adds_to_nothing", Shape(1, 64), {"y": Out((64,))}, races=True)
    assert "updates byte 0 of shared sum before anything wrote it" in (
        found_at(hazard, "uninitialised", "nobody set it")
    )


def test_output_read_before_it_was_written() -> None:
    args = {"y": Out((64,))}
    message = found_at(
        only_hazard("reads_own_output", Shape(1, 32), args), "uninitialised", "never written before"
    )
    assert "reads output[1] before anything wrote it" in message


def test_output_left_unwritten() -> None:
    args = {"x": torch.ones(2, 500), "y": Out((2, 500)), "n": 1000}
    report = run("faults.cu:forgets_last", Shape(4, 256), args).report
    assert report.hazards == ()
    assert [(u.output, u.elements, u.first) for u in report.unwritten] == [(0, 1, (1, 499))]


@pytest.mark.parametrize("mode", ["plain", "checked"])
def test_written_input(mode: Any) -> None:
    hazard = only_hazard("writes_input", Shape(1, 32), {"x": torch.ones(32), "y": Out((32,))}, mode=mode)
    assert hazard.hazard == "input_written"
    assert "x[5]" in hazard.message
    assert hazard.line == (line_of("faults.cu", "// an input") if mode == "checked" else None)


def test_divergent_barrier() -> None:
    hazard = only_hazard("divergent_barrier", Shape(1, 64), {"y": Out((64,))})
    message = found_at(hazard, "barrier", "the other half here")
    assert f"others at the one in line {line_of('faults.cu', 'one half waits here')}" in message


@pytest.mark.parametrize("reverse", [False, True])
def test_barrier_in_a_branch(reverse: bool) -> None:
    hazard = only_hazard("barrier_in_a_branch", Shape(1, 64), {"y": Out((64,))}, reverse=reverse)
    message = found_at(hazard, "barrier", "the others go on")
    assert "a barrier in a branch that not all threads take: thread (" in message
    assert message.count(f"went past it to line {line_of('faults.cu', 'where they went')}") == 1


def test_barrier_in_a_branch_comes_before_the_race_it_makes() -> None:
    shape, args = Shape(1, 64), {"y": Out((64,))}
    first, *_ = run("faults.cu:barrier_in_a_loops_branch", shape, args, races=True).report.hazards
    found_at(first, "barrier", "for half of them")


@pytest.mark.parametrize("threads", [64, 50])
def test_threads_that_return_before_a_barrier_are_no_hazard(threads: int) -> None:
    args = {"x": torch.ones(3), "y": Out((64,), zero=True), "n": 3}
    report = run("honest.cu:returns_in_a_loop", Shape(1, threads), args, races=True).report
    assert report.hazards == ()


@pytest.mark.parametrize("mode", ["plain", "checked"])
def test_lanes_that_never_come(mode: Any) -> None:
    hazard = only_hazard("missing_lanes", Shape(1, 32), {"y": Out((32,))}, mode=mode)
    message = found_at(hazard, "warp_sync", "the mask names all 32")
    assert "mask 0xffffffff, but only lanes 0x0000ffff arrived" in message


@pytest.mark.many(2)
@pytest.mark.parametrize("mode", ["plain", "checked"])
def test_deadlock_ends_the_run(mode: Any) -> None:
    args = {"flag": Out((1,), "i32", zero=True), "y": Out((64,))}
    execution = run("faults.cu:waits_for_itself", Shape(2, 64), args, mode, workers=2)
    (hazard,) = execution.report.hazards
    assert hazard.hazard == "barrier"
    assert "63 threads wait at __syncthreads" in hazard.message
    assert "1 thread waits for a value that nobody will write" in hazard.message
    assert f"(line {line_of('faults.cu', 'set only after the barrier')})" in hazard.message
    assert execution.report.stopped
    assert execution.outputs == ()


def test_nobody_promises_that_a_later_block_starts() -> None:
    args = {"flag": Out((1,), "i32", zero=True), "y": Out((64,))}
    (hazard,) = run("faults.cu:waits_for_later_block", Shape(64, 1), args, workers=1).report.hazards
    assert hazard.hazard == "barrier"
    assert "thread (0, 0, 0) of block (0, 0, 0) waits for a block that has not begun" in hazard.message
    assert "write cooperative=True in the launch" in hazard.message


def test_shuffle_from_outside_the_mask_gives_nan() -> None:
    (y,) = run("faults.cu:shuffle_outside_mask", Shape(1, 32), {"y": Out((32,))}).outputs
    assert y.isnan().nonzero().flatten().tolist() == [16, 17, 18, 19]


@pytest.mark.parametrize(("undefined", "wrong"), [(1, 1e30), (2, -1e30)])
def test_shuffle_from_outside_the_mask_may_give_any_value(undefined: int, wrong: float) -> None:
    args = {"y": Out((32,))}
    (y,) = run("faults.cu:shuffle_outside_mask", Shape(1, 32), args, undefined=undefined).outputs
    assert ((y / wrong) > 1).nonzero().flatten().tolist() == [16, 17, 18, 19]


@pytest.mark.parametrize("mode", ["plain", "checked"])
@pytest.mark.parametrize(
    ("kernel", "threads", "words"),
    [
        (
            "shuffle_outside_mask",
            32,
            "thread (16, 0, 0) of block (0, 0, 0) reads lane 20, which is not in the",
        ),
        (
            "shuffle_from_returned",
            32,
            "thread (16, 0, 0) of block (0, 0, 0) reads lane 20, which has returned",
        ),
        ("shuffle_past_the_block", 24, "reads lane 24, which does not exist: the warp has 24 threads"),
    ],
)
def test_a_shuffle_from_a_lane_that_takes_no_part_is_noted(
    kernel: str, threads: int, words: str, mode: Any
) -> None:
    report = run(f"faults.cu:{kernel}", Shape(3, threads), {"y": Out((32,))}, mode).report
    assert report.hazards == ()  # no hazard as long as nobody uses what comes
    (lane,) = report.absent_lanes
    assert (lane.hazard, lane.line) == ("warp_sync", line_of("faults.cu", f"// {kernel}"))
    assert words in lane.message


def test_honest_shuffles_are_not_noted() -> None:
    for threads in (32, 48, 96):
        report = run("faults.cu:honest_shuffles", Shape(2, threads), {"y": Out((96,))}).report
        assert (report.hazards, report.absent_lanes) == ((), ())


def test_a_null_pointer_is_called_one() -> None:
    message = found_at(
        only_hazard("stores_to_null", Shape(1, 4), {"y": Out((4,), zero=True)}), "out_of_bounds", "never true"
    )
    assert "thread (0, 0, 0) of block (0, 0, 0) writes through a null pointer (stores_to_null" in message


@pytest.mark.parametrize("mode", ["plain", "checked"])
def test_failed_assert(mode: Any) -> None:
    x = torch.zeros(32)
    x[9] = 2
    report = run("faults.cu:asserts", Shape(1, 32), {"x": x, "y": Out((32,))}, mode).report
    assert report.stopped
    line = line_of("faults.cu", "does not hold for all")
    assert report.trap == (
        f"line {line}: assert(x[threadIdx.x] < 1.f) failed in thread (9, 0, 0) of block (0, 0, 0) (asserts)"
    )


@pytest.mark.parametrize("mode", ["plain", "checked"])
def test_crashes_end_the_run_and_not_the_process(mode: Any) -> None:
    hazard = only_hazard("far_away", Shape(4, 32), {"y": Out((128,))}, mode=mode)
    message = found_at(hazard, "out_of_bounds", "nowhere near")
    assert "thread (0, 0, 0) of block (0, 0, 0) writes memory far from every tensor" in message
    args = {"x": torch.tensor([3, 2, 0, 1] * 8, dtype=torch.int32), "y": Out((32,), "i32")}
    report = run("faults.cu:divides", Shape(1, 32), args, mode).report
    assert report.trap is not None
    assert f"line {line_of('faults.cu', 'one divisor is zero')}: integer division by zero" in report.trap
    assert "in thread (2, 0, 0) of block (0, 0, 0)" in report.trap
    report = run("deep.cu:overflows_stack", Shape(1, 32), {"x": torch.ones(1), "y": Out((32,))}, mode).report
    assert report.trap is not None
    assert "more than 128 KB of local memory was used" in report.trap
    assert report.stopped


@pytest.mark.parametrize("mode", ["plain", "checked"])
def test_misaligned_vector_store(mode: Any) -> None:
    hazard = only_hazard("misaligned_store", Shape(1, 1), {"y": Out((8,))}, mode=mode)
    found_at(hazard, "misaligned", "off by one float")


@pytest.mark.parametrize("mode", ["plain", "checked"])
@pytest.mark.parametrize("through", ["float", "double"])
def test_a_negative_float_that_becomes_unsigned_ends_the_run(mode: Any, through: str) -> None:
    """A card makes 0 of it, this machine 251; by way of int it is 251 on both."""
    x = torch.arange(4.0) * 100 - 0.5
    x[2] = -5.0
    shape, args = Shape(1, 4), {"x": x, "y": Out((4,), "u8")}
    report = run(f"conversions.cu:becomes_a_byte<{through}>", shape, args, mode).report
    line = line_of("conversions.cu", "in one step or two")
    assert report.trap is not None and report.trap.startswith(f"line {line}: -5 becomes 'unsigned char'")
    assert "in thread (2, 0, 0) of block (0, 0, 0)" in report.trap
    (y,) = run("conversions.cu:becomes_a_byte<int>", shape, args, mode).outputs
    assert y.tolist() == [0, 99, 251, 43]


@pytest.mark.parametrize("mode", ["plain", "checked"])
def test_conversions_that_a_card_makes_alike_or_nobody_promises_go_on(mode: Any) -> None:
    x = torch.tensor([-0.9, 300.0, torch.nan, torch.inf, -torch.inf, 1e20])
    execution = run("conversions.cu:becomes_a_byte<float>", Shape(1, 6), {"x": x, "y": Out((6,), "u8")}, mode)
    assert execution.report.trap is None and execution.outputs[0][:2].tolist() == [0, 44]


def test_assert_with_its_header() -> None:
    report = run("assert_header.cu:asserts", Shape(1, 4), {"x": torch.arange(4.0), "y": Out((4,))}).report
    assert report.trap is not None
    assert f"line {line_of('assert_header.cu', 'does not hold')}: assert(" in report.trap


def test_races_are_reported_when_asked_for() -> None:
    args = {"x": torch.ones(256), "out": Out((1,), zero=True), "n": 256}
    shape = Shape(1, 256, 1024)
    assert run("reduce.cu:reduce<false>", shape, args).report.hazards == ()
    assert run("reduce.cu:reduce<true>", shape, args, races=True).report.hazards == ()
    hazards = run("reduce.cu:reduce<false>", shape, args, races=True).report.hazards
    assert {h.hazard for h in hazards} == {"race"}
    assert {h.line for h in hazards} <= {
        line_of("reduce.cu", "s[t] += s[t + k]"),
        line_of("reduce.cu", "atomicAdd"),
    }
    args = {"x": torch.zeros(512, dtype=torch.int32), "h": Out((4,), "i32", zero=True), "n": 512}
    hazards = run("faults.cu:racy_histogram", Shape(2, 256), args, races=True).report.hazards
    assert {(h.hazard, h.line) for h in hazards} == {("race", line_of("faults.cu", "no atomic"))}


def test_two_values_written_to_one_place_at_once() -> None:
    shape = Shape(1, 64)
    args = {"x": torch.arange(64.0), "y": Out((64,))}
    report = run("faults.cu:two_values_in_one_place", shape, args, races=True).report
    assert report.hazards == ()
    (hazard,) = report.contested
    message = found_at(hazard, "race", "two lanes a place")
    assert (
        "thread (1, 0, 0) of block (0, 0, 0) writes byte 0 of shared s, and thread 0 of the same" in message
    )
    alike = run("faults.cu:two_values_in_one_place", shape, args | {"x": torch.ones(64)}, races=True)
    assert alike.report.contested == ()


@pytest.mark.parametrize("flag", [0, 1])
def test_blocks_are_ordered_by_the_flag_that_was_looked_at(flag: int) -> None:
    """Fences and counters elsewhere are no excuse, though blocks are right in the order of their numbers."""
    args = {"x": torch.ones(250), "partial": Out((8,)), "done": Out((2,), "i32", zero=True), "y": Out((1,))}
    args |= {"n": 250, "flag": flag}
    done = run("faults.cu:told_in_another_place", Shape(8, 1), args, races=True)
    assert done.outputs[-1].item() == 250
    if flag == 1:
        assert done.report.hazards == ()
    else:
        assert {h.hazard for h in done.report.hazards} == {"race"}
        assert {h.line for h in done.report.hazards} == {line_of("faults.cu", "// told or not")}


@pytest.mark.parametrize(
    "kernel", ["last_block_sums", "lanes_write_one_value", "exits_early", "passed_on", "plain_flag"]
)
def test_honest_patterns_are_no_hazards(kernel: str) -> None:
    args = {"x": torch.ones(250), "partial": Out((8,)), "done": Out((1,), "i32", zero=True), "y": Out((1,))}
    # A plain store may be seen before it is known to tell something, where two blocks run at the same moment.
    for workers in (1,) if kernel == "plain_flag" else (1, 2):
        execution = run(f"honest.cu:{kernel}", Shape(8, 64), args | {"n": 250}, races=True, workers=workers)
        assert execution.report.hazards == ()
        assert execution.outputs[-1].item() == 250


def test_shared_memory_read_early() -> None:
    args = {"y": Out((32,))}
    (y,) = run("faults.cu:reads_shared_early", Shape(1, 32), args).outputs
    assert y[16:].isnan().all()
    hazard = only_hazard("reads_shared_early", Shape(1, 32), args, races=True)
    message = found_at(hazard, "uninitialised", "half of it was never written")
    assert "byte 64 of shared tile" in message


def test_shared_arrays_of_halves_beside_others_are_no_hazard() -> None:
    """The compiler's own guards of such arrays lie among them and are nobody's reads."""
    x = torch.arange(32.0)
    for reverse in (False, True):
        args = {"x": x, "y": Out((32,))}
        execution = run(
            "shared_half.cu:halves_beside_floats", Shape(1, 32), args, races=True, reverse=reverse
        )
        assert not execution.report.hazards, execution.report.hazards[0].message
        assert torch.equal(execution.outputs[0], 2 * x.flip(0) + 1)
