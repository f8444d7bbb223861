"""The model orders variants as a GPU would; none of its numbers is a measurement."""

from __future__ import annotations

import pytest

from workbench.model import H100
from workbench.referee.launchtime import Shape, Traffic, launch_time
from workbench.referee.occupancy import resident_blocks

MB = 2.0**20


def us(shape: Shape, traffic: Traffic) -> float:
    return launch_time(H100, shape, traffic).us


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks"),
    [
        (256, 32, 0, 8),
        (1024, 32, 0, 2),
        (1024, 64, 0, 1),
        (128, 32, 0, 16),
        (32, 32, 0, 32),
        (256, 255, 0, 1),
        (256, 32, 100 * 1024, 2),
        (256, 32, 227 * 1024, 1),
        (256, 32, 228 * 1024, 0),
        (33, 32, 0, 32),
    ],
)
def test_occupancy_of_an_h100(threads: int, registers: int, shared: int, blocks: int) -> None:
    assert resident_blocks(H100, threads, registers, shared) == blocks


def test_a_large_copy_runs_at_copy_bandwidth() -> None:
    moved = 1024 * MB
    time = launch_time(H100, Shape(blocks=65536, threads=256), Traffic(moved, moved, 16.0))
    assert moved / H100.dram_bytes_per_s * 1e6 <= time.us < 1.1 * moved / H100.dram_bytes_per_s * 1e6
    assert time.bound == "memory"


def test_atomics_ask_l2_for_time_of_its_own_and_nobody_waits_for_them() -> None:
    shape = Shape(blocks=32768, threads=128)
    moved, asked = 18 * MB, 140 * MB
    added = us(shape, Traffic(moved, asked, 16.0, joined=64 * MB))
    assert 64 * MB / 3.05e6 < added < 1.2 * us(shape, Traffic(moved, asked, 16.0)) + 64 * MB / 3.05e6
    assert added > us(shape, Traffic(moved, asked, 16.0, joined=1 * MB))


def test_wider_requests_are_never_slower_and_help_most_where_few_warps_issue() -> None:
    gains = []
    for registers in (32, 128):
        shape = Shape(blocks=16384, threads=256, registers=registers)
        narrow, wide = (us(shape, Traffic(512 * MB, 512 * MB, width)) for width in (4.0, 16.0))
        gains.append(narrow / wide)
    assert 1.0 < gains[0] < gains[1]


def test_a_row_kept_is_faster_than_a_row_read_again() -> None:
    shape = Shape(blocks=4096, threads=1024)
    kept, again = Traffic(1024 * MB, 1024 * MB, 16.0), Traffic(1024 * MB, 2048 * MB, 16.0)
    assert 1.2 < us(shape, again) / us(shape, kept) < 2.1


def test_reading_again_costs_less_where_a_cache_holds_the_row() -> None:
    def factor(row_bytes: float) -> float:
        shape = Shape(blocks=int(1024 * MB / row_bytes), threads=256)
        return us(shape, Traffic(1024 * MB, 2048 * MB, 16.0)) / us(shape, Traffic(1024 * MB, 1024 * MB, 16.0))

    assert factor(4096) < factor(64 * 1024) < factor(4 * MB)


def test_a_few_numbers_that_all_threads_read_are_no_trip_for_each_of_their_readers() -> None:
    """A matrix of nine numbers, read by every thread of a large result."""
    shape, written = Shape(blocks=38400, threads=256), 78.6 * MB
    requests = 12 * shape.blocks * shape.threads / 32
    alone = us(shape, Traffic(written, written, 8.0, stored=written))
    beside = Traffic(written + 1152, written + requests * 32, 4.0, stored=written)
    assert alone < us(shape, beside) < 3 * alone


def test_few_long_rows_want_many_blocks() -> None:
    """(1, 1048576): one block took eager 301 us, a split over 256 blocks 10.8 us in two launches."""
    moved = 8 * MB
    one_block = us(Shape(blocks=1, threads=1024), Traffic(moved, 2 * moved, 16.0))
    split = us(Shape(blocks=256, threads=256), Traffic(moved / 2, moved / 2, 16.0))
    split += us(Shape(blocks=256, threads=256), Traffic(moved, moved, 16.0))
    assert 100 < one_block < 450
    assert split + 2 * H100.launch_us < 20
    assert launch_time(H100, Shape(1, 1024), Traffic(moved, moved, 16.0)).bound == "latency"


