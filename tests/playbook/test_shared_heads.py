"""Heads that share keys and values: the library reads them as they are, where its kernels take that."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, plan_of
from workbench.playbook.generate import generate

Tensors = dict[str, Tensor]


def tensors(each: int = 16, dtype: torch.dtype = torch.bfloat16) -> Tensors:
    """Queries of six heads, keys and values of two, and values of three."""
    torch.manual_seed(0)
    shapes = {"q": (2, 6, 8, each), "k": (2, 2, 12, each), "v": (2, 2, 12, each), "w": (2, 3, 12, each)}
    return {name: torch.randn(shape).to(dtype) for name, shape in shapes.items()}


def repeated(x: Tensor, times: int = 3) -> Tensor:
    return x.repeat_interleave(times, dim=1)


def as_in_transformers(x: Tensor) -> Tensor:
    batch, heads, length, each = x.shape
    return x[:, :, None].expand(batch, heads, 3, length, each).reshape(batch, 3 * heads, length, each)


def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def grouped(call: Call, given: Tensors, varying: bool = True) -> tuple[bool, int]:
    """Whether the one call of attention knows of groups, and launches; of a kernel that is right."""
    source = generate(problem_of(call, given, varying=varying), ()).kernel.source
    check(call, source, given)
    plan = plan_of(source, given)
    (called,) = (step for step in plan.steps if step.kind == "library")
    return dict(called.kwargs).get("enable_gqa", False) is True, len(plan.launches)


CALLS: dict[str, Call] = {
    "repeated": lambda t: attended(t["q"], repeated(t["k"]), repeated(t["v"])),
    "expanded": lambda t: attended(t["q"], as_in_transformers(t["k"]), as_in_transformers(t["v"])),
    "causal": lambda t: F.scaled_dot_product_attention(
        t["q"], repeated(t["k"]), repeated(t["v"]), is_causal=True
    ),
    "made first": lambda t: attended(t["q"], repeated(t["k"] * 2), repeated(t["v"].tanh())),
}


@pytest.mark.many(2)
@pytest.mark.parametrize("name", CALLS)
def test_keys_and_values_are_read_as_they_are(name: str) -> None:
    """A launch is left for the result, which the call lays otherwise, and one for values that are computed; a
    factor of keys is one of the call's scale."""
    assert grouped(CALLS[name], tensors()) == (True, 2 if name == "made first" else 1)


def test_torchs_own_call_with_groups_comes_back_as_it_was() -> None:
    def call(t: Tensors) -> Tensor:
        return F.scaled_dot_product_attention(t["q"], t["k"], t["v"], enable_gqa=True)

    assert grouped(call, tensors(), varying=False) == (True, 1)


OTHERS: dict[str, tuple[Call, Tensors]] = {
    "float32": (CALLS["repeated"], tensors(dtype=torch.float32)),
    "heads of 12": (CALLS["repeated"], tensors(12)),
    "heads in another order": (
        lambda t: attended(t["q"], t["k"].repeat(1, 3, 1, 1), t["v"].repeat(1, 3, 1, 1)),
        tensors(),
    ),
    "two kinds of groups": (
        lambda t: attended(t["q"], repeated(t["k"]), repeated(t["w"], 2)),
        tensors(),
    ),
    "values of every head": (
        lambda t: attended(t["q"], repeated(t["k"]), torch.cat([t["q"], t["q"][:, :, :4]], 2)),
        tensors(),
    ),
}


@pytest.mark.many(2)
@pytest.mark.parametrize("name", OTHERS)
def test_elsewhere_they_are_repeated(name: str) -> None:
    call, given = OTHERS[name]
    source = generate(problem_of(call, given), ()).kernel.source
    assert "enable_gqa" not in source
    check(call, source, given)
