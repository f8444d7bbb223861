"""Results that jump: an element differs only where honest rounding may carry it over an edge."""

from __future__ import annotations

from dataclasses import replace

import pytest
import quantisers
import torch
from quantisers import FLOATS, HONEST, OPS, SHAPES, WRONG
from torch import Tensor

from workbench.model import Crossed, DType, OpNode, OutputSpec, Ref
from workbench.numerics import choices, movement, reductions
from workbench.numerics.bounds import OutputBound, bounds
from workbench.numerics.compare import compare
from workbench.numerics.conditioning import Oracle
from workbench.numerics.dtypes import TORCH
from workbench.numerics.inputs import draw
from workbench.numerics.kinds import KINDS
from workbench.numerics.pointwise import pointwise
from workbench.numerics.running import Running
from workbench.numerics.steps import allowed_share, used_share
from workbench.numerics.tracked import Step, Tracked, exact

CASES = [(name, dtype) for name in OPS for dtype in FLOATS]


@pytest.mark.many(6)
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_honest_kernels_pass(name: str, dtype: DType) -> None:
    for shape in SHAPES:
        op = OPS[name](shape, dtype)
        for kind in KINDS:
            tensors = draw(op.problem, op.problem.cases[0], kind, 5)
            bound = op.bound(tensors)
            assert "differ" not in bound.basis
            for variant, kernel in {"eager": op.call, **HONEST[name]}.items():
                found = compare(kernel(**tensors), bound)
                assert found.max_ratio <= 1, (shape, kind, variant, found.worst)


@pytest.mark.many(6)
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_wrong_kernels_are_refused_on_ordinary_inputs(name: str, dtype: DType) -> None:
    """Negative ones too: of normal inputs half lie below zero, where floor and truncation differ."""
    for shape in SHAPES:
        op = OPS[name](shape, dtype)
        kinds = [kind for kind in KINDS if kind in ("normal", "scale 64", "heavy-tailed")]
        for variant, kernel in WRONG[name].items():
            assert any(op.judge(kernel, kind, 5)[0] > 1 for kind in kinds), (shape, variant)


def test_truncation_fails_for_the_share_of_elements_that_it_changes() -> None:
    op = quantisers.by_scale((64, 256), "f16")
    tensors = draw(op.problem, op.problem.cases[0], "normal", 5)
    found = compare(WRONG["by_scale"]["truncated"](**tensors), op.bound(tensors))
    assert 0.3 < found.wrong_fraction < 0.6


NEAR = 1.2001953125
"""3 over this is 2.49959: float16 rounds it to 2.5."""


def _bound_at(dtype: DType) -> OutputBound:
    """Quotients 2.5, -2.5, 2.49959, -2.49959, 2, 0 and 1000: ties, near ties, whole numbers, out of range."""
    op = quantisers.by_scale((7, 1), dtype)
    x = torch.tensor([7.5, -7.5, 3.0, -3.0, 6.0, 0.0, 3000.0], dtype=TORCH[dtype])
    s = torch.tensor([3.0, 3.0, NEAR, NEAR, 3.0, 3.0, 3.0], dtype=TORCH[dtype])
    return op.bound({"x": x[:, None], "s": s[:, None]})


@pytest.mark.parametrize(("dtype", "near"), [("f32", 0), ("f16", 1)])
def test_an_element_may_fall_to_the_side_of_its_tie_alone(dtype: DType, near: int) -> None:
    step = _bound_at(dtype).step
    assert step is not None
    assert step.up[:, 0].tolist() == [1, 0, near, 0, 0, 0, 0]
    assert step.down[:, 0].tolist() == [0, 1, 0, near, 0, 0, 0]
    assert step.distance[4:].isinf().all()
    if near:
        assert float(step.distance[2]) == pytest.approx(2.5 - 3 / NEAR)


def test_a_wrong_side_near_a_tie_is_refused() -> None:
    bound = _bound_at("f16")
    right = bound.expected.clone()
    assert right[:, 0].tolist() == [2, -2, 2, -2, 2, 0, 127]

    def ratio(position: int, value: int) -> float:
        got = right.clone()
        got[position] = value
        return compare(got, bound).max_ratio

    assert compare(right, bound).max_ratio == 0
    assert ratio(2, 3) <= 1
    assert ratio(2, 1) > 1
    assert ratio(2, 4) > 1
    assert ratio(3, -3) <= 1
    assert ratio(3, -1) > 1
    assert ratio(4, 3) > 1


