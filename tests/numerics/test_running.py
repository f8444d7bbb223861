"""Every rule on its own: float32 torch stays within it, float16 values do not, no operation is unknown."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import known_ops as ops
import pytest
import torch

from tests.playbook.problems import problem_of
from workbench.model import Arg, Graph, OpNode, OutputSpec, Ref
from workbench.numerics import linear, movement
from workbench.numerics.dtypes import NAMES
from workbench.numerics.inputs import draw
from workbench.numerics.operators import DTYPES, operator
from workbench.numerics.pointwise import pointwise as tracked
from workbench.numerics.running import Running
from workbench.numerics.tracked import Tracked, deviation, exact

X, Y = ops.ref("x"), ops.ref("y")
POSITIVE = "positive"


@dataclass(frozen=True)
class One:
    """One operation on x (6, 8, 10), y of the same shape, and friends."""

    op: str
    args: tuple[Arg, ...] = (X,)
    domain: str = "normal"
    kwargs: dict[str, Arg] = field(default_factory=dict)
    rounds: bool = True
    """False for operations whose result is one of their inputs, or an integer."""


def pointwise(names: str, domain: str = "normal", rounds: bool = True) -> list[One]:
    return [One(f"aten.{name}.default", domain=domain, rounds=rounds) for name in names.split()]


ROWS: tuple[Arg, ...] = (X, (-1,), True)
OPS = [
    *pointwise("exp expm1 sin cos tan tanh erf erfc sigmoid silu gelu mish softplus elu selu sinh cosh"),
    *pointwise("log log2 log10 log1p sqrt rsqrt reciprocal lgamma", POSITIVE),
    *pointwise("neg abs relu floor ceil round trunc sign isnan logical_not", rounds=False),
    *[One(f"aten.{name}.Tensor", (X, Y)) for name in ("add", "sub", "mul", "div")],
    *[One(f"aten.{name}.default", (X, Y), rounds=False) for name in ("maximum", "minimum")],
    *[One(f"aten.{name}.Tensor", (X, Y), rounds=False) for name in ("lt", "ge", "eq")],
    One("aten.pow.Tensor_Scalar", (X, 3)),
    One("aten.pow.Tensor_Tensor", (X, Y), POSITIVE),
    One("aten.atan2.default", (X, Y)),
    *[One(f"aten.{name}.default", (X, Y)) for name in ("logaddexp", "logaddexp2")],
    One("aten.clamp.default", (X, -0.5, 0.5), rounds=False),
    One("aten.where.self", (ops.ref("mask"), X, Y), rounds=False),
    One("aten.sum.dim_IntList", ROWS),
    One("aten.sum.default"),
    One("aten.mean.dim", (X, (0, 2))),
    One("aten.mean.default"),
    One("aten.amax.default", ROWS, rounds=False),
    One("aten.amin.default", (X, (0,)), rounds=False),
    One("aten.max.default", rounds=False),
    One("aten.prod.dim_int", (X, 1)),
    One("aten.cumsum.default", (X, 2)),
    One("aten.cumprod.default", (X, 2)),
    One("aten.argmax.default", (X, 1), rounds=False),
    One("aten.argmin.default", rounds=False),
    One("aten.max.dim", (X, 1), rounds=False),
    One("aten.topk.default", (X, 3, 1), rounds=False),
    One("aten.sort.default", (X, 1), rounds=False),
    One("aten.bmm.default", (X, ops.ref("square"))),
    One("aten.linear.default", (X, ops.ref("matrix"), ops.ref("vector"))),
    One(
        "aten.convolution.default", (X, ops.ref("kernel"), ops.ref("bias"), (1,), (1,), (1,), False, (0,), 1)
    ),
    One("aten.convolution.default", (X, ops.ref("kernel_t"), None, (2,), (0,), (1,), True, (0,), 1)),
    One("aten.avg_pool2d.default", (X, (2, 2))),
    One("aten._adaptive_avg_pool2d.default", (X, (2, 2))),
    One("aten.max_pool2d_with_indices.default", (X, (2, 2)), rounds=False),
    One("aten.upsample_bilinear2d.default", (ops.ref("image"), (7, 9), False)),
    One("aten.permute.default", (X, (2, 0, 1)), rounds=False),
    One("aten.expand.default", (ops.ref("column"), (6, 8, 10)), rounds=False),
    One("aten.view.default", (X, (48, 10)), rounds=False),
    One("aten.slice.Tensor", (X, 1, 2, 5), rounds=False),
    One("aten.select.int", (X, 0, 3), rounds=False),
    One("aten.copy.default", (X, ops.ref("column")), rounds=False),
    One("aten.copy.default", (ops.ref("mask"), X), rounds=False),
    One("aten.cat.default", ((X, Y), 1), rounds=False),
    One("aten.stack.default", ((X, Y),), rounds=False),
    One("aten.flip.default", (X, (0,)), rounds=False),
    One("aten.constant_pad_nd.default", (X, (1, 2), -torch.inf), rounds=False),
    One("aten.constant_pad_nd.default", (X, (1, 2), 0.1), rounds=False),
    One("aten.index_select.default", (X, 2, ops.ref("index")), rounds=False),
    One("aten.embedding.default", (ops.ref("matrix"), ops.ref("index")), rounds=False),
    One("aten.index.Tensor", (ops.ref("matrix"), (ops.ref("index"),)), rounds=False),
    One("aten.full_like.default", (X, 0.1), rounds=False),
    One("aten.arange.start_step", (0, 5, 1), kwargs={"dtype": "f32"}, rounds=False),
    One("aten._to_copy.default", (X,), kwargs={"dtype": "f16"}, rounds=False),
    One("aten._to_copy.default", (X,), kwargs={"dtype": "i64"}, rounds=False),
    One("prims.convert_element_type.default", (X, "f64"), rounds=False),
]


def tensors(domain: str) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    made = {
        "x": torch.randn(6, 8, 10), "y": torch.randn(6, 8, 10), "square": torch.randn(6, 10, 5),
        "matrix": torch.randn(5, 10), "vector": torch.randn(5), "kernel": torch.randn(4, 8, 3),
        "kernel_t": torch.randn(8, 4, 3), "bias": torch.randn(4), "column": torch.randn(6, 8, 1),
        "image": torch.randn(2, 3, 5, 6),
    }  # fmt: skip
    if domain == POSITIVE:
        made = {name: t.abs() + 0.1 for name, t in made.items()}
    return {**made, "mask": made["x"] > 0, "index": torch.tensor([1, 4, 4, 0])}


def run_plainly(one: One, given: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    def plain(arg: Any) -> Any:
        if isinstance(arg, Ref):
            return given[arg.ref]
        if isinstance(arg, tuple):
            return [plain(a) for a in arg]
        return DTYPES.get(arg, arg) if isinstance(arg, str) else arg

    result = operator(one.op)(*map(plain, one.args), **{k: plain(v) for k, v in one.kwargs.items()})
    return tuple(result) if isinstance(result, tuple | list) else (result,)


@pytest.mark.parametrize("one", OPS, ids=[f"{o.op}{i}" for i, o in enumerate(OPS)])
def test_a_rule_holds_from_both_sides(one: One) -> None:
    given = tensors(one.domain)
    results = run_plainly(one, given)
    outs = tuple(OutputSpec(dtype=NAMES[r.dtype], dims=()) for r in results)
    node = OpNode(name="node", op=one.op, args=one.args, kwargs=tuple(one.kwargs.items()), outs=outs)
    refs = tuple(Ref(ref="node", item=i if len(results) > 1 else None) for i in range(len(results)))
    running = Running(sizes={})
    with ops.Placed():
        tracked = running.outputs(Graph(nodes=(node,), outputs=refs), given)
    assert running.unknown == []
    lowered = {k: t.half().float() if t.is_floating_point() else t for k, t in given.items()}
    for result, low, bound in zip(results, run_plainly(one, lowered), tracked, strict=True):
        assert bound.value.shape == bound.error.shape == result.shape
        off = deviation(bound.value, result.to(bound.value.dtype))
        assert bool((off <= bound.error + 1e-300).all()), (
            f"off by {(off / bound.error).max():.3g} of the bound"
        )
        if one.rounds:
            far = deviation(bound.value, low.to(bound.value.dtype)) / bound.error.clamp_min(1e-300)
            assert float(far.max()) > 5, f"float16 inputs reach only {far.max():.3g} of the bound"


def test_errors_are_shared_after_a_broadcast() -> None:
    """A mean's error hits all elements of its row the same way: their sum must expect n times it."""
    x = torch.randn(4, 1000, generator=torch.Generator().manual_seed(0)) + 100
    nodes = (
        ops.node("m", "aten.mean.dim", X, (-1,), True),
        ops.node("d", "aten.sub.Tensor", X, ops.ref("m")),
        ops.node("s", "aten.sum.dim_IntList", ops.ref("d"), (-1,)),
    )
    graph = Graph(nodes=nodes, outputs=(ops.ref("s"),))
    (tracked,) = Running(sizes={}).outputs(graph, {"x": x})
    (mean,) = Running(sizes={}).outputs(Graph(nodes=nodes[:1], outputs=(ops.ref("m"),)), {"x": x})
    assert bool((tracked.error >= 1000 * mean.error[:, 0]).all())


