"""The exported graph: core operations, sizes that vary, the person's lines, and clear refusals."""

import linecache
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from workbench.errors import ProblemError
from workbench.model import Graph, Ref, Sym, size_of
from workbench.numerics.running import Running
from workbench.problem.decompositions import table
from workbench.problem.trace import trace

Tensors = dict[str, Tensor]


def ops(graph: Graph) -> list[str]:
    return [node.base_name for node in graph.nodes]


def persons(source: str, file: str = "<cell>") -> Callable[..., Tensor]:
    """Compile a cell as the intake does: line numbers are the person's own."""
    names = {"torch": torch, "F": F}
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), names)
    return names["f"]  # type: ignore[return-value]


def test_softmax_is_pointwise_and_reductions() -> None:
    traced = trace(lambda t: torch.softmax(t["x"], 1), {"x": torch.randn(4, 7)}, varying=True)
    assert ops(traced.graph) == ["amax", "sub", "exp", "sum", "div"]
    assert traced.symbols == ("s0", "s1")
    assert traced.dims == (("x", ("s0", "s1")),)
    assert dict(traced.sizes) == {"s0": 4, "s1": 7}
    assert traced.outputs[0].dims == ("s0", "s1")
    assert traced.graph.nodes[0].args[0] == Ref(ref="x")
    assert not traced.notes


@pytest.mark.parametrize("device", ["meta", "fake"])
def test_declared_sizes_need_no_memory(device: str) -> None:
    if device == "meta":
        x = torch.empty(2**20, 2**20, device="meta")
    else:
        with torch._subclasses.FakeTensorMode():
            x = torch.empty(2**20, 2**20)
    traced = trace(lambda t: t["x"].exp(), {"x": x}, varying=True)
    assert dict(traced.sizes) == {"s0": 2**20, "s1": 2**20}


def test_parameters_keep_their_sizes() -> None:
    def call(t: Tensors) -> Tensor:
        return F.layer_norm(F.linear(t["x"], t["w"], t["b"]), (8,))

    tensors = {"x": torch.randn(5, 6), "w": torch.randn(8, 6), "b": torch.randn(8)}
    traced = trace(call, tensors, varying=True, fixed=("w", "b"))
    assert dict(traced.dims) == {"x": ("s0", 6), "w": (8, 6), "b": (8,)}
    assert "mm" in ops(traced.graph) and "var" not in ops(traced.graph)


def test_static_sizes() -> None:
    traced = trace(lambda t: t["x"].sum(0), {"x": torch.randn(4, 7)}, varying=False)
    assert traced.symbols == () and traced.outputs[0].dims == (7,)


def test_derived_sizes_are_expressions() -> None:
    traced = trace(lambda t: t["x"].view(-1, 3).mean(1), {"x": torch.randn(4, 6)}, varying=True)
    (dim,) = traced.outputs[0].dims
    assert size_of(dim, {"s0": 10, "s1": 9}) == 30
    count = next(node for node in traced.graph.nodes if node.op.startswith("aten.div")).args[1]
    assert count == 3 or isinstance(count, Sym)


def test_equal_operations_are_merged_and_idle_ones_dropped() -> None:
    def call(t: Tensors) -> Tensor:
        return t["x"].exp().detach().clone() * t["x"].exp().view(4, 7) * 1

    traced = trace(call, {"x": torch.randn(4, 7)}, varying=False)
    assert ops(traced.graph) == ["exp", "mul"]


def test_only_casts_of_the_person_round() -> None:
    half = {"x": torch.randn(4, 7).half()}
    inside = trace(lambda t: torch.softmax(t["x"], 1), half, varying=True)
    assert {o for o in ops(inside.graph) if "to" in o} == set()
    assert ops(inside.graph)[0] == "convert_element_type"
    wrote = trace(lambda t: t["x"].float().exp(), half, varying=True)
    assert ops(wrote.graph)[0] == "_to_copy"
    assert wrote.graph.nodes[0].kwargs == (("dtype", "f32"),)


def test_small_constants_become_operations() -> None:
    traced = trace(lambda t: t["x"] + torch.tensor([1.0, 2.0]), {"x": torch.randn(3, 2)}, varying=True)
    assert ops(traced.graph) == ["full", "full", "stack", "add"]


def test_a_table_has_up_to_as_many_numbers_as_a_byte() -> None:
    """All vectors of a search, a codebook: numbers that are equal are one operation."""
    table = [(y, x) for y in range(-4, 5) for x in range(-4, 5)]
    best = {"best": torch.randint(0, 81, (7,))}
    traced = trace(lambda t: torch.tensor(table)[t["best"]], best, varying=True)
    assert ops(traced.graph) == [*["full"] * 9, "stack", "view", "index"]
    byte = {"best": torch.randint(0, 256, (7,))}
    assert trace(lambda t: torch.tensor([k**3 for k in range(256)])[t["best"]], byte, varying=True).graph
    with pytest.raises(ProblemError, match=r"\(257 float32\); a kernel has up to 256 such numbers"):
        trace(lambda t: torch.tensor([k / 2 for k in range(257)])[t["best"]], byte, varying=True)