def test_one_odd_element_of_the_reference_widens_nothing_else() -> None:
    for name in ("by_row", "there_and_back"):
        op = OPS[name]((8, 300), "f16")
        tensors = draw(op.problem, op.problem.cases[0], "normal", 5)
        odd = op.call(**tensors)
        odd[3, 7] += 5
        bound = bounds(op.problem, {}, tensors, Oracle(op.wide(tensors)), lambda own=odd: (own,))[0]
        assert compare(odd, bound).max_ratio <= 1
        assert compare(WRONG[name]["truncated"](**tensors), bound).wrong_fraction > 0.3
        assert "1 elements as the reference has them" in bound.basis


def test_what_is_allowed_for_the_references_sake_is_no_part_of_the_share() -> None:
    """As of classes that overflow in float32: an honest kernel has all of them as the reference has them."""
    op = OPS["by_row"]((33, 256), "f16")
    tensors = draw(op.problem, op.problem.cases[0], "normal", 5)
    odd = op.call(**tensors)
    odd[:, ::2] += 5
    bound = bounds(op.problem, {}, tensors, Oracle(op.wide(tensors)), lambda: (odd,))[0]
    assert bound.share < 1
    assert compare(odd, bound).max_ratio <= 1
    assert compare(bound.expected, bound).max_ratio <= 1


def test_where_most_elements_are_near_a_tie_their_share_is_bounded() -> None:
    """In bfloat16 a quotient of 100 is rounded to halves: each element alone may be one off, all may not."""
    op = quantisers.by_row((33, 64), "bf16")
    bound = op.bound(draw(op.problem, op.problem.cases[0], "offset", 5))
    assert bound.step is not None
    down, up = bound.step.down, bound.step.up
    cheat = (bound.expected + torch.where(up > 0, up, -down)).to(torch.int8)
    found = compare(cheat, bound)
    assert found.max_ratio > 1
    assert "near an edge" in found.pattern
    assert compare(cheat, replace(bound, share=torch.inf)).max_ratio <= 1


def test_of_few_different_distances_no_share_is_asked() -> None:
    ones = torch.ones(1000, dtype=torch.float64)
    alike = Step(ones, ones, 0.25 * ones)
    assert allowed_share(torch.zeros(1000, dtype=torch.float64), alike) >= 1
    apart = Step(ones, ones, torch.arange(1000, dtype=torch.float64))
    assert 0.5 < allowed_share(torch.zeros(1000, dtype=torch.float64), apart) < 0.6
    assert used_share(ones, apart) == 1
    assert allowed_share(0.4 * ones, apart) > 0.8


def test_what_lies_across_an_edge_is_told() -> None:
    op = quantisers.by_row((33, 64), "f16")
    tensors = draw(op.problem, op.problem.cases[0], "normal", 5)
    bound = op.bound(tensors)
    native = op.call(**tensors)
    found = compare(native, bound).crossed
    assert found is not None
    assert found.elements == int((native != bound.expected).sum())
    assert found.of == native.numel()
    assert 0 < found.distance < 0.2
    assert compare(bound.expected.to(torch.int8), bound).crossed is None
    words = Crossed(elements=12, of=65536, distance=0.0024).words
    assert (
        words
        == "12 of 65,536 elements lie a step away, each within 0.0024 of an edge, where rounding decides"
    )


def test_floors_of_whole_results_are_one_step_off_at_most() -> None:
    """-100 * 0.3 is -30 in float64 and a little less in float32."""
    op = quantisers.binned((1, 3), "f16")
    bound = op.bound({"x": torch.tensor([[-100.0, 50.0, 0.0]], dtype=torch.float16)})
    assert bound.step is not None
    assert bound.step.down.tolist() == [[1, 1, 0]]
    assert bound.step.up.tolist()[0][2] == 0

    def ratio(*values: int) -> float:
        found: Tensor = torch.tensor([values], dtype=torch.int32)
        return compare(found, bound).max_ratio

    expected = bound.expected[0].tolist()
    assert ratio(*expected) == 0
    assert ratio(-31, *expected[1:]) <= 1
    assert ratio(-32, *expected[1:]) > 1


def _off_by(values: list[float], error: float, dtype: DType) -> Tracked:
    made = exact(torch.tensor(values, dtype=torch.float64), dtype)
    return replace(made, shared=torch.full_like(made.shared, error))


def test_what_falls_over_an_edge_has_there_the_error_that_took_it_across() -> None:
    """x * (x > 0) is zero a little below zero; what an error of 0.5 takes across may be 0.4 there."""
    x = _off_by([-0.1, -0.6, 0.3], 0.5, "f32")
    mask = pointwise("gt", torch.ops.aten.gt.Scalar, [x, 0.0], {}, "bool")
    made = pointwise("mul", torch.ops.aten.mul.Tensor, [x, mask], {}, "f32")
    assert made.step is not None
    assert made.step.up.tolist() == pytest.approx([0.4, 0.0, 0.5], abs=1e-6)
    assert float(made.error[0]) >= 0.4 and float(made.error[1]) < 1e-6


