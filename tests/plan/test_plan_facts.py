"""What a plan alone says: launches, bytes, workspace, library share."""

import pytest
from plans import meta, run

from workbench.model import TensorMeta
from workbench.plan.facts import facts


def _relu(op, args, kwargs) -> tuple[TensorMeta, ...]:
    return (args[0],)


def test_one_kernel() -> None:
    plan = run("y = empty_like(x)\nlaunch('copy', 1, 1, [x, y, 3])\nreturn y")
    got = facts(plan, "6x4")
    assert (got.case, got.launches, got.kernels) == ("6x4", 1, ("copy",))
    assert (got.bytes_min, got.bytes_plan) == (2 * 96, 2 * 96)
    assert (got.workspace_bytes, got.library_calls, got.library_share) == (0, (), 0.0)


def test_two_passes_workspace_and_memset() -> None:
    plan = run(
        """
        work = zeros((6, 2), f32)
        y = empty_like(x)
        launch("copy", 1, 1, [x, view(work, 6), 3])
        launch("add", 1, 1, [x, work, y])
        launch("copy", 1, 1, [x, work, 3])
        return y
        """
    )
    got = facts(plan, "c")
    assert got.launches == 3
    assert got.kernels == ("copy", "add")
    assert got.bytes_plan == 48 + (96 + 24) + (96 + 48 + 96) + (96 + 48)
    assert got.bytes_min == 96 + 96
    assert got.workspace_bytes == 48


def test_an_argument_used_twice_in_a_step_counts_once() -> None:
    plan = run("y = empty_like(x)\nlaunch('add', 1, 1, [x, x, y])\nreturn y")
    assert facts(plan, "c").bytes_plan == 2 * 96


def test_a_broadcast_input_counts_what_is_stored() -> None:
    plan = run("y = empty(24, f32)\nlaunch('copy', 1, 1, [x, y, 3])\nreturn y", x=meta(6, 4, strides=(0, 1)))
    assert facts(plan, "c").bytes_min == 16 + 96


def test_an_output_that_is_a_view_is_no_workspace() -> None:
    plan = run("y = zeros((2, 4), f32)\nz = zeros(3, f32)\nreturn view(y, 4)")
    assert facts(plan, "c").workspace_bytes == 12


def test_library_share() -> None:
    plan = run(
        "a = library('aten.relu', x)\ny = empty_like(x)\nlaunch('copy', 1, 1, [a, y, 3])\nreturn y",
        library=_relu,
    )
    got = facts(plan, "c")
    assert got.library_calls == ("aten.relu",)
    assert got.library_share == pytest.approx(0.5)
    assert got.workspace_bytes == 96


def test_a_library_view_moves_nothing() -> None:
    plan = run(
        "a = library('aten.t', x)\ny = empty_like(x)\nlaunch('copy', 1, 1, [a, y, 3])\nreturn y",
        library=_relu,
    )
    assert facts(plan, "c").library_share == 0.0
    assert facts(plan, "c").workspace_bytes == 0


def test_a_plan_that_moves_nothing() -> None:
    plan = run("return empty((0,), f32)", x=meta(0))
    assert facts(plan, "c").library_share == 0.0
