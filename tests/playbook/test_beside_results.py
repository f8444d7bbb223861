"""What a kernel's results are made of besides its sums: once for a row or a column, or read ahead."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check
from workbench.model import Vector
from workbench.playbook.analysis.beside_results import beside_results
from workbench.playbook.generate import generate
from workbench.playbook.ir.expr import Apply, Load
from workbench.playbook.ir.program import Convolution
from workbench.playbook.kernels.made_by_kernels import made_by_kernels
from workbench.playbook.schedules.schedule import schedule_of
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import program_of

Tensors = dict[str, Tensor]
WAYS: dict[str, Vector] = {
    "patches": (("block_size", "256"), ("convolution", "patches")),
    "patches of small blocks": (("block_size", "128"), ("convolution", "patches")),
    "product": (("convolution", "three_tf32"),),
    "product, terms shared": (("convolution", "three_tf32"), ("split_k", "2")),
}


def normed(t: Tensors) -> Tensor:
    """As in a residual block: what its norm makes of a channel's variance is the same at all places."""
    made = F.conv2d(t["x"], t["w"], padding=1)
    normed = F.batch_norm(made, t["mean"], t["var"], t["scale"], t["shift"])
    return F.relu(normed + t["beside"])


def normed_and_pooled(t: Tensors) -> Tensor:
    made = F.conv2d(t["x"], t["w"], padding=1)
    return F.max_pool2d(F.relu(F.batch_norm(made, t["mean"], t["var"], t["scale"], t["shift"])), 2)


def tensors_of(channels: int, read: int = 16) -> Tensors:
    vectors = dict.fromkeys(("mean", "var", "scale", "shift"), (channels,))
    made = of(x=(2, read, 10, 12), w=(channels, read, 3, 3), beside=(2, channels, 10, 12), **vectors)()
    return {**made, "w": 0.25 * made["w"], "var": made["var"].abs() + 0.5}


def source_of(call: Call, tensors: Tensors, vector: Vector) -> str:
    return generate(problem_of(call, tensors, varying=False), vector).kernel.source


@pytest.mark.many(6)
@pytest.mark.parametrize("channels", [33, 64, 136])
@pytest.mark.parametrize("way", WAYS)
def test_a_norm_and_what_is_passed_on_beside(way: str, channels: int) -> None:
    tensors = tensors_of(channels)
    source = source_of(normed, tensors, WAYS[way])
    assert "library(" not in source
    assert source.count("sqrtf(") == source.count("of_row[0] = ") == 1
    assert len(re.findall(r"beside_value\[r\] = .* \? beside\[i\] : 0\.0f;", source)) == 1
    check(normed, source, tensors, "checked")


@pytest.mark.parametrize("threads", ["256", "128"])
def test_a_norm_between_a_convolution_and_a_pool(threads: str) -> None:
    tensors = {name: t for name, t in tensors_of(24).items() if name != "beside"}
    source = source_of(normed_and_pooled, tensors, (("block_size", threads), ("convolution", "patches")))
    assert source.count("sqrtf(") == source.count("of_row[0] = ") == 1
    check(normed_and_pooled, source, tensors, "checked")


def test_numbers_of_16_bits_are_read_ahead_as_they_are() -> None:
    tensors = {name: t.bfloat16() for name, t in tensors_of(40).items()}
    tensors |= {name: tensors_of(40)[name] for name in ("mean", "var", "scale", "shift")}
    source = source_of(normed, tensors, WAYS["patches"])
    assert "of_row[0] = " in source and "beside_value[r] = " in source
    check(normed, source, tensors, "checked")


@pytest.mark.many(3)
@pytest.mark.parametrize("rows", [72, 130])
@pytest.mark.parametrize("blocks", ["1", "2"])
def test_a_products_rows_and_columns(rows: int, blocks: str) -> None:
    """A scale a row, a bias a column, one number for all: none is looked at a result at a time."""

    def call(t: Tensors) -> Tensor:
        return (
            torch.tanh((t["x"] @ t["w"] + t["bias"]) * torch.exp(-t["far"])[:, None]) * t["by"] + t["beside"]
        )

    tensors = of(x=(rows, 256), w=(256, 136), bias=(136,), far=(rows,), by=(1,), beside=(rows, 136))()
    tensors["w"] = 0.1 * tensors["w"]
    source = source_of(call, tensors, (("matrix_product", "three_tf32"), ("split_k", blocks)))
    assert "library(" not in source
    assert source.count("of_row[0] = expf(") == 1
    assert "const float bias_value = bias[column];" in source and "const float by_value = by[0];" in source
    check(call, source, tensors, "checked")


def test_what_is_only_needed_where_a_condition_holds_is_left_there() -> None:
    """A place behind the end of a channel's values is not looked at."""

    def call(t: Tensors) -> Tensor:
        made = F.conv2d(t["x"], t["w"], padding=1)
        padded = F.pad(t["few"], (0, made.shape[1] - t["few"].shape[0]))
        return made + padded[:, None, None]

    tensors = {**of(x=(2, 8, 10, 12), w=(40, 8, 3, 3), few=(25,))()}
    source = source_of(call, tensors, WAYS["patches"])
    check(call, source, tensors, "checked")


def test_of_more_values_than_there_is_room_for_the_cheapest_are_left_where_they_are() -> None:
    problem = problem_of(normed, tensors_of(40), varying=False)
    schedule = schedule_of(settled(problem, WAYS["patches"]))
    program = program_of(problem, True, schedule.without)
    steps = made_by_kernels(program, program.steps, schedule, [case.size_map for case in problem.cases])
    (made,) = [step for step in steps if isinstance(step, Convolution)]
    few = beside_results(made, 2)
    assert [type(value) for value in few.rows] == [Apply, Load]
    assert [type(value) for value in beside_results(made, 8).rows] == [Apply, Load, Load, Load]
    assert [load.buffer for load in few.own] == ["beside"]