def test_a_comparison_in_doubt_is_counted_as_doubt() -> None:
    x = torch.tensor([0.1, 0.3])
    nodes = (
        ops.node("third", "aten.div.Tensor", X, 3),
        ops.node("back", "aten.mul.Tensor", ops.ref("third"), 3),
        ops.node("less", "aten.lt.Tensor", ops.ref("back"), ops.ref("limit"), dtype="bool"),
    )
    given = {"x": x, "limit": torch.tensor([0.1, 0.9])}
    (less,) = Running(sizes={}).outputs(Graph(nodes=nodes, outputs=(ops.ref("less"),)), given)
    assert less.error.tolist() == [1.0, 0.0]


def test_sizes_enter_through_symbols() -> None:
    node = OpNode.model_validate(
        {
            "name": "v",
            "op": "aten.view.default",
            "args": [{"ref": "x"}, [{"sym": "a*b"}]],
            "outs": [{"dtype": "f32", "dims": []}],
        }
    )
    graph = Graph(nodes=(node,), outputs=(ops.ref("v"),))
    (flat,) = Running(sizes={"a": 2, "b": 3}).outputs(graph, {"x": torch.randn(2, 3)})
    assert flat.value.shape == (6,)


def test_indices_made_from_sizes_alone_are_exact() -> None:
    """i * 0.1 rounds to another whole number in float32 than in float64; the reference's own counts."""
    f32 = OutputSpec(dtype="f32", dims=(31,))
    nodes = (
        OpNode(name="i", op="aten.arange.start_step", args=(0, 31), outs=(f32,)),
        OpNode(name="scaled", op="aten.mul.Tensor", args=(ops.ref("i"), 0.1), outs=(f32,)),
        OpNode(
            name="index",
            op="prims.convert_element_type.default",
            args=(ops.ref("scaled"), "i64"),
            outs=(OutputSpec(dtype="i64", dims=(31,)),),
        ),
    )
    (index,) = Running(sizes={}).outputs(Graph(nodes=nodes, outputs=(Ref(ref="index"),)), {})
    assert index.is_exact
    assert torch.equal(index.value, (torch.arange(31, dtype=torch.float32) * 0.1).long())


