"""The bound from both sides: honest float32 passes, lower precision and zeros fail."""

from __future__ import annotations

from collections.abc import Callable

import known_ops as ops
import pytest
import torch
from torch import Tensor

from workbench.model import Ref
from workbench.numerics.bounds import OutputBound, _admitting, bounds
from workbench.numerics.compare import compare
from workbench.numerics.conditioning import Oracle
from workbench.numerics.inputs import draw
from workbench.numerics.kinds import KINDS, InputKind

SEEDS = (0, 1)
MATRIX: tuple[InputKind, ...] = ("normal", "scale 64", "offset", "heavy-tailed")
"""The kinds a lower precision has to survive to pass; it must fail at least one."""


def fast_exp(x: Tensor) -> Tensor:
    """exp as __expf has it: a rounded product with log2(e), then 2 ulp of error."""
    wide = torch.exp2((x * 1.4426950408889634).float().double())
    wobble = 1 + 2 * 2.0**-23 * torch.sin(1e4 * x.double().clamp(-1e3, 1e3))
    return (wide * wobble).float()


def sequential_sum(x: Tensor) -> Tensor:
    """A whole row added up by one thread."""
    total = torch.zeros(x.shape[:-1])
    for column in x.unbind(-1):
        total = total + column
    return total


def warp_sum(x: Tensor) -> Tensor:
    """32 lanes stride over the row, then a butterfly."""
    padded = torch.nn.functional.pad(x, (0, -x.shape[-1] % 32))
    lanes = sequential_sum(padded.reshape(*x.shape[:-1], -1, 32).transpose(-1, -2))
    for half in (16, 8, 4, 2, 1):
        lanes = lanes[..., :half] + lanes[..., half : 2 * half]
    return lanes[..., 0]


SUMS = {"sequential": sequential_sum, "warp": warp_sum}


def online_softmax(x: Tensor) -> Tensor:
    """One pass: the running sum is rescaled whenever the maximum grows."""
    top = torch.full(x.shape[:-1], -torch.inf)
    total = torch.zeros(x.shape[:-1])
    for column in x.unbind(-1):
        new = torch.maximum(top, column)
        total = total * fast_exp(top - new) + fast_exp(column - new)
        top = new
    return fast_exp(x - top[..., None]) * (1 / total)[..., None]


def welford_layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    mean, m2 = torch.zeros(x.shape[:-1]), torch.zeros(x.shape[:-1])
    for count, column in enumerate(x.unbind(-1), 1):
        delta = column - mean
        mean = mean + delta / count
        m2 = m2 + delta * (column - mean)
    return (x - mean[..., None]) * torch.rsqrt(m2 / x.shape[-1] + 1e-5)[..., None] * w + b


