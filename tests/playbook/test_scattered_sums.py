"""Values that are added, or put, where data says: two kernels and no library call; the second has atomics."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, plan_of
from workbench.compile.service import compile_kernel
from workbench.errors import WorkbenchError
from workbench.model import H100, CompileReport, Vector
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.ir.program import Kernel, Scatter
from workbench.playbook.rules.moves import moves, seed_vectors
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import program_of

Tensors = dict[str, Tensor]


def indices(high: int, *shape: int) -> Tensor:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(3))


def neighbours(t: Tensors) -> Tensor:
    return torch.zeros_like(t["x"]).index_add(0, t["to"], t["x"][t["of"]])


def weighted(t: Tensors) -> Tensor:
    """What follows is a kernel behind it; the mean of nothing is zero."""
    count = t["x"].new_zeros(t["x"].shape[0]).index_add(0, t["to"], torch.ones_like(t["w"]))
    added = torch.zeros_like(t["x"]).index_add(0, t["to"], t["x"][t["of"]] * t["w"][:, None])
    return (added / count.clamp(min=1)[:, None]).relu()


def gradient(t: Tensors) -> Tensor:
    return torch.ops.aten.embedding_dense_backward(t["g"], t["i"], 10, 2, False)


def of_rows(t: Tensors) -> Tensor:
    """Indices and values that rows come to."""
    places = t["x"].new_zeros(t["x"].shape[1])
    return places.scatter_add(0, t["x"].argmax(1), t["x"].softmax(1).amax(1))


def one_after_the_other(t: Tensors) -> tuple[Tensor, Tensor]:
    once = t["x"].exp().index_add(0, t["to"], t["v"])
    twice = t["x"].index_add(0, t["to"], t["v"]).index_add(0, t["of"], t["v"])
    return once.index_add(0, t["of"], t["v"], alpha=2) + twice, once.softmax(1)


def added(dtype: torch.dtype) -> Callable[[], Tensors]:
    """Whole numbers wrap as torch's do."""

    def make() -> Tensors:
        x, v = torch.randn(6, 8) * 50, torch.randn(40, 8) * 50
        return {"x": x.to(dtype), "v": v.to(dtype), "i": indices(6, 40)}

    return make


def ends(t: Tensors) -> Tensor:
    return t["x"].scatter_reduce(0, t["i"], t["v"], "amax") - t["x"].scatter_reduce(0, t["i"], t["v"], "amin")


def penalty(t: Tensors) -> Tensor:
    """A place that is named twice gets the same value twice."""
    score = t["x"].gather(1, t["i"])
    return t["x"].scatter(1, t["i"], torch.where(score < 0, score * 1.2, score / 1.2))


def put_twice(t: Tensors) -> Tensor:
    """The second finds what the first has put, and nobody else sees that."""
    return t["x"].scatter(0, t["to"], 2).scatter(0, t["of"], 3) * 2


def odd_numbers(*shape: int) -> Tensor:
    """Zeros and NaN of both signs, and infinities, among others."""
    found = torch.randn(shape)
    for every, value in ((5, -0.0), (7, 0.0), (31, torch.nan), (37, -torch.nan), (41, -torch.inf)):
        found.view(-1)[::every] = value
    return found