def test_ranges_and_probes_are_made_where_the_tensors_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU a mask of ranges met the CPU, the graph could not be interpreted, and the bound was another.

    The meta device stands for a GPU: it mixes with the CPU as little. What its tensors hold is made up.
    """
    monkeypatch.setattr(torch.Tensor, "__bool__", lambda _: True)
    monkeypatch.setattr(torch.Tensor, "__float__", lambda _: 1.0)
    monkeypatch.setattr(torch.Tensor, "tolist", lambda tensor: [True] * tensor.numel())
    placed = SimpleNamespace(device="meta")
    monkeypatch.setattr(torch, "Generator", lambda _: SimpleNamespace(manual_seed=lambda _: placed))
    monkeypatch.setattr(torch, "randint", lambda *given, **_: torch.zeros(given[2], device="meta"))
    nodes = (
        ops.node("i", "aten.arange.start_step", 0, 4, dtype="i64"),
        ops.node("rows", "aten.view.default", ops.ref("i"), (4, 1), dtype="i64"),
        ops.node("past", "aten.le.Tensor", ops.ref("i"), ops.ref("rows"), dtype="bool"),
        ops.node("none", "aten.full.default", (4, 4), 0.1),
        ops.node("seen", "aten.where.self", ops.ref("past"), X, ops.ref("none")),
        ops.node("out", "aten.logsumexp.default", ops.ref("seen"), (-1,)),
    )
    running = Running(sizes={})
    x = torch.empty(4, 4, device="meta")
    (out,) = running.outputs(Graph(nodes=nodes, outputs=(ops.ref("out"),)), {"x": x})
    assert running.unknown == ["aten.logsumexp.default"]
    assert out.value.device.type == out.error.device.type == "meta"


@pytest.mark.parametrize(
    "rest", [[(1, 1), (1, 1), (1, 1), False, (0, 0), 3], [(2, 1), (1, 2), (1, 2), False, (0, 0), 3]]
)
def test_padding_under_an_infinite_weight_may_be_multiplied_or_left_out(rest: list[Any]) -> None:
    """Zero times infinity is NaN where it is multiplied: torch's kernels differ, by type and by device."""
    conv = torch.ops.aten.convolution.default
    x, weight = torch.randn(2, 3, 6, 7), torch.randn(3, 1, 3, 3)
    weight[1, 0, 0, 2] = torch.inf
    bound = linear.convolution(conv, exact(x, "f32"), exact(weight, "f32"), list(rest), "f32")
    before, after = rest[1], [0, 0]
    sides = [before[1], before[1], before[0], before[0]]
    padded = torch.nn.functional.pad(x, sides)
    multiplied = conv(padded, weight, None, rest[0], after, *rest[2:])
    free = bound.error.isinf()
    differs = multiplied.isnan()
    assert bool((free == differs).all()) and bool(differs.any()) and not bool(differs.all())


