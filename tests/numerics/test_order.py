"""What comes in an order that nobody promises is right in any, as long as all of it has the same."""

from __future__ import annotations

from dataclasses import replace

import known_ops as ops
import pytest
import torch
from torch import Tensor

from workbench.model import Graph, OpNode, OutputSpec, Problem, Ref
from workbench.numerics.bounds import OutputBound, bounds, in_expected_order
from workbench.numerics.compare import compare
from workbench.numerics.conditioning import Oracle
from workbench.numerics.order import orders
from workbench.numerics.running import Running

ROWS, COLUMNS, CHOSEN = 12, 40, 5
PLACES, VALUES = Ref(ref="top", item=1), Ref(ref="top", item=0)


def router(x: Tensor, is_sorted: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Places, weights and a mask of what was chosen."""
    scores = x.sigmoid()
    values, places = scores.topk(CHOSEN, -1, True, is_sorted)
    mask = torch.zeros_like(scores).scatter(1, places, 1.0)
    return places, values / values.sum(-1, keepdim=True) * 2.5, mask


def problem(outputs: tuple[Ref, ...], is_sorted: bool = False) -> Problem:
    chosen = OpNode(
        name="top",
        op="aten.topk.default",
        args=(ops.ref("scores"), CHOSEN, -1, True, is_sorted),
        outs=(OutputSpec(dtype="f32", dims=()), OutputSpec(dtype="i64", dims=())),
    )
    nodes = (
        ops.node("scores", "aten.sigmoid.default", ops.ref("x")),
        chosen,
        ops.node("sum", "aten.sum.dim_IntList", VALUES, (-1,), True),
        ops.node("part", "aten.div.Tensor", VALUES, ops.ref("sum")),
        ops.node("weights", "aten.mul.Tensor", ops.ref("part"), 2.5),
        ops.node("none", "aten.full.default", (ROWS, COLUMNS), 0.0),
        ops.node("mask", "aten.scatter.value", ops.ref("none"), 1, PLACES, 1.0),
    )
    made = ops.make(router, {"x": (ROWS, COLUMNS)}, nodes).problem  # type: ignore[arg-type]
    specs = tuple(OutputSpec(dtype="i64" if ref.item == 1 else "f32", dims=()) for ref in outputs)
    return made.model_copy(update={"graph": Graph(nodes=nodes, outputs=outputs), "outputs": specs})


ALL = (PLACES, ops.ref("weights"), ops.ref("mask"))


def held(
    outputs: tuple[Ref, ...] = ALL, is_sorted: bool = False, x: Tensor | None = None
) -> tuple[Tensor, tuple[OutputBound, ...]]:
    x = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0)) if x is None else x
    which = [ALL.index(ref) if ref in ALL else 1 for ref in outputs]

    def of(made: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(made[n] for n in which)

    oracle = Oracle(of(router(x.double(), is_sorted)))
    one = problem(outputs, is_sorted)
    native = of(router(x, is_sorted))
    with ops.Placed():
        return x, bounds(one, {}, {"x": x}, oracle, lambda: native)


def worst(outputs: tuple[Tensor, ...], limits: tuple[OutputBound, ...]) -> float:
    with ops.Placed():
        pairs = zip(in_expected_order(outputs, limits), limits, strict=True)
        return max(compare(got, limit).max_ratio for got, limit in pairs)


def shuffled(x: Tensor) -> Tensor:
    """A permutation of each row's chosen ones."""
    return torch.rand(len(x), CHOSEN, generator=torch.Generator().manual_seed(1)).argsort(-1)


def test_indices_and_weights_may_come_in_any_order_together() -> None:
    x, limits = held()
    assert [limit.order is not None for limit in limits] == [True, True, False]
    assert all(limit.basis == "running error of the graph" for limit in limits)
    places, weights, mask = router(x)
    turn = shuffled(x)
    for way in (turn, turn.flip(-1)):
        assert worst((places.gather(1, way), weights.gather(1, way), mask), limits) <= 1
    assert worst((places.to(torch.int32).gather(1, turn).long(), weights.gather(1, turn), mask), limits) <= 1


def test_a_weight_stays_with_its_index() -> None:
    x, limits = held()
    places, weights, mask = router(x)
    turn = shuffled(x)
    assert worst((places.gather(1, turn), weights, mask), limits) > 1000
    assert worst((places, weights.gather(1, turn), mask), limits) > 1000
    assert worst((places.gather(1, turn), weights.gather(1, turn) * 1.001, mask), limits) > 10


def test_what_is_wrong_in_any_order_is_wrong() -> None:
    x, limits = held()
    places, weights, mask = router(x)
    sixth = x.topk(CHOSEN + 1).indices[:, -1:]
    twice = torch.cat((places[:, :-1], places[:, :1]), 1)
    for other in (twice, torch.cat((places[:, :-1], sixth), 1), places + 1000, places - 1000):
        assert worst((other, weights, mask), limits) > 1
    assert worst((places, weights, mask.roll(1, 1)), limits) > 1
    assert worst((places.roll(1, 0), weights.roll(1, 0), mask), limits) > 1


def test_a_promised_order_is_asked_for() -> None:
    x, limits = held(is_sorted=True)
    assert [limit.order for limit in limits] == [None] * 3
    places, weights, mask = router(x, is_sorted=True)
    assert worst((places, weights, mask), limits) <= 1
    assert worst((places.flip(-1), weights.flip(-1), mask), limits) > 1


def test_weights_alone_are_held_by_size() -> None:
    x, limits = held((ops.ref("weights"),))
    weights = router(x)[1]
    assert worst((weights.gather(1, shuffled(x)),), limits) <= 1
    assert worst((weights * 1.001,), limits) > 10
    assert worst((weights[:, :1].expand(weights.shape),), limits) > 10


def test_the_reference_may_have_another_order_than_float64() -> None:
    """Its weights were off by as much as they differ, and the bound was widened for all."""
    x = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0))
    places, weights, mask = router(x)
    turn = shuffled(x)
    own = (places.gather(1, turn), weights.gather(1, turn), mask)
    limits = bounds(problem(ALL), {}, {"x": x}, Oracle(router(x.double())), lambda: own)
    assert not any("widened" in limit.basis for limit in limits)
    assert worst((places, weights * 1.001, mask), limits) > 10