def test_lines_are_the_persons() -> None:
    f = persons("def f(x):\n    y = x.exp()\n\n    return y / y.sum(1, keepdim=True)\n")
    traced = trace(lambda t: f(t["x"]), {"x": torch.randn(4, 7)}, varying=True)
    assert [node.line for node in traced.graph.nodes] == [2, 4, 4]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def f(x):\n    if x.sum() > 0:\n        return x\n    return -x", "line 2: .*torch.where"),
        ("def f(x):\n    y = x\n    return y[y > 0]", "line 3: .*depends on values"),
        ("def f(x):\n    return x * int(x.max())", "line 2: .*values"),
        ("def f(x):\n    return x * torch.allclose(x, x + 1)", "line 2: .*values of a tensor"),
        ("def f(x):\n    return x.add_(1)", "writes to one of its inputs"),
        ("def f(x):\n    return torch.linalg.eigvals(x[:, :4])", "line 2: .*complex numbers"),
        ("def f(x):\n    return x @ torch.ones(3)", "line 2: .*exported"),
        ("W = torch.ones(7, 99)\ndef f(x):\n    return x @ W", "7x99 float32.*Pass it as an input"),
    ],
)
def test_refusals_name_the_line_and_the_way_out(source: str, words: str) -> None:
    f = persons(source)
    with pytest.raises(ProblemError, match=words) as raised:
        trace(lambda t: f(t["x"]), {"x": torch.randn(4, 7)}, varying=True)
    assert len(str(raised.value).splitlines()) <= 2


def test_an_operation_of_ones_own_is_refused() -> None:
    @torch.library.custom_op("own::doubled", mutates_args=())
    def doubled(x: Tensor) -> Tensor:
        return x * 2

    @doubled.register_fake
    def _(x: Tensor) -> Tensor:
        return torch.empty_like(x)

    with pytest.raises(ProblemError, match=r"own\.doubled\.default is not one of PyTorch's ATen operations"):
        trace(lambda t: doubled(t["x"]), {"x": torch.randn(4, 7)}, varying=True)


def test_what_only_checks_values_is_left_out() -> None:
    traced = trace(lambda t: torch.linalg.inv(t["x"]), {"x": torch.randn(3, 4, 4)}, varying=True)
    assert [node.op for node in traced.graph.nodes] == ["aten.linalg_inv_ex.default"]
    assert [output.dims[1:] for output in traced.outputs] == [("s1", "s1")]


def test_size_as_a_float_fixes_only_that_axis() -> None:
    traced = trace(lambda t: t["x"] * t["x"].shape[0] ** -0.5, {"x": torch.randn(4, 7)}, varying=True)
    assert traced.dims == (("x", (4, "s0")),)
    assert "axis 0 of x" in traced.notes[0]


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t["x"] * (0.1 / t["x"].shape[1]) + t["x"].shape[0] / t["x"].shape[1],
        lambda t: F.cross_entropy(t["x"], t["x"].argmax(1), label_smoothing=0.1),
        lambda t: t["x"].std(1) + t["x"].var(0, correction=2.0).sum(),
    ],
)
def test_numbers_made_of_sizes_leave_the_sizes_free(call: Callable[[Tensors], Tensor]) -> None:
    x = torch.randn(4, 7)
    traced = trace(lambda t: call(t), {"x": x}, varying=True)
    assert traced.dims == (("x", ("s0", "s1")),) and not traced.notes
    other = torch.randn(9, 5)
    (got,) = Running(sizes={"s0": 9, "s1": 5}).outputs(traced.graph, {"x": other})
    assert torch.allclose(got.value, call({"x": other.double()}), rtol=1e-12)


@pytest.mark.many(6)
@pytest.mark.parametrize(
    "call",
    [
        lambda t: F.cross_entropy(t["x"], t["x"].argmax(1)),
        lambda t: F.mse_loss(t["x"], t["x"].roll(1)),
        lambda t: F.gelu(t["x"]) + F.silu(t["x"]) + F.softplus(t["x"]),
        lambda t: t["x"].std(1) + t["x"].logsumexp(1) + t["x"].norm(dim=1),
        lambda t: torch.add(*torch.std_mean(t["x"], 1, keepdim=True)),
        lambda t: F.smooth_l1_loss(t["x"], t["x"] * 2),
        lambda t: F.kl_div(t["x"].log_softmax(1), t["x"].softmax(1), reduction="batchmean"),
        lambda t: F.instance_norm(t["x"][None, None]) + F.group_norm(t["x"], 7),
    ],
)
def test_losses_and_norms_break_down(call: Callable[[Tensors], Tensor]) -> None:
    traced = trace(call, {"x": torch.randn(4, 7)}, varying=True)
    whole = {"native", "var", "std", "mean", "loss", "softmax", "norm", "gelu", "logsumexp"}
    assert not [op for op in ops(traced.graph) if any(word in op for word in whole)]


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_distances_are_sums_along_a_row(p: float) -> None:
    """Costs of 4800 boxes and 256 others take 1.6 ms of an H100 with the library's kernel."""
    x, y = torch.randn(3, 1, 5, 4), torch.randn(2, 7, 4)
    x[0, 0, 0, 0], y[1, 3, 2] = torch.inf, torch.nan
    far = lambda t: torch.cdist(t["x"], t["y"], p, "donot_use_mm_for_euclid_dist")  # noqa: E731
    traced = trace(far, {"x": x, "y": y}, varying=False)
    assert not [op for op in ops(traced.graph) if "cdist" in op]
    (got,) = Running(sizes={}).outputs(traced.graph, {"x": x, "y": y})
    wanted = torch.cdist(x.double(), y.double(), p, "donot_use_mm_for_euclid_dist")
    assert torch.allclose(got.value, wanted, rtol=1e-12, equal_nan=True)