def test_the_lowest_number_as_a_mask_leaves_the_other_scores_their_bound() -> None:
    """(1 - mask) * finfo.min + x, as transformers have it: nothing of it overflows."""
    nodes = (
        ops.node("off", "aten.rsub.Scalar", ops.ref("mask"), 1.0),
        ops.node("low", "aten.mul.Tensor", ops.ref("off"), torch.finfo(torch.float32).min),
        ops.node("sum", "aten.add.Tensor", X, ops.ref("low")),
        ops.node("max", "aten.amax.default", ops.ref("sum"), (1,), True),
        ops.node("less", "aten.sub.Tensor", ops.ref("sum"), ops.ref("max")),
        ops.node("exp", "aten.exp.default", ops.ref("less")),
    )
    given = {"x": torch.tensor([[-2.0, 1.0, 3.0]]), "mask": torch.tensor([[0.0, 1.0, 1.0]])}
    (exponentials,) = Running(sizes={}).outputs(Graph(nodes=nodes, outputs=(ops.ref("exp"),)), given)
    assert bool((exponentials.error < 1e-5).all())


@pytest.mark.parametrize("lowest", [-1e30, -torch.inf])
def test_a_lattice_is_known_however_what_cannot_be_is_spelled(lowest: float) -> None:
    """Sums over ways, as of CTC: errors do not double from step to step."""
    steps = 24
    given = {"x0": torch.where(torch.arange(9) < 1, torch.randn(9), lowest)}
    nodes = []
    for step in range(steps):
        here, given[f"y{step}"] = ops.ref(f"x{step}"), torch.randn(9)
        nodes += [
            ops.node(f"before{step}", "aten.slice.Tensor", here, 0, 0, 8),
            ops.node(f"next{step}", "aten.constant_pad_nd.default", ops.ref(f"before{step}"), (1, 0), lowest),
            ops.node(f"both{step}", "aten.logaddexp.default", here, ops.ref(f"next{step}")),
            ops.node(f"x{step + 1}", "aten.add.Tensor", ops.ref(f"both{step}"), ops.ref(f"y{step}")),
        ]
    graph = Graph(nodes=tuple(nodes), outputs=(ops.ref(f"x{steps}"),))
    (total,) = Running(sizes={}).outputs(graph, given)
    assert bool((total.error < 1e-4).all())


