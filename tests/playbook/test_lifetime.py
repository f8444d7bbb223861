"""What the model of a launch says of things that were measured on an H100, without an operation's name."""

from dataclasses import replace

import pytest

from workbench.model import H100
from workbench.playbook.analysis.lifetime import Walk, Work, launch_time

KB = 1024.0


def rows(teams: int, threads: int, resident: int, kilobytes: float, **last: float) -> Work:
    """A row is loaded, thought about, and written."""
    load = Walk(fresh_bytes=kilobytes * KB, trips=1.0, instructions=kilobytes * 4000, join_ns=300.0)
    store = Walk(stored_bytes=kilobytes * KB, instructions=kilobytes * 4000)
    return Work(teams, threads, resident, (load, replace(store, **last)), 0.0, 0.0)


def test_memory_is_idle_while_the_only_block_of_a_multiprocessor_computes() -> None:
    alone = launch_time(H100, rows(4096, 1024, 1, 128))
    beside = launch_time(H100, rows(8192, 512, 2, 64))
    many = launch_time(H100, rows(65536, 256, 8, 8))
    assert alone.dram_bytes == beside.dram_bytes == many.dram_bytes
    assert many.us < beside.us < alone.us
    assert alone.flight_share < 0.88 < many.flight_share


def test_many_small_blocks_reach_the_copy_bandwidth_and_nobody_exceeds_it() -> None:
    time = launch_time(H100, rows(65536, 256, 8, 8))
    assert 0.9 < time.dram_bytes / (time.us * 1e-6) / H100.dram_bytes_per_s < 1.0


@pytest.mark.parametrize(("resident", "kilobytes", "reads"), [(2, 128, 1), (8, 128, 2), (8, 8, 1)])
def test_a_row_is_read_again_from_the_nearest_cache_that_still_has_it(
    resident: int, kilobytes: float, reads: int
) -> None:
    size = kilobytes * KB
    walks = (Walk(fresh_bytes=size, trips=8.0), Walk(again_bytes=size, trips=8.0))
    work = Work(4096, 1024 // resident, resident, walks, size, 228 * KB)
    assert launch_time(H100, work).dram_bytes == pytest.approx(reads * 4096 * size)


def test_a_chain_of_dependent_arithmetic_counts_where_threads_are_few() -> None:
    plain = launch_time(H100, rows(1, 256, 1, 16))
    chained = launch_time(H100, rows(1, 256, 1, 16, chain_cycles=16 * 190.0))
    hidden = launch_time(H100, rows(65536, 256, 8, 16, chain_cycles=16 * 190.0))
    assert chained.us - plain.us > 1.0
    assert hidden.us < 1.15 * launch_time(H100, rows(65536, 256, 8, 16)).us


def test_one_more_wave_costs_a_whole_turn() -> None:
    full = launch_time(H100, rows(132 * 4, 1024, 1, 128))
    over = launch_time(H100, rows(132 * 4 + 1, 1024, 1, 128))
    assert over.us == pytest.approx(1.25 * full.us, rel=0.02)


def test_blocks_that_end_at_once_wait_for_the_next_to_be_started() -> None:
    """On an H200 the same warps took 318 us in 524,288 blocks and 253 in 262,144."""
    warps = replace(rows(2**20, 32, 64, 0.5), place_ns=700.0)
    freely = launch_time(H100, warps).us
    assert launch_time(H100, replace(warps, blocks=2.0**18)).us == pytest.approx(freely, rel=0.005)
    held_up = launch_time(H100, replace(warps, blocks=2.0**20)).us
    assert held_up == pytest.approx(0.6e-3 * 2**20, rel=0.03) and held_up > 1.2 * freely
