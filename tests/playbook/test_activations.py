"""Activations in the epilogue of a library's product: found however they are written, and nowhere else."""

from __future__ import annotations

import math
import re

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check
from workbench.playbook.generate import generate

Tensors = dict[str, Tensor]
SHAPES = {"x": (5, 6, 40), "w": (24, 40), "b": (24,), "v": (16, 24), "c": (16,), "g": (6, 24), "n": (24,)}
EPILOGUE = re.compile(r'"aten\._addmm_activation",[^"]*?use_gelu=(\w+)')


def tensors(dtype: torch.dtype = torch.bfloat16) -> Tensors:
    return {name: t.to(dtype) for name, t in of(**SHAPES)().items()}


def written_out(y: Tensor) -> Tensor:
    inner = math.sqrt(2.0 / math.pi) * (y + 0.044715 * torch.pow(y, 3.0))
    return 0.5 * y * (1.0 + torch.tanh(inner))


def between(activation: Call) -> Call:
    """Two layers with something between them."""

    def call(t: Tensors) -> Tensor:
        return F.linear(activation(F.linear(t["x"], t["w"], t["b"])), t["v"], t["c"])

    return call


def epilogues(call: Call, given: Tensors) -> list[str]:
    """What ``use_gelu`` is, of every such call in a kernel that is right."""
    source = generate(problem_of(call, given), ()).kernel.source
    check(call, source, given)
    return EPILOGUE.findall(source)


ACTIVATIONS = {
    "relu": (torch.relu, "False"),
    "clamp": (lambda y: y.clamp(min=0), "False"),
    "gelu by tanh": (lambda y: F.gelu(y, approximate="tanh"), "True"),
    "written out": (written_out, "True"),
    "in float32": (lambda y: torch.relu(y.float()).to(y.dtype), "False"),
    "gelu in float32": (lambda y: F.gelu(y.float(), approximate="tanh").to(y.dtype), "True"),
    "a cube of products": (
        lambda y: y / 2 * (torch.tanh((y + y * y * y * 0.044715) * 0.7978845608) + 1),
        "True",
    ),
}


@pytest.mark.many(2)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_known_by_its_values(name: str) -> None:
    activation, gelu = ACTIVATIONS[name]
    assert epilogues(between(activation), tensors()) == [gelu]


OTHERS: dict[str, Call] = {
    "gelu by erf": F.gelu,
    "silu": F.silu,
    "relu6": F.relu6,
    "between two numbers": lambda y: y.clamp(0, 200),
    "leaky": lambda y: F.leaky_relu(y, 0.01),
    "another constant": lambda y: y / 2 * (torch.tanh((y + y * y * y * 0.05) * 0.7978845608) + 1),
    "a root of it": lambda y: torch.relu(torch.pow(y, 1.5)),
    "each with each": lambda y: (
        0.5
        * (a := y.reshape(30, 1, 24))
        * (1 + torch.tanh(0.7978845608 * ((b := y.reshape(1, 30, 24)) + 0.044715 * b * b * b)))
        + 0 * a
    ),
    "with a gate": lambda y: torch.relu(y) * y.mean(-1, keepdim=True),
}


@pytest.mark.many(2)
@pytest.mark.parametrize("name", OTHERS)
def test_other_functions_stay_kernels(name: str) -> None:
    assert epilogues(between(OTHERS[name]), tensors()) == []


def test_a_bias_may_come_first() -> None:
    assert epilogues(lambda t: torch.relu(t["b"] + t["x"] @ t["w"].t()) @ t["v"].t(), tensors()) == ["False"]


def test_float32_stays_with_the_kernels_here() -> None:
    """Its products are generated, with whatever follows them."""
    assert epilogues(between(torch.relu), tensors(torch.float32)) == []


READERS: dict[str, Call] = {
    "a norm": lambda t: F.layer_norm(torch.relu(F.linear(t["x"], t["w"], t["b"])), (24,)),
    "a product and a sum": lambda t: (
        (y := torch.relu(F.linear(t["x"], t["w"], t["b"])) @ t["v"].t()) + y.sum(-1, keepdim=True)
    ),
    "the sum before it too": lambda t: (
        torch.relu(y := F.linear(t["x"], t["w"], t["b"])) @ t["v"].t() + y[..., :16]
    ),
    "a bias of rows": lambda t: torch.relu(t["x"] @ t["w"].t() + t["g"]) @ t["v"].t(),
}


@pytest.mark.parametrize("name", READERS)
def test_where_others_read_it_the_kernel_that_follows_does_it(name: str) -> None:
    call = READERS[name]
    found = epilogues(call, tensors())
    assert found == (["False"] if name == "a product and a sum" else [])


def test_results_of_the_last_layer_are_written_once() -> None:
    """The bias is the product's own, in whatever shape the result is handed back."""
    given = tensors()
    call = between(torch.relu)
    source = generate(problem_of(call, given), ()).kernel.source
    assert "launch(" not in source
    assert source.count('"aten.addmm"') == 1