@pytest.mark.parametrize("big", [1e8, torch.inf])
def test_a_logarithm_of_a_sum_is_off_by_no_more_than_what_it_is_made_of(big: float) -> None:
    """Soft minima of three neighbours, step after step, as soft time warping has them."""

    def soft_minima(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for step in range(16):
            edge = torch.full_like(x[:1], big)
            both = torch.stack([x, torch.cat([edge, x[:-1]]), torch.cat([edge, edge, x[:-2]])], -1)
            x = y[step] - 0.1 * torch.logsumexp(-both / 0.1, -1)
        return x

    given = {"x": torch.randn(12), "y": torch.randn(16, 12)}
    problem = problem_of(lambda t: soft_minima(t["x"], t["y"]), given, varying=False)
    (total,) = Running(sizes=problem.cases[0].size_map).outputs(problem.graph, given)
    assert bool((total.error < 1e-4).all())
    away = [1e-4 * (2 * torch.rand(12) - 1) for _ in range(4)]
    exact_ones = soft_minima(given["x"].double(), given["y"].double())
    for off in away:  # which is what an error of 1e-4 in the first row may come to
        moved = soft_minima((given["x"] + off).double(), given["y"].double())
        assert bool(((moved - exact_ones).abs() <= 1.01e-4).all())


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_the_larger_of_two_is_off_by_no_more_than_either(name: str) -> None:
    x = exact(torch.tensor([1.0, 5.0]), "f32")
    errors = torch.tensor([[0.3, 0.0], [0.2, 0.0]]).double()
    off = [Tracked(x.value, error, x.shared, "f32") for error in errors]
    made = tracked(name, operator(f"aten.{name}.default"), off, {}, "f32")
    torch.testing.assert_close(made.error, torch.tensor([0.3, 0.0]).double())


def test_results_go_once_nobody_reads_them() -> None:
    nodes = tuple(ops.node(f"e{i}", "aten.exp.default", ops.ref(f"e{i - 1}" if i else "x")) for i in range(3))
    graph, x = Graph(nodes=nodes, outputs=(ops.ref("e2"),)), torch.zeros(4)
    kept, lean = Running(sizes={}), Running(sizes={})
    (all_kept,), (alone,) = kept.outputs(graph, {"x": x}), lean.outputs(graph, {"x": x}, keep=False)
    assert set(kept.results) == {"x", "e0", "e1", "e2"} and set(lean.results) == {"e2"}
    assert torch.equal(all_kept.value, alone.value) and torch.equal(all_kept.error, alone.error)


def test_what_is_exact_takes_no_memory_for_its_errors() -> None:
    """Weights of a network are turned, split and made batches of before anybody multiplies with them."""
    weight = exact(torch.randn(64, 32), "f32")
    moved = movement.move("expand", torch.ops.aten.expand.default, [weight, [16, 64, 32]], {}, "f32")
    assert isinstance(moved, Tracked) and moved.is_exact
    assert moved.value.untyped_storage().nbytes() == weight.value.untyped_storage().nbytes()
    assert moved.independent.untyped_storage().nbytes() == moved.shared.untyped_storage().nbytes() == 8


def test_a_batch_that_shares_its_weight_errs_as_a_product_of_all_rows_does() -> None:
    """As torch's attention multiplies where the batch comes first, errors of the rows included."""
    x, weight = torch.randn(3, 5, 16), torch.randn(16, 8)
    nodes = (
        ops.node("y", "aten.exp.default", X),
        ops.node("many", "aten.expand.default", ops.ref("w"), (3, 16, 8)),
        ops.node("out", "aten.bmm.default", ops.ref("y"), ops.ref("many")),
    )
    graph = Graph(nodes=nodes, outputs=(ops.ref("out"),))
    (shared,) = Running(sizes={}).outputs(graph, {"x": x, "w": weight})
    own = weight.expand(3, 16, 8).contiguous()
    alone = Graph(nodes=(nodes[0], nodes[2]), outputs=(ops.ref("out"),))
    (apart,) = Running(sizes={}).outputs(alone, {"x": x, "many": own})
    torch.testing.assert_close(shared.value, apart.value, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(shared.error, apart.error, rtol=1e-6, atol=0.0)
    assert shared.value.shape == (3, 5, 8)


def test_a_strided_view_of_a_product_is_no_riddle() -> None:
    """It reads storage, and errors of a product of exact factors have one zero for all their elements."""
    nodes = (
        ops.node("product", "aten.mm.default", X, ops.ref("w")),
        ops.node("seen", "aten.as_strided.default", ops.ref("product"), (4, 4), (8, 1)),
    )
    x, w = torch.randn(6, 5), torch.randn(5, 8)
    (seen,) = Running(sizes={}).outputs(Graph(nodes=nodes, outputs=(ops.ref("seen"),)), {"x": x, "w": w})
    torch.testing.assert_close(seen.value, (x.double() @ w.double()).as_strided((4, 4), (8, 1)))
    assert seen.error.shape == (4, 4) and bool((seen.error > 0).all())


def summed_products(between: tuple[OpNode, ...] = (), last: str = "product", keep: bool = True) -> Tracked:
    """Row sums of a product: a row of numbers, one with an infinity, one with a NaN."""
    nodes = (
        ops.node("product", "aten.mm.default", X, ops.ref("w")),
        *between,
        ops.node("out", "aten.sum.dim_IntList", ops.ref(last), (1,)),
    )
    x, w = torch.randn(3, 5), torch.tensor([1.0, -2.0, 3.0]).expand(5, 3).contiguous()
    x[1, 2], x[2, 0] = torch.inf, torch.nan
    graph = Graph(nodes=nodes, outputs=(ops.ref("out"),))
    (out,) = Running(sizes={}).outputs(graph, {"x": x, "w": w, "b": torch.randn(3)}, keep=keep)
    return out


@pytest.mark.parametrize("keep", [True, False])
def test_an_infinity_that_a_sum_of_products_cancels_may_survive_where_factors_are_summed_first(
    keep: bool,
) -> None:
    """(A @ B).sum(1) is A @ B.sum(1) for all numbers; an infinity times 1 - 2 + 3 is none that is lost."""
    biased = ops.node("biased", "aten.add.Tensor", ops.ref("product"), ops.ref("b"))
    scaled = ops.node("scaled", "aten.mul.Tensor", ops.ref("biased"), 0.5)
    for out in (summed_products(keep=keep), summed_products((biased, scaled), "scaled", keep)):
        assert out.value.isnan().tolist() == [False, True, True]
        assert out.error.isinf().tolist() == [False, True, False], "a NaN that was given has to come through"


def test_an_infinity_that_anything_else_cancels_is_nan() -> None:
    """Of a sum of squares or of exponentials nothing can be summed beforehand; nor of what was given."""
    squared = ops.node("squared", "aten.mul.Tensor", ops.ref("product"), ops.ref("product"))
    doubled = ops.node("signed", "aten.sinh.default", ops.ref("product"))
    for between in (squared, doubled):
        assert not bool(summed_products((between,), between.name).error.isinf()[1:].any())
    given = torch.tensor([[torch.inf, -torch.inf, 1.0]])
    graph = Graph(nodes=(ops.node("out", "aten.sum.dim_IntList", X, (1,)),), outputs=(ops.ref("out"),))
    (plain,) = Running(sizes={}).outputs(graph, {"x": given})
    assert bool(plain.value.isnan().all()) and not bool(plain.error.isinf().any())


def test_what_is_not_linear_in_a_product_is_asked_for_as_ever() -> None:
    """p * relu(p): nothing of it can be summed beforehand."""
    gate = ops.node("gate", "aten.relu.default", ops.ref("product"))
    gated = ops.node("gated", "aten.mul.Tensor", ops.ref("product"), ops.ref("gate"))
    out = summed_products((gate, gated), "gated")
    assert bool(out.value.isnan()[1]) and not bool(out.error.isinf()[1])


def test_finite_factors_leave_every_nan_asked_for() -> None:
    """A division by zero behind a product is no affair of the product's."""
    nodes = (
        ops.node("product", "aten.mm.default", X, ops.ref("w")),
        ops.node("over", "aten.div.Tensor", ops.ref("product"), ops.ref("d")),
        ops.node("out", "aten.sum.dim_IntList", ops.ref("over"), (1,)),
    )
    x, w = torch.ones(2, 3), torch.tensor([[1.0, -1.0]]).expand(3, 2).contiguous()
    graph = Graph(nodes=nodes, outputs=(ops.ref("out"),))
    (out,) = Running(sizes={}).outputs(graph, {"x": x, "w": w, "d": torch.zeros(2)})
    assert bool(out.value.isnan().all()) and not bool(out.error.isinf().any())


def test_a_product_is_known_behind_a_cast() -> None:
    wide = ops.node("wide", "aten._to_copy.default", ops.ref("product"), dtype="f32")
    assert bool(summed_products((wide,), "wide").error.isinf()[1])


def test_values_are_let_go_with_who_holds_them() -> None:
    """Gigabytes of checks would wait for Python's collector, which counts objects, not bytes."""
    op = ops.layer_norm(rows=4, columns=8)
    running = Running(sizes={})
    gc.collect()
    gc.disable()
    try:
        running.outputs(op.problem.graph, draw(op.problem, op.problem.cases[0], "normal", 0))
        kept = weakref.ref(running)
        del running
        assert kept() is None
    finally:
        gc.enable()


def test_the_largest_number_of_a_type_is_one_and_asked_for() -> None:
    """A mask of ``torch.finfo(torch.bfloat16).min`` overflows nothing: zeros would pass in its place."""
    least = torch.finfo(torch.bfloat16).min
    x = exact(torch.tensor([1.0, -1.0], dtype=torch.bfloat16), "bf16")
    off = exact(torch.tensor([True, False]), "bool")
    made = tracked("masked_fill", torch.ops.aten.masked_fill.Scalar, [x, off, least], {}, "bf16")
    assert made.value.tolist() == [least, -1.0] and bool(made.error.isfinite().all())


def test_what_may_be_zero_times_an_infinity_is_anything() -> None:
    """A difference of products that is zero is a rounding where one of them is added unrounded."""
    value, error = torch.tensor([[0.0, 1.0], [1e-9, 0.0], [1e-3, 1.0]]), torch.tensor([[1e-8, 0.0]] * 3)
    nothing = torch.zeros_like(error, dtype=torch.float64)
    factor = Tracked(value.double(), nothing, error.double(), "f32")
    endless = exact(torch.tensor([[torch.inf, 2.0], [3.0, torch.inf]]), "f32")
    made = linear.contraction(torch.mm, factor, endless, 2, "f32")
    assert made.error.isinf().tolist() == [[True, False], [True, False], [False, False]]
    turned = Tracked(factor.value.T, nothing.T, error.double().T, "f32")
    other = linear.contraction(torch.mm, exact(endless.value.T, "f32"), turned, 2, "f32")
    assert torch.equal(other.error.isinf(), made.error.isinf().T)
