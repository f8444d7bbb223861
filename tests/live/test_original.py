"""A cell's original reads the notebook's names as a function of the notebook would, and changes nothing."""

from __future__ import annotations

import types
from typing import Any

import doubles
import pytest
import torch
from torch import Tensor

from workbench.errors import ProblemError
from workbench.live.applied import Applied
from workbench.live.apply import restore
from workbench.live.original import Original
from workbench.model import H100, Problem
from workbench.problem.capture import read_cell

CELL = """
def double(x):
    return helper(x) * scale
inputs = [torch.randn(8, 16)]
"""
KERNEL = """/* plan
def plan(x):
    y = empty_like(x)
    launch("twice", grid=cdiv(x.numel, 128), block=128, args=[x, y, x.numel])
    return y
*/
__global__ void twice(const float* x, float* y, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = 2.0f * x[i];
}
"""


def helper(x: Tensor) -> Tensor:
    return x + 0


def problem(cell: str, notebook: dict[str, Any]) -> Problem:
    capture = read_cell(cell, None, notebook)
    return doubles.problem().model_copy(update={"source": capture.source, "payload": capture.payload})


@pytest.fixture
def notebook() -> dict[str, Any]:
    own = types.FunctionType(helper.__code__, {}, "helper")
    return {"helper": own, "scale": 2.0, "torch": torch}


def test_names_of_the_notebook_are_looked_up_at_every_call(notebook: dict[str, Any]) -> None:
    opened = problem(CELL, notebook)
    original = Original(lambda: opened, notebook)
    x = torch.ones(2, 2)
    assert torch.equal(original(x), 2 * x)
    notebook["scale"] = 5.0
    assert torch.equal(original(x), 5 * x)
    notebook["helper"] = lambda x: x + 1
    assert torch.equal(original(x), 10 * x)
    assert original.followed == ("helper", "scale") and "reads helper, scale" in repr(original)


def test_the_kernel_notices_what_changes_in_the_notebook(notebook: dict[str, Any]) -> None:
    opened = problem(CELL, notebook)
    applied = Applied(Original(lambda: opened, notebook), opened, KERNEL, H100)
    x = torch.ones(2, 2)
    assert torch.equal(applied(x), 2 * x) and applied.kernel_calls == 1
    notebook["scale"] = 5.0
    assert torch.equal(applied(x), 5 * x)
    assert applied.last_fallback == "scale is 5.0; the kernel was made for 2.0"
    notebook["scale"] = 2.0
    assert torch.equal(applied(x), 2 * x) and applied.kernel_calls == 2
    names: dict[str, Any] = {"double": applied}
    restore("double", names)
    notebook["scale"] = 7.0
    assert torch.equal(names["double"](x), 7 * x)


def test_building_it_changes_nothing_in_the_notebook(notebook: dict[str, Any]) -> None:
    notebook["table"] = {"a": 1.0}
    cell = """
if True:
    table["a"], more = 2.0, 1.0
def double(x):
    return x * table["a"] * scale * more
inputs = [torch.randn(8, 16)]
"""
    opened = problem(cell, notebook)
    original = Original(lambda: opened, notebook)
    x = torch.ones(2, 2)
    assert torch.equal(original(x), 4 * x)
    assert notebook["table"] == {"a": 1.0}
    assert original.followed == ("scale",)


def test_a_large_tensor_of_the_notebook_is_its_own(notebook: dict[str, Any]) -> None:
    notebook["scale"] = torch.full((600, 600), 3.0)  # too large to travel: the copy has other numbers
    opened = problem(CELL, notebook)
    x = torch.ones(600, 600)
    assert torch.equal(Original(lambda: opened, notebook)(x), 3 * x)


def test_another_name_for_a_module_of_the_notebook_is_that_module(notebook: dict[str, Any]) -> None:
    notebook["layer"] = torch.nn.LayerNorm(4)
    cell = "\ndouble = layer\ninputs = [torch.randn(8, 4)]\n"
    assert read_cell(cell, None, notebook).kind == "module_instance"
    opened = problem(cell, notebook).model_copy(update={"kind": "module_instance"})
    original = Original(lambda: opened, notebook)
    assert original.target is notebook["layer"] and not original.followed
    assert notebook["layer"].training
    notebook["layer"] = helper
    assert read_cell(cell, None, notebook).kind == "function"
    with pytest.raises(ProblemError, match="%cuda_optimize NAME --inputs"):
        read_cell("\ndouble = scale\ninputs = [torch.randn(8, 4)]\n", None, notebook)


def test_it_has_the_attributes_of_a_module(notebook: dict[str, Any]) -> None:
    cell = "\ndouble = torch.nn.LayerNorm(4)\ninputs = [torch.randn(8, 4)]\n"
    opened = problem(cell, notebook).model_copy(update={"kind": "module_instance"})
    original = Original(lambda: opened, notebook)
    assert not hasattr(original, "_repr_html_") and "not called yet" in repr(original)
    original.eps = 0.5
    assert original.target.eps == 0.5 == original.eps  # type: ignore[attr-defined]
