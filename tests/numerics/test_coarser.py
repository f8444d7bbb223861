"""Blocks of many products: what roundings make of them is allowed, what a missing part makes is not."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product

import known_ops as ops
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from workbench.model import Arg, Graph, OpNode, OutputSpec, Problem, Ref
from workbench.numerics import bounds as limits
from workbench.numerics import coarser
from workbench.numerics.bounds import FEWER_BITS, OutputBound, bounds
from workbench.numerics.coarser import most_at_once, reach
from workbench.numerics.compare import compare
from workbench.numerics.conditioning import Oracle
from workbench.numerics.inputs import draw
from workbench.numerics.kinds import InputKind
from workbench.numerics.operators import last_read
from workbench.numerics.reach import Reach, farthest
from workbench.numerics.running import Running
from workbench.numerics.tracked import Tracked
from workbench.problem.capture import read_cell
from workbench.problem.intake import open_problem
from workbench.problem.reference import Reference

Tensors = dict[str, Tensor]
BLOCK = """
import torch, torch.nn as nn, torch.nn.functional as F

class Block(nn.Module):
    def __init__(self, width=64, heads=4):
        super().__init__()
        self.heads, self.norm, self.again = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.all, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.all(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        met = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(met.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.again(x))))

net = Block().to(torch.bfloat16)
inputs = [torch.randn(2, 16, 64, dtype=torch.bfloat16)]
"""
TURNS_OVER = """
import torch, torch.nn as nn

class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(64, 64, dtype=torch.bfloat16), nn.Linear(64, 64, dtype=torch.bfloat16)

    def forward(self, x):
        return torch.softmax((self.q(x) @ self.k(x).transpose(-1, -2)).float(), -1) @ x.float()

inputs = [torch.randn(64, 64, dtype=torch.bfloat16)]
"""


def block(t: Tensors, without: str = "", stored: torch.dtype = torch.float32) -> Tensor:
    """The block with a part left out, in the dtype of its tensors; weights of attention as ``stored``."""
    bias = {name: None if name == without else tensor for name, tensor in t.items()}
    x = t["x"]
    q, k, v = (
        F.linear(F.layer_norm(x, (64,), t["norm_weight"], t["norm_bias"]), t["all_weight"], bias["all_bias"])
        .unflatten(-1, (3, 4, 16))
        .permute(2, 0, 3, 1, 4)
        .float()
    )
    scores = q @ k.transpose(-1, -2) / 4.0 * (without != "scores")
    if without != "mask":
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    met = weights.to(stored).float() @ v / weights.sum(-1, keepdim=True)
    met = met.to(x.dtype).transpose(1, 2).flatten(2)
    if without != "attention":
        x = x + F.linear(met, t["out_weight"], bias["out_bias"])
    again = F.layer_norm(x, (64,), t["again_weight"], t["again_bias"])
    inner = F.linear(again, t["up_weight"], bias["up_bias"])
    inner = inner if without == "gelu" else F.gelu(inner)
    return x if without == "MLP" else x + F.linear(inner, t["down_weight"], bias["down_bias"])


def wide(t: Tensors) -> Tensor:
    """Nothing is rounded before the end."""
    return block({name: tensor.float() for name, tensor in t.items()}).to(torch.bfloat16)


def as_flash_attention_does(t: Tensors) -> Tensor:
    """Weights of attention are stored in 16 bits, before they are divided by their sum."""
    return block(t, stored=torch.bfloat16)


@cache
def problem_of(source: str) -> Problem:
    return open_problem(read_cell(source))


@cache
def bounded(source: str, kind: InputKind, seed: int = 0) -> tuple[Tensors, OutputBound]:
    problem = problem_of(source)
    reference, case = Reference(problem), problem.cases[0]
    tensors = draw(problem, case, kind, seed)
    oracle = Oracle(reference.oracle(tensors), reference.oracle)
    return tensors, bounds(problem, case.size_map, tensors, oracle, lambda: reference.call(tensors))[0]


@pytest.mark.many(2)
@pytest.mark.parametrize("honest", [block, wide, as_flash_attention_does], ids=lambda one: one.__name__)
def test_a_block_may_round_where_it_likes(honest: Callable[[Tensors], Tensor]) -> None:
    for kind in ("normal", "scale 1e-3", "scale 64", "sparse", "zero-one"):
        tensors, bound = bounded(BLOCK, kind)
        assert bound.basis == FEWER_BITS or kind == "scale 64", kind
        assert compare(honest(tensors), bound).max_ratio < 0.6, kind


PARTS = ("scores", "mask", "attention", "MLP", "gelu", "all_bias", "out_bias", "up_bias", "down_bias")


@pytest.mark.parametrize("part", PARTS)
def test_a_block_without_one_of_its_parts_is_refused(part: str) -> None:
    for kind in ("normal", "sparse"):
        tensors, bound = bounded(BLOCK, kind)
        assert compare(block(tensors, part), bound).max_ratio > 1.5, kind


def test_the_running_error_alone_would_let_it_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the test above says something."""
    monkeypatch.setattr(limits, "WIDE", torch.inf)
    tensors, bound = bounded.__wrapped__(BLOCK, "normal")
    assert compare(block(tensors, "MLP"), bound).max_ratio < 1