_EDGES: dict[str, Tensor] = {"of": indices(50, 300), "to": indices(50, 300).flip(0)}
CASES: dict[str, tuple[Call, Callable[[], Tensors]]] = {
    "neighbours": (neighbours, lambda: {"x": torch.randn(50, 16), **_EDGES}),
    "no whole vectors": (neighbours, lambda: {"x": torch.randn(50, 9), **_EDGES}),
    "one place for all": (neighbours, lambda: {"x": torch.rand(50, 16), **_EDGES, "to": 0 * _EDGES["to"]}),
    "weighted": (weighted, lambda: {"x": torch.randn(50, 16), "w": torch.rand(300), **_EDGES}),
    "columns": (
        lambda t: t["x"].index_add(1, t["i"], t["v"]),
        lambda: {"x": torch.randn(3, 6, 8), "v": torch.randn(3, 40, 8), "i": indices(6, 40)},
    ),
    "from the end": (
        lambda t: t["x"].index_put((t["i"], t["j"]), t["v"], accumulate=True),
        lambda: {
            "x": torch.randn(5, 6, 8),
            "v": torch.randn(12, 9, 8),
            "i": indices(5, 12, 1) - 5,
            "j": indices(6, 1, 9) - 3,
        },
    ),
    "along all elements": (
        lambda t: t["x"].put(t["i"], t["v"], accumulate=True),
        lambda: {"x": torch.randn(5, 6), "v": torch.randn(9, 20), "i": indices(30, 9, 20) - 15},
    ),
    "an index each": (
        lambda t: t["x"].scatter_add(1, t["i"], t["v"]),
        lambda: {"x": torch.randn(30, 40), "v": torch.randn(30, 30), "i": indices(40, 25, 12)},
    ),
    "counts": (
        lambda t: torch.zeros(10, dtype=torch.int64).scatter_add(0, t["i"], torch.ones_like(t["i"])),
        lambda: {"i": indices(10, 500)},
    ),
    "gradient of an embedding": (gradient, lambda: {"g": torch.randn(4, 20, 8), "i": indices(10, 4, 20)}),
    "few places": (
        lambda t: t["x"].index_add(0, t["i"], t["v"].exp()),
        lambda: {"x": torch.randn(7), "v": torch.rand(3001), "i": indices(7, 3001)},
    ),
    "few rows": (
        lambda t: t["x"].index_add(0, t["i"], t["v"]),
        lambda: {"x": torch.rand(7, 8).half(), "v": torch.rand(3001, 8).half(), "i": indices(7, 3001)},
    ),
    "of rows": (of_rows, lambda: {"x": torch.randn(50, 9)}),
    "one after the other": (
        one_after_the_other,
        lambda: {"x": torch.randn(50, 8), "v": torch.randn(300, 8), **_EDGES},
    ),
    "ends": (ends, lambda: {"x": torch.randn(60, 8), "v": torch.randn(200, 8), "i": indices(60, 200, 8)}),
    "put": (penalty, lambda: {"x": torch.randn(9, 30), "i": indices(30, 9, 12)}),
    "put twice": (put_twice, lambda: {"x": torch.randn(50), "of": indices(50, 30), "to": indices(50, 30)}),
    "nothing put": (
        lambda t: t["x"].scatter(1, t["i"], 2.0),
        lambda: {"x": torch.randn(9, 30), "i": indices(30, 0, 12)},
    ),
    **{
        f"put {dtype}".replace("torch.", ""): (
            lambda t: t["x"].scatter(1, t["i"], t["v"].expand(-1, 20) - 3),
            lambda dtype=dtype: {
                "x": (torch.randn(9, 30) * 50).to(dtype),
                "v": (torch.randn(9, 1) * 50).to(dtype),
                "i": indices(30, 7, 18),
            },
        )
        for dtype in (torch.float32, torch.float64, torch.int64, torch.int32)
    },
    "nothing at all": (
        lambda t: t["x"].index_add(0, t["i"], t["v"]),
        lambda: {"x": torch.randn(6, 8), "v": torch.randn(0, 8), "i": indices(6, 0)},
    ),
    **{
        f"sums of {dtype}".replace("torch.", ""): (
            lambda t: t["x"].index_add(0, t["i"], t["v"]) * 2,
            added(dtype),
        )
        for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.uint8)
    },
}
PLAIN: Vector = ()
VECTORS: Vector = (("block_size", "128"), ("vector_width", "4"))
BY_BLOCK: Vector = (*VECTORS, ("scatter_by", "block"))
NARROW: Vector = (*VECTORS, ("index_width", "32"), ("loads_in_flight", "2"))


@pytest.mark.many(19)
@pytest.mark.parametrize(("name", "vector"), crossed(CASES, [PLAIN, VECTORS, NARROW]))
def test_no_library_is_called(name: str, vector: Vector) -> None:
    call, tensors = CASES[name]
    torch.manual_seed(0)
    given = tensors()
    source = generate(problem_of(call, given, "op", "nothing" not in name), vector).kernel.source
    assert "library(" not in source
    check(call, source, given, "checked")


def test_sums_that_nobody_else_sees_are_added_to() -> None:
    call, tensors = CASES["one after the other"]
    steps = program_of(problem_of(call, tensors()), fuse=True).steps
    added = [step.buffer for step in steps if isinstance(step, Scatter)]
    assert len(added) == 4 and len(set(added)) == 3
    call, tensors = CASES["put twice"]
    put = [
        step for step in program_of(problem_of(call, tensors()), fuse=True).steps if isinstance(step, Scatter)
    ]
    assert [step.op for step in put] == ["put", "put"] and put[0].buffer == put[1].buffer


