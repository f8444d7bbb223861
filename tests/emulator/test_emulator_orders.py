"""Blocks may begin in any order: which one is asked for; blocks that wait where a card has little room."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from launching import Out, Shape, run

from workbench.emulator import launching
from workbench.emulator.launching import RUN
from workbench.emulator.values import BlockOrder, Options
from workbench.plan.steps import Launch

BLOCKS = 40


def began(**options: Any) -> list[int]:
    args = {"ticket": Out((1,), "i32", zero=True), "y": Out((BLOCKS,), "i32")}
    order: list[int] = run("honest.cu:tickets", Shape(BLOCKS, 1), args, **options).outputs[-1].tolist()
    return order


@pytest.mark.parametrize("resident", [0, 1, 7])
def test_blocks_begin_by_number_or_last_first(resident: int) -> None:
    assert began(resident=resident) == list(range(BLOCKS))
    assert began(resident=resident, order="last first") == list(reversed(range(BLOCKS)))


def test_a_drawn_order_has_every_block_once_and_is_the_same_for_the_same_number() -> None:
    orders = [began(order="drawn", resident=1, draw=draw) for draw in (1, 2, 3)]
    assert all(sorted(order) == list(range(BLOCKS)) for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    assert began(order="drawn", resident=1, draw=2) == orders[1]


@pytest.mark.parametrize("order", ["last first", "drawn"])
def test_waiting_by_number_is_right_where_there_is_room_for_all(order: BlockOrder) -> None:
    args = {"told": Out((BLOCKS,), "i32", zero=True), "y": Out((BLOCKS,), "i32")}
    passed = Shape(BLOCKS, 1)
    options: dict[str, Any] = {"order": order, "races": True, "draw": 5}
    roomy = run("honest.cu:passed_on_by_number", passed, args, resident=BLOCKS, **options)
    assert roomy.report.hazards == () and roomy.report.converses
    assert roomy.outputs[-1].tolist() == list(range(BLOCKS))
    (hazard,) = run("honest.cu:passed_on_by_number", passed, args, resident=2, **options).report.hazards
    assert hazard.hazard == "barrier" and "number blocks as they begin" in hazard.message


def test_blocks_that_tell_nobody_anything_need_no_other_order() -> None:
    args = {"x": torch.ones(1000), "y": Out((1000,)), "n": 1000}
    assert not run("copy.cu:copy_coalesced", Shape(4, 256), args, races=True).report.converses


def looked_at(blocks: int, draw: int) -> set[int]:
    """Runs of blocks that are looked at for races."""
    launch = Launch(kernel="k", grid=(blocks, 1, 1), block=(256, 1, 1), args=(), line=1)
    geometry = launching.geometry(launch, Options(races=True, draw=draw), checked=True)
    runs = range(-(-blocks // RUN))
    return {run for run in runs if run % geometry.race_sample == geometry.race_first}


def test_races_are_looked_for_in_all_blocks_of_a_small_launch() -> None:
    assert looked_at(128, draw=1) == set(range(8))


def test_races_are_looked_for_somewhere_in_a_large_launch_and_nobody_knows_where() -> None:
    chosen = [looked_at(4096, draw) for draw in range(200)]
    assert all(0 < len(runs) * RUN * 256 <= 2 * 2**15 for runs in chosen)
    assert set().union(*chosen) == set(range(256))


def test_the_clock_does_not_begin_at_a_moment_that_a_kernel_could_know() -> None:
    launch = Launch(kernel="k", grid=(1, 1, 1), block=(1, 1, 1), args=(), line=1)
    starts = {launching.geometry(launch, Options(draw=n), checked=True).clock_start for n in range(20)}
    assert len(starts) == 20