def test_of_what_is_nearly_as_good_either_may_be_chosen() -> None:
    """The sixth for the fifth, which are off by less than rounding; not the fourth for the sixth."""
    x = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0))
    order = x.topk(CHOSEN + 1).indices
    x[0, order[0, 5]] = torch.nextafter(x[0, order[0, 4]], torch.tensor(-10.0))
    _, limits = held(x=x)
    places = order[:, :CHOSEN].clone()
    chosen = x.sigmoid().gather(1, places)
    weights = chosen / chosen.sum(-1, keepdim=True) * 2.5
    mask = torch.zeros_like(x).scatter(1, places, 1.0)
    assert worst((places, weights, mask), limits) <= 1
    places[0, 4] = order[0, 5]
    mask[0] = torch.zeros(COLUMNS).scatter(0, places[0], 1.0)
    assert worst((places, weights, mask), limits) <= 1
    places[0, 3] = order[0, 4]
    assert worst((places, weights, mask), limits) > 1
    places[1, 4] = order[1, 5]
    assert worst((places, weights, mask), limits) > 1
    assert bool((limits[1].allowed[1:] < 1e-4).all()), "doubt in one row is none in the others"


@pytest.mark.parametrize("keep", [True, False])
def test_outputs_turn_along_whatever_is_kept(keep: bool) -> None:
    x = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0))
    graph, running = problem(ALL).graph, Running(sizes={})
    outputs = running.outputs(graph, {"x": x}, keep=keep)
    found = orders(graph, {"x": x}, running, outputs, keep)
    assert [one and (one.choice, one.shape, one.dim, one.tie is not None) for one in found] == [
        ("top", (ROWS, CHOSEN), 1, True),
        ("top", (ROWS, CHOSEN), 1, False),
        None,
    ]


def test_what_lies_behind_each_index_goes_along() -> None:
    """Rows of a table, as those of experts: (rows, chosen, features)."""
    _, limits = held((PLACES,))
    order, table = limits[0].order, torch.randn(COLUMNS, 3)
    assert order is not None
    places = limits[0].expected
    wide = replace(limits[0], dtype="f32", expected=table[places].double(), tie=None)
    wide = replace(wide, allowed=torch.full(wide.expected.shape, 1e-6), order=replace(order, tie=None))
    turned = places.gather(1, shuffled(places))
    assert worst((turned, table[turned]), (limits[0], wide)) <= 1
    assert worst((turned, table[places]), (limits[0], wide)) > 1