@pytest.mark.many(3)
@pytest.mark.parametrize(
    ("reduce", "dtype"), [("amax", torch.float32), ("amin", torch.float64), ("amin", torch.bfloat16)]
)
def test_zeros_have_signs_and_nan_has_the_last_word(reduce: str, dtype: torch.dtype) -> None:
    given = {"x": odd_numbers(60, 8).to(dtype), "v": odd_numbers(200, 8).to(dtype), "i": indices(60, 200, 8)}

    def call(t: Tensors) -> Tensor:
        return t["x"].scatter_reduce(0, t["i"], t["v"], reduce)

    check(call, generate(problem_of(call, given), PLAIN).kernel.source, given, "checked")


@pytest.mark.many(11)
@pytest.mark.parametrize("reduce", ["amax", "amin", "sum", "mean"])
@pytest.mark.parametrize("before", [False, True])
def test_places_that_nothing_comes_to_keep_what_they_have(reduce: str, before: bool) -> None:
    """Neighbours are aggregated so in every library of graphs: one index for all features of an edge."""
    given = {"x": odd_numbers(60, 8), "v": odd_numbers(90, 8), "i": indices(60, 90)}

    def call(t: Tensors) -> Tensor:
        places = t["i"].view(-1, 1).expand_as(t["v"])
        return t["x"].scatter_reduce(0, places, t["v"], reduce, include_self=before)

    assert given["i"].unique().numel() < 60
    problem = problem_of(call, given)
    source = generate(problem, PLAIN).kernel.source
    assert "library(" not in source
    check(call, source, given, "checked")
    if reduce == "mean":  # counted once for the edge, not for each of its features
        assert any(node.outs[0].dims[1:] == (1,) for node in problem.graph.nodes if "scatter_add" in node.op)


@pytest.mark.many(2)
@pytest.mark.parametrize("name", ["few places", "few rows", "counts"])
def test_blocks_add_up_what_few_places_get(name: str) -> None:
    call, tensors = CASES[name]
    torch.manual_seed(0)
    given = tensors()
    source = generate(problem_of(call, given), BY_BLOCK).kernel.source
    assert "__shared__" in source
    check(call, source, given, "checked")
    # Not for as many places as there are values, nor at a size that makes many of them.
    call, tensors = CASES["neighbours"]
    assert "scatter_by" not in dict(settled(problem_of(call, tensors()), BY_BLOCK))
    if name == "few rows":
        few = plan_of(source, given).launches[-2].kernel
        many = plan_of(source, {**given, "x": torch.zeros(700, 8).half()}).launches[-2].kernel
        assert few == f"{many.partition('<')[0]}_by_block<4>"


def test_few_places_are_not_left_to_few_slices_of_l2() -> None:
    call, tensors = CASES["few places"]
    problem = problem_of(call, tensors())
    few = problem_of(call, tensors(), cases=(dict(zip(problem.symbols, (10, 2**22), strict=True)),))
    problem = few.model_copy(update={"cases": few.cases[1:]})
    best = dict(seed_vectors(problem, H100, 3)[-1].vector or ())
    assert best["scatter_by"] == "block" and best["vector_width"] == "4"


def test_a_vector_is_one_request_where_an_index_leads_to_a_row() -> None:
    for name, together in (("neighbours", True), ("an index each", False)):
        call, tensors = CASES[name]
        source = generate(problem_of(call, tensors()), VECTORS).kernel.source
        assert ("add_all(" in source) == together and ("atomicAdd(&" in source) != together


def test_nvrtc_takes_them_without_warnings() -> None:
    for name, vector in (
        ("neighbours", VECTORS),
        ("ends", NARROW),
        ("sums of int64", VECTORS),
        ("few rows", BY_BLOCK),
        ("put float64", VECTORS),
        ("put", NARROW),
    ):
        call, tensors = CASES[name]
        given = tensors()
        source = generate(problem_of(call, given), vector).kernel.source
        report = compile_kernel(source, plan_of(source, given).instances)
        assert isinstance(report, CompileReport) and not report.warnings