def _reach(source: str) -> tuple[Reach, ...] | None:
    problem = problem_of(source)
    tensors = draw(problem, problem.cases[0], "normal", 0)
    running = Running(sizes=problem.cases[0].size_map, contract=problem.contract)
    running.outputs(problem.graph, tensors)
    with ops.Placed():
        return reach(problem.graph, tensors, running)


def test_values_are_the_same_with_and_without_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shorter way to them: operators alone, where these compute what the rules do."""
    alone = _reach(BLOCK)
    monkeypatch.setattr(coarser, "_agrees", lambda *_: False)
    by_rules = _reach(BLOCK)
    assert alone is not None and by_rules is not None
    torch.testing.assert_close(alone[0].allowed, by_rules[0].allowed, rtol=1e-6, atol=1e-9)


def test_a_number_that_a_mask_puts_in_may_be_drawn_too() -> None:
    """``masked_fill`` takes a tensor without axes, and not sixteen of them side by side."""

    def node(name: str, op: str, args: tuple[Arg, ...], dims: tuple[int, ...]) -> OpNode:
        return OpNode(name=name, op=op, args=args, outs=(OutputSpec(dtype="bf16", dims=dims),))

    x, mask, product, mean = (Ref(ref=name) for name in ("x", "mask", "product", "mean"))
    nodes = (
        node("product", "aten.mm.default", (x, x), (64, 64)),
        node("mean", "aten.mean.default", (product,), ()),
        node("filled", "aten.masked_fill.Tensor", (product, mask, mean), (64, 64)),
    )
    graph = Graph(nodes=nodes, outputs=(Ref(ref="filled"),))
    hidden = torch.ones(64, 64).triu(1).bool()
    tensors = {"x": torch.randn(64, 64, dtype=torch.bfloat16), "mask": hidden}
    running = Running(sizes={})
    running.outputs(graph, tensors)
    found = reach(graph, tensors, running)
    assert found is not None and bool((found[0].far > 0).all()) and bool(torch.isfinite(found[0].far).all())


def test_what_is_hardly_off_is_no_exact_value() -> None:
    """Softmax of the two best, put among zeros: errors of the two in one type, and none of them lost."""
    source = """
import torch