def test_arithmetic_counts_when_it_is_what_takes_time() -> None:
    time = launch_time(H100, Shape(1024, 256), Traffic(MB, MB, 16.0, flops=2.0 * 4096**3))
    assert time.bound == "compute"
    assert time.us == pytest.approx(2.0 * 4096**3 / H100.fp32_flops_per_s * 1e6, rel=0.01)


@pytest.mark.parametrize("blocks", [1, 7, 131, 132, 133, 10_000])
def test_never_faster_than_physics(blocks: int) -> None:
    moved = 64 * MB
    time = us(Shape(blocks, 256), Traffic(moved, moved, 16.0))
    assert time >= moved / H100.dram_bytes_per_s * 1e6


def test_one_small_block_a_multiprocessor_takes_turns_with_itself() -> None:
    """Softmax (4096, 32768): a row in shared memory with 256 threads 595 to 974 us, read again 552 us."""
    row = 32768 * 4
    moved = 2.0 * 4096 * row
    common = {"width": 16.0, "stored": moved / 2, "barriers": 2.0, "instructions": 19.0 * moved / 8}
    shared = us(Shape(4096, 256, 32, row), Traffic(moved, moved, **common))
    more_threads = us(Shape(4096, 512, 32, row), Traffic(moved, moved, **common))
    again = us(Shape(4096, 256, 32), Traffic(moved, 1.5 * moved, **common))
    assert shared >= again
    assert more_threads < 0.9 * shared
    assert launch_time(H100, Shape(4096, 256, 32, row), Traffic(moved, moved, **common)).bound == "latency"


def test_wide_blocks_that_reduce_little_lose_their_turns() -> None:
    """Argmax (16384, 4096): blocks of 256 took 101 us, of 512 128, of 1024 204."""
    moved = 16384 * 4096 * 4.0
    times = [
        us(
            Shape(16384, threads, registers),
            Traffic(moved, moved, 16.0, barriers=3.0, warp_operations=20.0 * threads / 32),
        )
        for threads, registers in ((256, 32), (512, 32), (1024, 32))
    ]
    assert times[0] < times[1] < times[2]
    assert times[2] > 1.2 * times[0]


def test_what_is_spilled_goes_to_memory_and_back() -> None:
    """A row in registers, 1024 threads at 64 registers each: 408 bytes a thread find no room."""
    row = 32768 * 4.0
    moved = 2.0 * 4096 * row
    common = {"width": 16.0, "stored": moved / 2, "barriers": 4.0, "instructions": 19.0 * moved / 8}
    fits = us(Shape(4096, 1024, 64), Traffic(moved, moved, **common))
    spills = us(Shape(4096, 1024, 64, 0, 408, 408), Traffic(moved, moved, **common))
    few = us(Shape(4096, 1024, 64, 0, 16, 16), Traffic(moved, moved, **common))
    assert fits < few < 1.15 * fits
    assert 1.5 * fits < spills < 3.0 * fits


def test_a_first_trip_through_l2_is_in_the_copy_bandwidth_already() -> None:
    moved = 1024 * MB
    time = us(Shape(blocks=65536, threads=256), Traffic(moved, moved, 16.0, stored=moved / 2))
    assert time < 1.05 * moved / H100.dram_bytes_per_s * 1e6


def test_torch_compile_finds_a_row_again_in_l2() -> None:
    """Softmax 4096x32768: two blocks a multiprocessor, 409 us; what is written is not read again."""
    read = 4096 * 32768 * 4.0
    traffic = Traffic(2 * read, 3 * read, 16.0, 2.0, stored=read)
    assert 370 < us(Shape(4096, 512, 64), traffic) < 450


def test_requests_of_lanes_that_lie_apart_are_as_many_as_others() -> None:
    """Every third byte: 384 bytes of sectors for a warp's request, and still one instruction a lane."""
    shape = Shape(blocks=32768, threads=256)
    near = us(shape, Traffic(128 * MB, 128 * MB, 1.0, touched=1.0))
    apart = us(shape, Traffic(128 * MB, 12 * 128 * MB, 1.0, touched=12.0))
    counted_by_bytes = us(shape, Traffic(128 * MB, 12 * 128 * MB, 1.0))
    assert near <= apart < counted_by_bytes