def layer_norm_by(summed: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    def kernel(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        mean = (summed(x) / x.shape[-1])[..., None]
        centred = x - mean
        variance = (summed(centred * centred) / x.shape[-1])[..., None]
        return centred * torch.rsqrt(variance + 1e-5) * w + b

    return kernel


def one_pass_layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """Mean of squares minus squared mean: less accurate, but honest float32 at these offsets."""
    mean = (warp_sum(x) / x.shape[-1])[..., None]
    squares = (warp_sum(x * x) / x.shape[-1])[..., None]
    return (x - mean) * torch.rsqrt(squares - mean * mean + 1e-5) * w + b


def log_softmax_by(summed: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    def kernel(x: Tensor) -> Tensor:
        low = x - x.amax(-1, keepdim=True)
        return low - torch.log(summed(fast_exp(low)))[..., None]

    return kernel


def cross_entropy_by(summed: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    def kernel(x: Tensor, t: Tensor) -> Tensor:
        chosen = log_softmax_by(summed)(x).gather(1, t[:, None])[:, 0]
        return -summed(chosen) * (1.0 / x.shape[0])

    return kernel


def outer_product_matmul(x: Tensor, w: Tensor) -> Tensor:
    """Sequential over K, as one thread with one accumulator does it."""
    total = torch.zeros(x.shape[0], w.shape[1])
    for k in range(x.shape[1]):
        total = total + x[:, k : k + 1] * w[k]
    return total


def bias_first(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """The same with an accumulator that begins as the bias."""
    total = b.expand(x.shape[0], w.shape[1]).clone()
    for k in range(x.shape[1]):
        total = total + x[:, k : k + 1] * w[k]
    return total


def split_k_matmul(x: Tensor, w: Tensor) -> Tensor:
    parts = [a @ b for a, b in zip(x.chunk(8, 1), w.chunk(8, 0), strict=True)]
    return sequential_sum(torch.stack(parts, -1))


def tanh_like_gelu(x: Tensor) -> Tensor:
    """erf through its complement, in float32 throughout."""
    return x * 0.5 * torch.special.erfc(-x * 0.70710678)


HONEST: list[tuple[str, str, Callable[..., Tensor]]] = [
    ("softmax", "online with fast exp", online_softmax),
    ("layer_norm", "welford", welford_layer_norm),
    ("layer_norm", "one pass", one_pass_layer_norm),
    *[("layer_norm", name, layer_norm_by(one)) for name, one in SUMS.items()],
    *[("log_softmax", name, log_softmax_by(one)) for name, one in SUMS.items()],
    *[("cross_entropy", name, cross_entropy_by(one)) for name, one in SUMS.items()],
    *[("row_sum", name, one) for name, one in SUMS.items()],
    ("matmul", "outer product", outer_product_matmul),
    ("matmul", "split k", split_k_matmul),
    ("linear", "bias first", bias_first),
    ("gelu", "erfc", tanh_like_gelu),
]


@pytest.mark.many(6)
@pytest.mark.parametrize(("name", "variant", "kernel"), HONEST, ids=[f"{n}-{v}" for n, v, _ in HONEST])
def test_honest_variants_pass(name: str, variant: str, kernel: Callable[..., Tensor]) -> None:
    op = ops.OPS[name]()
    for kind in KINDS:
        if kind == "special values":
            continue
        for seed in SEEDS:
            ratio, bound = op.judge(kernel, kind, seed)
            assert ratio <= 1, f"{kind}, seed {seed}: {ratio:.3g} over the bound ({bound.basis})"


@pytest.mark.parametrize("name", ops.OPS)
def test_the_reference_itself_passes_everywhere(name: str) -> None:
    op = ops.OPS[name]()
    for kind in KINDS:
        ratio, bound = op.judge(op.call, kind)
        assert ratio <= 1
        assert bound.basis == "running error of the graph"


@pytest.mark.parametrize("name", ops.OPS)
@pytest.mark.parametrize("cast", ["f16", "bf16", "tf32"])
def test_lower_precision_fails(name: str, cast: str) -> None:
    op = ops.OPS[name]()

    def lowered(**tensors: Tensor) -> Tensor:
        return op.call(**{k: _lower(t, cast) for k, t in tensors.items()})

    worst = max(op.judge(lowered, kind)[0] for kind in MATRIX)
    assert worst > 5, f"{cast} inputs reach only {worst:.3g} of the bound"


def _lower(tensor: Tensor, cast: str) -> Tensor:
    if not tensor.is_floating_point():
        return tensor
    if cast == "tf32":
        bits = tensor.contiguous().view(torch.int32)
        return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)
    return tensor.to(torch.float16 if cast == "f16" else torch.bfloat16).float()


def test_half_precision_accumulator_fails_a_16_bit_contract() -> None:
    op = ops.make(
        lambda x: x.sum(-1),
        {"x": (8, 2048)},
        (
            ops.node("wide", "prims.convert_element_type.default", ops.ref("x"), "f32"),
            ops.node("s", "aten.sum.dim_IntList", ops.ref("wide"), (-1,)),
            ops.node("y", "prims.convert_element_type.default", ops.ref("s"), "f16", dtype="f16"),
        ),
        dtype="f16",
        contract="16-bit io, fp32 accumulate",
    )

    def half_accumulator(x: Tensor) -> Tensor:
        total = torch.zeros(x.shape[:-1], dtype=torch.float16)
        for column in x.unbind(-1):
            total = total + column
        return total

    assert op.judge(lambda x: sequential_sum(x.float()).half())[0] <= 1
    assert op.judge(half_accumulator, "offset")[0] > 3


@pytest.mark.parametrize("name", ops.OPS)
def test_zeros_and_noise_of_the_right_size_fail(name: str) -> None:
    op = ops.OPS[name]()
    for kind in KINDS:
        tensors = draw(op.problem, op.problem.cases[0], kind, 0)
        bound = op.bound(tensors)
        right = op.call(**tensors)
        if kind == "far negative" and name == "gelu":
            assert not bound.expected.any()  # what is far below zero becomes nothing, and zeros are right
            continue
        assert bound.decisive
        assert compare(torch.zeros_like(right), bound).max_ratio > 1000
        finite = bound.expected[torch.isfinite(bound.expected)]
        if finite.numel():
            noisy = right + 1e-3 * finite.abs().max().float()
            assert compare(noisy, bound).max_ratio > 80


def test_zero_one_inputs_make_linear_operations_exact() -> None:
    op = ops.matmul()
    right = op.call(**draw(op.problem, op.problem.cases[0], "zero-one", 0))
    ratio, _ = op.judge(lambda x, w: right + 2.0**-9, "zero-one")
    assert ratio > 10


def test_tf32_contract_allows_tf32_and_not_bfloat16() -> None:
    op = ops.matmul(contract="tf32")
    assert op.judge(lambda x, w: _lower(x, "tf32") @ _lower(w, "tf32"))[0] <= 1
    assert op.judge(lambda x, w: _lower(x, "bf16") @ _lower(w, "bf16"))[0] > 1


def test_graph_that_is_not_the_reference_falls_back_to_the_reference() -> None:
    op = ops.row_sum()
    doubled = ops.make(lambda x: 2 * x.sum(-1), {"x": (8, 1000)}, op.problem.graph.nodes)
    ratio, bound = doubled.judge(doubled.call)
    assert ratio <= 1
    assert "differ" in bound.basis
    assert doubled.judge(lambda x: 2 * sequential_sum(x))[0] <= 4  # the fallback knows no summation orders
    assert doubled.judge(lambda x: torch.zeros(8))[0] > 100


def test_operation_without_a_rule_is_probed_and_named() -> None:
    op = ops.make(
        lambda x: torch.cdist(x, x + 1),
        {"x": (12, 7)},
        (
            ops.node("moved", "aten.add.Tensor", ops.ref("x"), 1),
            ops.node("y", "aten._cdist_forward.default", ops.ref("x"), ops.ref("moved"), 2.0, None),
        ),
    )
    ratio, bound = op.judge(op.call)
    assert ratio <= 1
    assert "aten._cdist_forward.default" in bound.basis
    assert op.judge(lambda x: op.call(x.half().float()))[0] > 5


def test_overflow_in_the_references_own_precision_asks_nothing() -> None:
    op = ops.make(
        lambda x: torch.exp(x) / torch.exp(x).sum(),
        {"x": (16,)},
        (
            ops.node("e", "aten.exp.default", ops.ref("x")),
            ops.node("s", "aten.sum.default", ops.ref("e")),
            ops.node("y", "aten.div.Tensor", ops.ref("e"), ops.ref("s")),
        ),
    )
    tensors = {"x": torch.full((16,), 100.0)}
    bound = op.bound(tensors)
    assert compare(op.call(**tensors), bound).max_ratio <= 1
    assert not bound.decisive


def test_a_mean_beside_an_infinity_may_be_infinite_or_not_a_number() -> None:
    """By Welford's updates it is either, as the infinity's place has it; a sum over a count is infinite."""
    op = ops.make(
        lambda x: torch.var_mean(x, 1)[1],
        {"x": (5, 4)},
        (
            ops.node("s", "aten.sum.dim_IntList", ops.ref("x"), [1]),
            ops.node("y", "aten.div.Tensor", ops.ref("s"), 4),
        ),
    )
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    x[1, 0], x[2, 3], x[3, 1], x[4, 0], x[4, 1] = torch.inf, -torch.inf, torch.nan, torch.inf, -torch.inf
    tensors = {"x": x}
    bound = op.bound(tensors)
    assert bound.basis.startswith("running error")
    right = x.mean(1)
    for answer in (right, op.call(x)):
        assert compare(answer, bound).max_ratio <= 1
    for row, answer in ((0, torch.nan), (0, 1.1 * right[0]), (3, torch.inf), (3, 0.0), (4, torch.inf)):
        wrong = right.clone()
        wrong[row] = answer
        assert compare(wrong, bound).max_ratio > 1


def test_where_only_rounding_tells_zero_from_not_an_infinite_weight_may_give_anything() -> None:
    op = ops.layer_norm(rows=4, columns=8)
    tensors = draw(op.problem, op.problem.cases[0], "normal", 0)
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    x[2] = torch.tensor(
        [0.0, 0.7, -0.7, 0.3, -0.3, 2.1, -2.1, 0.0]
    )  # its mean is zero, and x[2, 0] is its mean
    tensors |= {"x": x, "w": torch.ones(8), "b": torch.zeros(8)}
    tensors["w"][0] = -torch.inf
    bound = op.bound(tensors)
    right = bound.expected.float()
    for answer in (torch.nan, torch.inf, -torch.inf):
        right[2, 0] = answer
        assert compare(right, bound).max_ratio <= 1
    for row, answer in ((1, torch.nan), (1, -right[1, 0])):  # here the sign is certain
        wrong = right.clone()
        wrong[row, 0] = answer
        assert compare(wrong, bound).max_ratio > 1
    wrong = right.clone()
    wrong[2, 1] = torch.nan
    assert compare(wrong, bound).max_ratio > 1


def test_indices_may_point_to_any_equal_value() -> None:
    op = ops.argmax()
    tensors = draw(op.problem, op.problem.cases[0], "special values", 0)
    tensors["x"] = tensors["x"].nan_to_num(0.0, 0.0, 0.0)
    bound = op.bound(tensors)
    last = tensors["x"].shape[-1] - 1 - tensors["x"].flip(-1).argmax(-1)
    assert not torch.equal(last, tensors["x"].argmax(-1)), "the draw has ties"
    assert compare(last, bound).max_ratio <= 1
    assert compare((last + 1) % tensors["x"].shape[-1], bound).max_ratio > 1
    assert compare(last + 1000, bound).max_ratio > 1


def test_bounds_keep_the_outputs_in_order() -> None:
    op = ops.row_sum()
    graph = op.problem.graph.model_copy(update={"outputs": (Ref(ref="y"), Ref(ref="x"))})
    problem = op.problem.model_copy(update={"graph": graph, "outputs": op.problem.outputs * 2})
    tensors = draw(problem, problem.cases[0], "normal", 0)
    x = tensors["x"]
    oracle = Oracle((x.double().sum(-1), x.double()))
    first, second = bounds(problem, {}, tensors, oracle, lambda: (x.sum(-1), x))
    assert first.expected.shape == (8,)
    assert compare(x, second).max_ratio == 0


def test_zero_and_nan_are_both_right_where_an_infinite_weight_met_the_mean_beforehand() -> None:
    """(x - mean) * weight is an infinity, of which ReLU may make 0; x * weight - mean * weight is NaN."""
    op = ops.make(
        lambda x, mean, weight: torch.relu(x * weight - mean * weight),
        {"x": (3, 4), "mean": (4,), "weight": (4,)},
        (
            ops.node("centred", "aten.sub.Tensor", ops.ref("x"), ops.ref("mean")),
            ops.node("scaled", "aten.mul.Tensor", ops.ref("centred"), ops.ref("weight")),
            ops.node("y", "aten.relu.default", ops.ref("scaled")),
        ),
    )
    generator = torch.Generator().manual_seed(0)
    x, mean = torch.rand(3, 4, generator=generator) + 1, torch.rand(4, generator=generator)
    weight = torch.tensor([1.0, -torch.inf, torch.inf, torch.nan])
    bound = op.bound({"x": x, "mean": mean, "weight": weight})
    assert bound.basis.startswith("running error")
    right = torch.relu((x - mean) * weight)
    assert right[:, 1].eq(0).all() and right[:, 3].isnan().all()
    for answer in (right, op.call(x, mean, weight)):
        assert compare(answer, bound).max_ratio <= 1
    for column, answer in ((0, torch.nan), (0, 0.0), (3, 0.0), (3, torch.inf)):
        wrong = right.clone()
        wrong[:, column] = answer
        assert compare(wrong, bound).max_ratio > 1


def test_a_nan_that_only_the_graph_loses_is_still_asked_for() -> None:
    """Without an infinity nothing is honest about it: the reference's own result is what is right."""
    op = ops.make(
        lambda x: torch.relu(x) + 1,
        {"x": (3, 4)},
        (
            ops.node("kept", "aten.gt.Scalar", ops.ref("x"), 0),
            ops.node("chosen", "aten.where.ScalarOther", ops.ref("kept"), ops.ref("x"), 0),
            ops.node("y", "aten.add.Tensor", ops.ref("chosen"), 1),
        ),
    )
    x = torch.rand(3, 4, generator=torch.Generator().manual_seed(0))
    x[1, 2] = torch.nan
    bound = op.bound({"x": x})
    right = op.call(x)
    assert compare(right, bound).max_ratio <= 1
    assert compare(right.nan_to_num(1.0), bound).max_ratio > 1


def test_a_whole_number_may_be_the_reference_s_own_where_its_precision_makes_another() -> None:
    """A class of what overflows in float32 and not in float64: no kernel in float32 finds the oracle's."""
    expected, native = torch.tensor([0, 0, 2]), torch.tensor([0, 4, 2])
    bound = OutputBound(dtype="i64", expected=expected, allowed=torch.zeros(3), tie=None, basis="")
    admitting = _admitting(bound, native, lambda: torch.zeros(3))
    assert "1 elements as the reference has them" in admitting.basis
    assert compare(native, admitting).max_ratio <= 1
    assert compare(expected, admitting).max_ratio <= 1
    for wrong in (torch.tensor([1, 4, 2]), torch.tensor([0, 5, 2]), torch.tensor([0, 4, 1])):
        assert compare(wrong, admitting).max_ratio > 1
    assert _admitting(bound, expected, lambda: torch.zeros(3)) is bound