def test_the_plan_refuses_what_the_reference_would() -> None:
    """Sizes that the trace took for equal, or for smaller, and that are not."""
    for name, less in (("from the end", 11), ("along all elements", 8)):
        call, tensors = CASES[name]
        source = generate(problem_of(call, tensors()), PLAIN).kernel.source
        given = tensors()
        given["v"] = given["v"][:less]
        with pytest.raises(WorkbenchError, match="sizes that meet must be equal"):
            plan_of(source, given)
    call, tensors = CASES["an index each"]
    source = generate(problem_of(call, tensors()), PLAIN).kernel.source
    for name, less in (("v", 24), ("x", 24)):
        given = tensors()
        given[name] = given[name][:less]
        with pytest.raises(WorkbenchError, match="no more elements than"):
            plan_of(source, given)
    call, tensors = CASES["put float32"]
    source = generate(problem_of(call, tensors()), PLAIN).kernel.source
    for name in ("v", "x"):
        given = tensors()
        given[name] = given[name][:6]
        with pytest.raises(WorkbenchError, match="no more elements than"):
            plan_of(source, given)


def test_few_elements_are_put_into_a_copy_that_goes_in_vectors() -> None:
    call, tensors = CASES["put"]
    problem = problem_of(call, tensors())
    sizes = dict(zip(problem.symbols, (64, 128256, 64, 1024), strict=True))
    copy, put = program_of(problem, fuse=True).steps
    assert isinstance(copy, Kernel) and copy.stores[0].level == "flat"
    assert isinstance(put, Scatter) and put.op == "put"
    off = (*VECTORS, ("scattered_sums", "off"))
    assert "library(" in generate(problem, settled(problem, off)).kernel.source
    # 66 MB for the copy; the library was seen to take 13 us more than its bytes.
    kernels, library = (estimate(problem, vector, H100, sizes).us for vector in (VECTORS, off))
    assert 24 < kernels < 30 and library > kernels + 8


def test_rows_narrow_words_and_different_values_that_are_put_are_left_to_the_library() -> None:
    """Of different values for one place torch on a CPU leaves the last."""
    given = {"x": torch.randn(30, 8), "v": torch.randn(20, 8), "i": indices(30, 20)}
    for call in (
        lambda t: t["x"].scatter(0, t["i"][:, None], t["v"]),
        lambda t: t["x"].scatter(0, t["i"][:, None], torch.arange(20.0)[:, None]),
        lambda t: t["x"].scatter(0, t["i"][:, None], t["x"].gather(0, t["i"].flip(0)[:, None])),
        lambda t: t["x"].half().scatter(0, t["i"][:, None], t["v"].half()),
        lambda t: t["x"].index_reduce(0, t["i"], t["v"], "mean", include_self=False),
    ):
        assert "library(" in generate(problem_of(call, given), PLAIN).kernel.source


@pytest.mark.parametrize(
    "vector", [(("last_written", "off"),), (("fusion", "none"), ("last_written", "off"))]
)
def test_the_library_gets_zeros_of_every_size_that_is_asked_for(vector: Vector) -> None:
    """Zeros were written once, for the first call, and seen as a larger tensor by the second."""
    given = {"x": torch.randn(30, 8), "i": torch.randperm(50)[:30]}

    def call(t: Tensors) -> tuple[Tensor, Tensor]:
        few, many = t["x"].new_zeros(50), t["x"].new_zeros(50, 8)
        return few.index_put((t["i"],), t["x"][:, 0]), many.index_put((t["i"],), t["x"])

    source = generate(problem_of(call, given), vector).kernel.source
    assert source.count("library(") >= 2
    check(call, source, given, "checked")


def test_it_is_in_the_seeds_on_the_card_and_can_be_switched_off() -> None:
    call, tensors = CASES["neighbours"]
    sizes = {"s0": 16384, "s1": 128, "s2": 131072}
    problem = problem_of(call, tensors(), cases=(sizes,))
    best = seed_vectors(problem, H100, 3)[-1]
    assert dict(best.vector or ())["scattered_sums"] == "on" and "data names" in best.title
    off = settled(problem, (*(best.vector or ()), ("scattered_sums", "off")))
    assert "library(" in generate(problem, off).kernel.source
    cards = moves(problem, settled(problem, ()), None, H100)
    assert any(dict(card.vector or ())["scattered_sums"] == "off" for card in cards)
    # 67 MB in 16 bytes a clock of each slice of L2, and a launch that writes 8 MB of zeros.
    assert 24 < estimate(problem, best.vector or (), H100, sizes).us < 32
    few = estimate(problem, best.vector or (), H100, {**sizes, "s0": 1}).us
    assert few > 2 * estimate(problem, best.vector or (), H100, sizes).us