def test_a_result_is_rounded_where_it_fell_to() -> None:
    """In bfloat16 2.51 is stored as 2.5, and 0.01 is off by next to nothing."""
    x = _off_by([0.01], 2.5, "bf16")
    made = pointwise("mul", torch.ops.aten.mul.Tensor, [x, 1.0], {}, "bf16")
    assert float(made.error[0]) >= 2.5 + 2.51 * 2.0**-9
    mask = replace(exact(torch.tensor([False]), "bool"), shared=torch.ones(1, dtype=torch.float64))
    left, right = (exact(torch.tensor([value]), "bf16") for value in (2.5, 0.01))
    where = pointwise("where", torch.ops.aten.where.self, [mask, left, right], {}, "bf16")
    made = pointwise("add", torch.ops.aten.add.Tensor, [where, 0.001], {}, "bf16")
    assert float(made.error[0]) >= 2.49 + 2.501 * 2.0**-9


def converted(values: list[float], dtype: DType, error: float = 0.0) -> Tracked:
    given = torch.tensor(values, dtype=torch.float64)
    off = torch.full_like(given, error)
    made = movement.cast(Tracked(given, torch.zeros_like(off), off, "f32"), dtype)
    assert torch.equal(made.value, given.to(TORCH[dtype]))
    return made


@pytest.mark.parametrize("dtype", ["u8", "i8", "i16"])
def test_numbers_beyond_a_narrow_type_wrap_round_and_are_asked_for(dtype: DType) -> None:
    made = converted([-5.0, -129.0, 300.7, 70000.0, 2.0**31 - 300, -(2.0**31)], dtype)
    assert not bool(made.error.any())
    assert dtype != "u8" or made.value[0] == 251


@pytest.mark.parametrize(("dtype", "largest"), [("u8", 2.0**31), ("i32", 2.0**31), ("i64", 2.0**63)])
def test_of_numbers_that_no_conversion_promises_nothing_is_asked(dtype: DType, largest: float) -> None:
    beyond = converted([largest, -1.01 * largest, torch.inf, -torch.inf, torch.nan], dtype)
    assert bool(beyond.error.isinf().all()) and bool((beyond.down.isinf() & beyond.up.isinf()).all())
    assert not bool(converted([-0.999 * largest, 0.999 * largest], dtype).error.any())


def test_beside_the_end_of_a_type_lies_its_other_end() -> None:
    """Of 255.9 and 256.1 a byte makes 255 and 0."""
    made = converted([255.95, 254.95, -0.95, 0.95], "u8", error=0.1)
    assert made.error.tolist() == [torch.inf, 1, torch.inf, 1]
    whole = movement.cast(converted([256.05, 257.05, 250.5], "i32", error=0.1), "u8")
    assert whole.error.tolist() == [torch.inf, 1, 0]


def test_what_comes_of_any_whole_number_is_unsure_where_it_matters() -> None:
    number = converted([torch.nan, 3.0, torch.nan], "i32")
    added = pointwise("add", torch.ops.aten.add.Tensor, [number, exact(torch.tensor(1), "i32")], {}, "i32")
    assert added.error.isinf().tolist() == [True, False, True]
    mask = exact(torch.tensor([True, True, False]), "bool")
    zero = exact(torch.tensor(0, dtype=torch.int32), "i32")
    chosen = pointwise("where", torch.ops.aten.where.self, [mask, number, zero], {}, "i32")
    assert chosen.error.isinf().tolist() == [True, False, False]


JOINED = {
    "sum": (torch.ops.aten.sum.dim_IntList, [[-1]]),
    "prod": (torch.ops.aten.prod.dim_int, [-1]),
    "amax": (torch.ops.aten.amax.default, [[-1]]),
    "cumsum": (torch.ops.aten.cumsum.default, [-1]),
    "cumprod": (torch.ops.aten.cumprod.default, [-1]),
}


@pytest.mark.parametrize("name", JOINED)
def test_whole_numbers_that_fell_over_an_edge_are_joined_with_what_they_may_be(name: str) -> None:
    """Tiles of a picture that something covers: ``prod`` of two ends, each of them a floor."""
    op, rest = JOINED[name]
    ends = torch.tensor([[3.0001, 2.5], [3.5, 2.5]])
    whole = movement.cast(_off_by(ends.flatten().tolist(), 0.001, "f32"), "i32")
    whole = movement.move("view", torch.ops.aten.view.default, [whole, [2, 2]], {}, "i32")
    args = tuple(tuple(arg) if isinstance(arg, list) else arg for arg in rest)
    outs = (OutputSpec(dtype="i64", dims=()),)
    node = OpNode(name="made", op=str(op), args=(Ref(ref="whole"), *args), outs=outs)
    made = Running(sizes={}, results={"whole": whole}).apply(node)
    assert isinstance(made, Tracked)
    honest = op(torch.tensor([[2, 2], [3, 2]]), *rest).to(torch.float64)
    off = (honest - made.value.to(torch.float64)).abs()
    assert float(off.max()) > 0
    assert bool((made.error >= off).all())
    assert not bool((made.error[1] > 0).any()), "nothing there is near an edge"