@pytest.mark.parametrize("p", [0.0, float("inf")])
def test_counts_and_largest_differences_stay_whole(p: float) -> None:
    tensors = {"x": torch.randn(5, 4), "y": torch.randn(7, 4)}
    traced = trace(lambda t: torch.cdist(t["x"], t["y"], p), tensors, varying=False)
    assert [node.op for node in traced.graph.nodes] == ["aten._cdist_forward.default"]


@pytest.mark.parametrize("call", [torch.std, lambda x: torch.std_mean(x)[0]])
def test_a_deviation_of_16_bit_values_is_rounded_once(call: Callable[[Tensor], Tensor]) -> None:
    x = 1000 * torch.randn(64, generator=torch.Generator().manual_seed(1)).half()
    traced = trace(lambda t: call(t["x"]), {"x": x}, varying=False)
    types = {node.outs[0].dtype for node in traced.graph.nodes[1:-1]}
    assert types == {"f32"} and call(x).isfinite() and not x.float().var().half().isfinite()


def test_a_copy_in_another_layout_is_no_operation() -> None:
    call = lambda t: torch.lerp(t["z"] - t["x"].mT, t["y"], 0.3)  # noqa: E731
    tensors = {"x": torch.randn(1, 64), "y": torch.randn(1), "z": torch.randn(1, 1)}
    traced = trace(call, {name: tensor.half() for name, tensor in tensors.items()}, varying=False)
    assert "copy_strided" not in ops(traced.graph)


def test_a_slope_that_is_drawn_in_training_only_is_no_random_number() -> None:
    traced = trace(lambda t: F.rrelu(t["x"]), {"x": torch.randn(4, 7)}, varying=True)
    assert set(ops(traced.graph)) == {"gt", "mul", "where"}


@pytest.mark.parametrize("align", [False, True])
def test_smooth_resizing_weighs_neighbours_so_that_an_infinity_stays_one(align: bool) -> None:
    x = torch.randn(2, 3, 4, 5)
    x[0, 0, 1, 2] = -torch.inf
    resize = table()[torch.ops.aten.upsample_bilinear2d.vec]
    for size, scales in ((None, (2.0, 1.5)), ((7, 3), None)):
        wanted = F.interpolate(x, size, scales, mode="bilinear", align_corners=align)
        torch.testing.assert_close(resize(x, size, align, scales), wanted, equal_nan=True)


def test_steps_through_a_storage_fix_its_sizes() -> None:
    traced = trace(
        lambda t: t["x"].as_strided((2, 10, 5), (14, 1, 1)) + 1, {"x": torch.randn(2, 14)}, varying=True
    )
    assert traced.dims == (("x", (2, 14)),) and "stepped through" in traced.notes[0]


def test_the_length_of_a_tensor_varies_as_its_first_size_does() -> None:
    def padded(tensors: dict[str, Tensor]) -> Tensor:
        x = tensors["x"]
        rows = torch.arange(len(x)).view(-1, 1) * len([1, 2])
        return torch.cat([torch.zeros(len(x), 1), rows * x], 1).view(len(x), -1)

    traced = trace(padded, {"x": torch.randn(7, 12)}, True)
    assert traced.symbols == ("s0", "s1") and traced.outputs[0].dims == ("s0", "s1 + 1")
    assert len(torch.ones(3)) == 3


def test_a_size_over_that_of_another_tensor_is_fixed() -> None:
    """Tokens by rows of an image: the reference knows that these divide those, and no expression does."""

    def rows(t: dict[str, Tensor]) -> Tensor:
        return t["tokens"].view(t["tokens"].shape[0], t["image"].shape[0] // 2, -1) * t["image"].sum()

    traced = trace(rows, {"tokens": torch.randn(3, 40), "image": torch.randn(8, 5)}, varying=True)
    assert dict(traced.dims) == {"tokens": ("s0", 40), "image": (8, "s1")}
    assert "is one tensor's size over another's" in traced.notes[0]
