"""Attention in parts comes together as one call of the library, where that says the same."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.playbook.problems import problem_of
from tests.playbook.running import check, plan_of
from workbench.model import H100, CompileReport, OpNode, Ref
from workbench.playbook.generate import generate
from workbench.playbook.graph.rewrites import rewrite
from workbench.referee.roofline import case_time
from workbench.referee.work import flops

NOTHING_COMPILED = CompileReport(arch="sm_90a", kernels=(), seconds=0.0, cached=False, nvrtc="")
Tensors = dict[str, Tensor]
Call = Callable[[Tensors], Tensor | tuple[Tensor, ...]]


def tensors(dtype: torch.dtype = torch.float32) -> Tensors:
    """Query, key, value of 2 batches with 3 heads of 16 numbers: 8 places that look at 12; and a mask."""
    shapes = {"q": (2, 3, 8, 16), "k": (2, 3, 12, 16), "v": (2, 3, 12, 16), "m": (8, 12)}
    return {name: torch.randn(shape).to(dtype) for name, shape in shapes.items()}


def scores(t: Tensors) -> Tensor:
    return t["q"] @ t["k"].transpose(-2, -1) / math.sqrt(16)


def of_torch(t: Tensors) -> Tensor:
    return F.scaled_dot_product_attention(t["q"], t["k"], t["v"], scale=0.3)


def of_torch_causal(t: Tensors) -> Tensor:
    return F.scaled_dot_product_attention(t["q"], t["k"], t["v"], is_causal=True)


def of_torch_masked(t: Tensors) -> Tensor:
    return F.scaled_dot_product_attention(t["q"], t["k"], t["v"], attn_mask=t["m"])


def by_hand(t: Tensors) -> Tensor:
    return torch.softmax(scores(t), -1) @ t["v"]


def by_einsum(t: Tensors) -> Tensor:
    weights = torch.softmax(torch.einsum("bhld,bhsd->bhls", t["q"], t["k"]) * 0.25, -1)
    return torch.einsum("bhls,bhsd->bhld", weights, t["v"])


def bare(t: Tensors) -> Tensor:
    return torch.bmm(torch.softmax(torch.bmm(t["q"][0], t["k"][0].mT), -1), t["v"][0])


def under_tril(t: Tensors) -> Tensor:
    seen = torch.tril(torch.ones(8, 12)).view(1, 1, 8, 12)
    return torch.softmax(scores(t).masked_fill(seen == 0, -math.inf), -1) @ t["v"]


def under_triu(t: Tensors) -> Tensor:
    hidden = torch.triu(torch.ones(8, 12, dtype=torch.bool), diagonal=1)
    return torch.softmax(scores(t).masked_fill(hidden, -math.inf), -1) @ t["v"]


def under_sum(t: Tensors) -> Tensor:
    return torch.softmax(scores(t) + torch.full((8, 12), -math.inf).triu(1), -1) @ t["v"]


def under_where(t: Tensors) -> Tensor:
    seen = torch.arange(8)[:, None] >= torch.arange(12)
    return torch.softmax(torch.where(seen, scores(t), -math.inf), -1) @ t["v"]


def between_heads(t: Tensors) -> Tensor:
    """Heads lie between one another in memory, as a projection leaves them."""
    q, k, v = (t[name].reshape(2, -1, 3, 16).transpose(1, 2) for name in "qkv")
    return torch.softmax(q @ k.mT, -1) @ v


def found(call: Call, dtype: torch.dtype = torch.float32) -> OpNode | None:
    graph = rewrite(problem_of(call, tensors(dtype), varying=False))
    called = [node for node in graph.nodes if node.op == "aten.scaled_dot_product_attention.default"]
    assert not called or not any(node.op == "aten.bmm.default" for node in graph.nodes)
    return called[0] if called else None


@pytest.mark.parametrize(
    ("call", "scale", "causal"),
    [
        (of_torch, 0.3, False), (of_torch_causal, 0.25, True), (by_hand, 0.25, False),
        (by_einsum, 0.25, False), (bare, 1.0, False), (under_tril, 0.25, True), (under_triu, 0.25, True),
        (under_where, 0.25, True), (between_heads, 1.0, False),
    ],
)  # fmt: skip
def test_it_is_found_in_many_forms(call: Call, scale: float, causal: bool) -> None:
    node = found(call)
    assert node is not None
    assert (node.args[3:], node.kwargs) == ((None, 0.0, causal), (("scale", scale),))


@pytest.mark.parametrize("call", [of_torch_masked, by_hand])
def test_numbers_of_16_bits_are_attended_to_as_they_are(call: Call) -> None:
    node = found(call, torch.bfloat16)
    assert node is not None and node.outs[0].dtype == "bf16"
    assert node.args[3] == (Ref(ref="m") if call is of_torch_masked else None)


def test_heads_in_order_are_a_batch_and_others_stay_heads() -> None:
    inner, apart = found(by_hand), found(between_heads)
    assert inner is not None and apart is not None
    assert inner.outs[0].dims[1] == 1 != apart.outs[0].dims[1]


def with_weights(t: Tensors) -> tuple[Tensor, Tensor]:
    weights = torch.softmax(scores(t), -1)
    return weights @ t["v"], weights


def with_scores(t: Tensors) -> tuple[Tensor, Tensor]:
    scored = scores(t)
    return torch.softmax(scored, -1) @ t["v"], scored.amax(-1)


def any_mask(t: Tensors) -> Tensor:
    return torch.softmax(scores(t) + t["m"], -1) @ t["v"]


def one_further(t: Tensors) -> Tensor:
    return torch.softmax(scores(t).masked_fill(torch.ones(8, 12).triu(2) > 0, -math.inf), -1) @ t["v"]


def over_queries(t: Tensors) -> Tensor:
    return torch.softmax(scores(t), -2) @ t["v"]


def a_finite_mask(t: Tensors) -> Tensor:
    return torch.softmax(scores(t).masked_fill(torch.ones(8, 12).triu(1) > 0, -1e4), -1) @ t["v"]


@pytest.mark.parametrize(
    "call", [with_weights, with_scores, any_mask, under_sum, one_further, over_queries, a_finite_mask]
)
def test_it_is_left_alone_where_the_call_would_say_something_else(call: Call) -> None:
    """Or where weights or scores are wanted too: they would be made twice."""
    assert found(call) is None


@pytest.mark.parametrize(
    ("call", "dtype"),
    [(under_triu, torch.float32), (between_heads, torch.float16), (of_torch_masked, torch.bfloat16)],
)
def test_it_says_the_same_numbers(call: Call, dtype: torch.dtype) -> None:
    given = tensors(dtype)
    problem = problem_of(call, given, varying=False)
    source = generate(problem, ()).kernel.source
    assert "aten.scaled_dot_product_attention" in source
    check(call, source, given)


def test_what_is_hidden_may_be_no_number() -> None:
    """Place 11 is seen by none of the eight queries."""
    given = tensors()
    given["k"][:, :, 11] = math.nan
    check(under_triu, generate(problem_of(under_triu, given, varying=False), ()).kernel.source, given)


def test_hidden_scores_are_not_counted_under_a_causal_mask() -> None:
    q, k, v = (2, 3, 8, 16), (2, 3, 12, 16), (2, 3, 12, 20)
    whole, seen = (
        flops("scaled_dot_product_attention", [q, k, v], (2, 3, 8, 20), (q, k, v, None, 0.0, causal))
        for causal in (False, True)
    )
    assert whole == 2 * (2 * 3 * 8 * 12) * (16 + 20)
    assert seen == whole * sum(range(1, 9)) / (8 * 12)  # query i sees the keys 0 to i


@pytest.mark.parametrize("call", [of_torch, of_torch_causal])
def test_a_plan_of_one_call_has_a_modelled_time(call: Call) -> None:
    given = {name: tensor for name, tensor in tensors().items() if name != "m"}
    problem = problem_of(call, given, varying=False)
    plan = plan_of(generate(problem, ()).kernel.source, given)
    time = case_time(H100, problem, problem.cases[0], plan, NOTHING_COMPILED, ())
    assert time.time_us >= time.floor_us > 0