def test_a_product_with_any_whole_number_is_unsure_unless_it_is_zero() -> None:
    """NaN becomes whatever number it becomes; times zero that is zero."""
    number = converted([torch.nan, 3.0, torch.nan, 0.0, 2.0, 4.0], "i32")
    pairs = movement.move("view", torch.ops.aten.view.default, [number, [3, 2]], {}, "i32")
    assert isinstance(pairs, Tracked)
    made = reductions.product(pairs, 1, False, "i64")
    assert made.error.tolist() == [torch.inf, 0.0, 0.0]
    assert made.value[2] == 8


def test_what_differs_may_be_equal_within_its_error() -> None:
    """Neither end of an interval shows it: of 1 give or take 2, both 3 and -1 are no zero."""
    count = replace(
        exact(torch.tensor([1.0, 1.0, 0.0]), "f32"), shared=torch.tensor([2.0, 0.5, 0.0]).double()
    )
    for name, op in (("eq", torch.ops.aten.eq.Scalar), ("ne", torch.ops.aten.ne.Scalar)):
        found = pointwise(name, op, [count, 0], {}, "bool")
        assert (found.error > 0).tolist() == [True, False, False]


def test_of_a_one_hot_code_only_places_that_are_as_good_may_be_the_one() -> None:
    scores = exact(torch.tensor([[1.0, 3.0, 3.0, 0.0], [2.0, 1.0, 0.0, 0.0]]), "f32")
    for keepdim in (False, True):
        index = choices.index_of_extremum(torch.argmax, scores, -1, keepdim)
        if not keepdim:
            one = movement.move("unsqueeze", torch.ops.aten.unsqueeze.default, [index, 1], {}, "i64")
            assert isinstance(one, Tracked)
            index = one
        places = exact(torch.arange(4), "i64")
        code = pointwise("eq", torch.ops.aten.eq.Tensor, [index, places], {}, "bool")
        assert (code.error > 0).tolist() == [[False, True, True, False], [False] * 4]


def test_a_label_may_be_the_place_that_was_chosen_where_it_is_as_good() -> None:
    """As an accuracy asks: of two that are equal a kernel may choose either; -100 is no place."""
    scores = exact(torch.tensor([[1.0, 3.0, 3.0], [1.0, 3.0, 3.0], [3.0, 3.0, 0.0], [2.0, 1.0, 0.0]]), "f32")
    labels = exact(torch.tensor([2, 0, -100, 1]), "i64")
    index = choices.index_of_extremum(torch.argmax, scores, -1, False)
    right = pointwise("eq", torch.ops.aten.eq.Tensor, [index, labels], {}, "bool")
    assert (right.error > 0).tolist() == [True, False, False, False]
    _, best = choices.selected(torch.ops.aten.topk.default, scores, [1], {}, "f32")
    beside = movement.move("unsqueeze", torch.ops.aten.unsqueeze.default, [labels, 1], {}, "i64")
    among = pointwise("eq", torch.ops.aten.eq.Tensor, [best, beside], {}, "bool")
    assert (among.error > 0).tolist() == [[True], [False], [False], [False]]


def test_codes_of_several_choices_a_row_have_an_axis_of_their_own() -> None:
    """As a router's positions ask: which expert is a token's first and which its second, of three alike."""
    nan, choose, arange = torch.nan, torch.ops.aten.topk.default, exact(torch.arange(4), "i64")
    low = -torch.inf
    scores = torch.tensor([[1.0, 3.0, 3.0, 3.0], [4.0, 3.0, 1.0, 0.0], [nan] * 4, [low] * 4])
    for dim, turned in ((1, scores), (0, scores.T)):
        _, best = choices.selected(choose, exact(turned, "f32"), [2, dim], {}, "f32")
        beside = movement.move("unsqueeze", torch.ops.aten.unsqueeze.default, [best, 2], {}, "i64")
        code = pointwise("eq", torch.ops.aten.eq.Tensor, [beside, arange], {}, "bool")
        doubt = code.error if dim == 1 else code.error.transpose(0, 1)
        alike = [[False, True, True, True]] * 2
        assert (doubt > 0).tolist() == [alike, [[False] * 4] * 2, *[[[True] * 4] * 2] * 2]