def gates(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    scores = x @ w
    best, at = scores.topk(2, -1)
    return torch.zeros_like(scores).scatter(1, at, best.softmax(-1)).sum(0).var()

inputs = [torch.randn(53, 32), torch.randn(32, 8)]
"""
    assert problem_of(source).proofs
    off = coarser._hardly_off(Tracked(torch.ones(3).double(), torch.eye(3)[0], torch.zeros(3), "f32"))
    assert off.independent.tolist() == [coarser.HARDLY, 0.0, 0.0] and not off.is_exact


def test_draws_one_by_one_reach_as_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large problems have no room for several side by side."""
    together = _reach(BLOCK)
    monkeypatch.setattr(coarser, "AT_ONCE", 1)
    apart = _reach(BLOCK)
    assert together is not None and apart is not None
    assert 0.8 < float(together[0].far.mean() / apart[0].far.mean()) < 1.25


def test_what_turns_over_for_a_rounding_may() -> None:
    """Of scores in the thousands the largest is another one where they are rounded otherwise."""
    turned = 0
    for kind, seed in product(("scale 64", "heavy-tailed"), range(2)):
        tensors, bound = bounded(TURNS_OVER, kind, seed)
        x = tensors["x"].double()
        q, k = (x @ tensors[f"{one}_weight"].double().t() + tensors[f"{one}_bias"].double() for one in "qk")
        low_q, low_k = q.bfloat16().double(), k.bfloat16().double()
        for one, other in ((low_q, k), (q, low_k), (low_q, low_k)):
            scores = (one @ other.t()).bfloat16().double()
            got = (torch.softmax(scores, -1) @ x).float()
            assert compare(got, bound).max_ratio <= 1, (kind, seed)
            turned += int(((got - bound.expected).abs() > 0.1 * bound.expected.abs().max()).sum())
    assert turned, "no score was near another one"


def test_a_draw_that_passes_an_edge_tells_nothing() -> None:
    """Whether a value is counted is decided by a rounding: no draw says what the next will decide."""
    source = """
import torch

def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return ((x @ w) > 0).float() @ w

inputs = [torch.randn(64, 64, dtype=torch.float32), torch.randn(64, 64, dtype=torch.float32)]
"""
    problem = problem_of(source)
    tensors = draw(problem, problem.cases[0], "normal", 0)

    def moves() -> tuple[Reach, ...] | None:
        running = Running(sizes=problem.cases[0].size_map, contract=problem.contract)
        running.outputs(problem.graph, tensors)
        return reach(problem.graph, tensors, running)

    assert moves() is not None, "no product is near zero"
    tensors["x"][0] = 0.0
    tensors["x"][0, :2] = torch.stack([tensors["w"][1, 0], -tensors["w"][0, 0]])
    assert moves() is None


def test_results_that_are_not_kept_are_made_again_and_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deep network has hundreds of results; a card has no room for all of them with their errors."""
    _, kept = bounded.__wrapped__(BLOCK, "normal")
    monkeypatch.setattr(limits, "KEPT", 0)
    _, again = bounded.__wrapped__(BLOCK, "normal")
    assert kept.basis == again.basis == FEWER_BITS
    assert torch.equal(kept.allowed, again.allowed)


@pytest.mark.slow
def test_draws_in_several_walks_reach_as_far(monkeypatch: pytest.MonkeyPatch) -> None:
    together = _reach(BLOCK)
    monkeypatch.setattr(coarser, "HELD", 1)
    apart = _reach(BLOCK)
    assert together is not None and apart is not None
    assert 0.8 < float(together[0].far.mean() / apart[0].far.mean()) < 1.25


def test_fewer_draws_at_once_where_memory_does_not_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other problems may be on the card."""
    together, walked = _reach(BLOCK), coarser._walked
    asked: list[int] = []
    monkeypatch.setattr(coarser, "AT_ONCE", 1)

    def tight(graph: Graph, tensors: Tensors, still: Running, parts: list[tuple[int, int]]) -> object:
        asked.append(sum(count for _, count in parts))
        assert all(count == 1 for _, count in parts), "more at once than before"
        if asked[-1] > room:
            raise torch.OutOfMemoryError
        return walked(graph, tensors, still, parts)

    monkeypatch.setattr(coarser, "_walked", tight)
    room = 5
    apart = _reach(BLOCK)
    assert asked == [16, 8, 4, 4, 4, 4]
    assert together is not None and apart is not None
    assert 0.8 < float(together[0].far.mean() / apart[0].far.mean()) < 1.25
    room = 0
    with pytest.raises(torch.OutOfMemoryError):
        _reach(BLOCK)


def test_as_many_elements_as_are_wanted_at_once() -> None:
    """Three exponentials in a row need two at a time, and a weight that is only transposed does not move."""

    def node(name: str, op: str, of: str) -> OpNode:
        return OpNode(name=name, op=op, args=(Ref(ref=of),), outs=(OutputSpec(dtype="f32", dims=(4, 4)),))

    nodes = (
        node("turned", "aten.t.default", "x"),
        *(node(f"e{i}", "aten.exp.default", f"e{i - 1}" if i else "turned") for i in range(3)),
    )
    graph = Graph(nodes=nodes, outputs=(Ref(ref="e2"),))
    assert last_read(graph) == {"turned": ("x",), "e0": ("turned",), "e1": ("e0",), "e2": ("e1",)}
    assert most_at_once(graph, {}) == 32
    assert most_at_once(Graph(nodes=nodes[:2], outputs=(Ref(ref="e0"),)), {}) == 16


def test_what_has_turned_over_may_be_rounded_besides() -> None:
    """A score that turns over completely moves a result as far in a kernel as in a draw, to the last digit.

    A block in bfloat16 at 4 x 1024 x 1024 was refused on an H100, for 1.004 times what was allowed.
    """
    moves = torch.full((16, 8, 64), 0.01)
    moves[3, 5] = 1.0
    found = farthest(moves).allowed
    assert bool((found[5] > 1.02).all()) and bool((found[5] < 1.5).all())
    assert bool((found[0] < 0.5).all()), "other rows are held to more than what turned over in one"
