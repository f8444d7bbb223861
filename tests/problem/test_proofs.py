"""Small sizes that catch mistakes, and sizes a person declares."""

from collections.abc import Mapping

import pytest

from workbench.errors import ProblemError
from workbench.model import Case, Dim, Graph, OpNode, OutputSpec, Problem, Ref, Sampler, TensorSpec
from workbench.problem.cost import elements, multiplications
from workbench.problem.halving import halved
from workbench.problem.opening import small_sizes
from workbench.problem.proofs import (
    MOST_ELEMENTS,
    MOST_MULTIPLICATIONS,
    declared_case,
    label,
    proofs,
    proportions,
)


def spec(name: str, *dims: Dim) -> TensorSpec:
    return TensorSpec(name=name, role="input", dtype="f32", dims=dims, sampler=Sampler(kind="normal"))


def problem(*specs: TensorSpec, outputs: tuple[Dim, ...] = ("s0",), **sizes: int) -> Problem:
    return Problem(
        name="f",
        source="",
        entry="f",
        kind="function",
        tensors=specs,
        symbols=tuple(sizes),
        outputs=(OutputSpec(dtype="f32", dims=outputs),),
        cases=(Case(label="declared", sizes=tuple(sizes.items())),),
        graph=Graph(nodes=(), outputs=(Ref(ref="x"),)),
    )


ROWS = problem(spec("x", "s0", "s1"), outputs=("s0", "s1"), s0=4096, s1=32768)


def chosen(problem: Problem, accept: object = None) -> list[dict[str, int]]:
    def anything(sizes: Mapping[str, int]) -> bool:
        return True

    return [case.size_map for case in proofs(problem, accept or anything)]  # type: ignore[arg-type]


def test_proofs_of_rows_hold_one_odd_sizes_block_edges_and_a_long_row() -> None:
    sizes = chosen(ROWS)
    assert len(sizes) <= 8
    assert {"s0": 1, "s1": 1} in sizes and {"s0": 4, "s1": 32768} in sizes
    columns = {size["s1"] for size in sizes}
    assert {7, 33, 127, 128, 1025} <= columns
    assert {size["s0"] for size in sizes} >= {1, 2, 3, 5, 129, 257}


PRODUCT = problem(
    spec("a", "s0", "s1"), spec("b", "s1", "s2"), outputs=("s0", "s2"), s0=4096, s1=4096, s2=4096
).model_copy(
    update={
        "graph": Graph(
            nodes=(
                OpNode(
                    name="mm",
                    op="aten.mm.default",
                    args=(Ref(ref="a"), Ref(ref="b")),
                    outs=(OutputSpec(dtype="f32", dims=("s0", "s2")),),
                ),
            ),
            outputs=(Ref(ref="mm"),),
        )
    }
)


def test_proofs_are_small_in_elements_and_work() -> None:
    for case in (ROWS, PRODUCT):
        for sizes in chosen(case):
            assert elements(case, sizes) <= MOST_ELEMENTS
            assert multiplications(case, sizes) <= MOST_MULTIPLICATIONS


def test_cost_of_a_product() -> None:
    sizes = {"s0": 2, "s1": 3, "s2": 5}
    assert multiplications(PRODUCT, sizes) == 2 * 3 * 5
    assert elements(PRODUCT, sizes) == 2 * 3 + 3 * 5 + 2 * 5
    assert (multiplications(ROWS, {"s0": 2, "s1": 3}), elements(ROWS, {"s0": 2, "s1": 3})) == (0, 12)


def test_every_trailing_size_of_a_product_is_long_once() -> None:
    sizes = chosen(PRODUCT)
    assert max(size["s1"] for size in sizes) >= 128 and max(size["s2"] for size in sizes) >= 128


def test_every_leading_size_is_long_once() -> None:
    images = problem(spec("x", "s0", "s1", "s2"), outputs=("s0", "s2"), s0=64, s1=64, s2=224)
    sizes = chosen(images)
    assert max(size["s0"] for size in sizes) >= 128 and max(size["s1"] for size in sizes) >= 128


def test_refused_sizes_are_replaced_by_larger_ones() -> None:
    even = chosen(ROWS, lambda sizes: sizes["s1"] % 4 == 0)
    assert len(even) >= 5 and all(size["s1"] % 4 == 0 for size in even)
    wide = chosen(ROWS, lambda sizes: sizes["s1"] > 1024)
    assert len(wide) >= 4 and all(size["s1"] > 1024 for size in wide)


def test_fixed_parameters_shrink_the_rest() -> None:
    wide = problem(spec("x", "s0", 4096), spec("w", 4096), outputs=("s0", 4096), s0=4096)
    rows = [size["s0"] for size in chosen(wide)]
    assert 1 in rows and 7 in rows and max(rows) <= 128


def test_large_parameters_leave_few_proofs_and_huge_ones_none() -> None:
    assert len(chosen(problem(spec("x", "s0"), spec("w", 4096, 2048), s0=64))) == 2
    assert chosen(problem(spec("x", "s0"), spec("w", 65536, 4096), s0=64)) == []


def test_without_symbols_the_declared_case_is_the_proof_when_small() -> None:
    assert chosen(problem(spec("x", 8, 8), outputs=(8,))) == [{}]
    assert chosen(problem(spec("x", 8192, 8192), outputs=(8192,))) == []


def test_declared_shapes_follow_shared_sizes() -> None:
    specs = (spec("x", "s0", "s1"), spec("bias", "s1"))
    assert declared_case(specs, ((3, 4),), {"s0": 9, "s1": 9}) == {"s0": 3, "s1": 4}
    assert declared_case(specs, ((3, 4), (4,)), {"s0": 9, "s1": 9}) == {"s0": 3, "s1": 4}


def test_declared_shapes_solve_size_expressions() -> None:
    assert declared_case((spec("x", "2*s0"),), ((6,),), {"s0": 9}) == {"s0": 3}


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((3, 4, 5),), r"\(3, 4, 5\) has 3 sizes, but x has 2"),
        (((3, 4), (5,)), r"do not fit together: axis 0 of bias must be 4"),
        (((3, 4), (4,), (1,)), r"3 shapes in one entry, but there are 2 inputs"),
    ],
)
def test_declared_shapes_that_do_not_fit(shapes: tuple[tuple[int, ...], ...], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        declared_case((spec("x", "s0", "s1"), spec("bias", "s1")), shapes, {"s0": 9, "s1": 9})


def test_fixed_axes_cannot_be_declared_otherwise() -> None:
    with pytest.raises(ProblemError, match=r"axis 1 of x must be 64, it cannot vary on its own"):
        declared_case((spec("x", "s0", 64),), ((3, 65),), {"s0": 9})


def test_labels_name_sizes_once() -> None:
    sizes = {"s0": 2, "s1": 3, "s2": 5}
    assert label((spec("x", "s0", "s1"), spec("b", "s1")), sizes) == "2x3"
    assert label((spec("x", "s0", "s1"), spec("w", "s2", "s1")), sizes) == "2x3,5x3"
    assert label((spec("x"),), sizes) == "scalar"


def test_sizes_that_divide_by_zero_are_passed_over() -> None:
    """A pixel shuffle's channels are a multiple of four; with one channel an axis has no size."""
    shuffled = problem(spec("x", "s0"), outputs=("s0//(s0//4)",), s0=16)
    sizes = [size["s0"] for size in chosen(shuffled, lambda at: at["s0"] % 4 == 0)]
    assert sizes and all(size % 4 == 0 for size in sizes)


def test_where_no_sizes_fit_alone_they_are_as_equal_as_they_are_declared() -> None:
    """Batches and heads that are one axis in a product: an export leaves the second tensor its own."""
    pair = problem(spec("x", "s0", "s1"), spec("y", "s2", "s3"), s0=64, s1=40, s2=64, s3=40)

    def in_one(sizes: Mapping[str, int]) -> bool:
        return sizes["s0"] == sizes["s2"] > 2 and sizes["s1"] == sizes["s3"]

    small = [case.size_map for case in small_sizes(pair, in_one, {})]
    assert len(small) > 2 and all(map(in_one, small))


BLOCKS = problem(spec("codes", "s0"), spec("table", "s1"), spec("scale", "s2"), s0=64 * 4096, s1=16, s2=4096)


def test_sizes_in_proportion_keep_one_ratio_at_a_time() -> None:
    def in_blocks(sizes: Mapping[str, int]) -> bool:
        return sizes["s0"] == 64 * sizes["s2"]

    assert not proofs(BLOCKS, in_blocks) and not proofs(BLOCKS, in_blocks, tied=True)
    assert list(proportions(BLOCKS)) == [{"s0": "64*s2"}, {"s2": "256*s1"}, {"s0": "16384*s1"}]
    found = [case.size_map for case in proofs(BLOCKS, in_blocks, like={"s0": "64*s2"})]
    assert len(found) > 4 and all(map(in_blocks, found))
    assert {1, 7} <= {sizes["s2"] for sizes in found} and len({sizes["s1"] for sizes in found}) > 3


def test_a_ratio_holds_in_every_declared_case_and_two_pairs_have_it_apart() -> None:
    other = Case(label="other", sizes=(("s0", 640), ("s1", 16), ("s2", 10)))
    two = BLOCKS.model_copy(update={"cases": (*BLOCKS.cases, other)})
    assert list(proportions(two)) == [{"s0": "64*s2"}]
    pairs = problem(*(spec(f"x{n}", f"s{n}") for n in range(4)), s0=64, s1=4, s2=64, s3=4)
    assert list(proportions(pairs)) == [{"s0": "16*s1", "s2": "16*s3"}]


def test_what_no_pattern_fits_is_found_by_halving_the_declared_sizes() -> None:
    """Tokens of patches are a quarter of an area; tokens behind those that are kept fill groups of 32."""
    images = problem(
        spec("tokens", "s0", "s1"), spec("image", "s0", "s2", "s3"), s0=16, s1=4096, s2=128, s3=128
    )
    cases = [case.size_map for case in halved(images, lambda s: s["s1"] * 4 == s["s2"] * s["s3"], {})]
    assert cases[0] == {"s0": 1, "s1": 1, "s2": 2, "s3": 2}
    assert all(case["s1"] * 4 == case["s2"] * case["s3"] for case in cases)
    kept = problem(spec("keys", "s0", "s1", "s2"), s0=4, s1=3200, s2=128)
    cases = [
        case.size_map for case in halved(kept, lambda s: (s["s1"] - 128) % 32 == 0, {"s1": 128, "s2": 2})
    ]
    assert cases[0] == {"s0": 1, "s1": 128, "s2": 1} or cases[0]["s1"] in (160, 224)
    assert halved(kept, lambda s: s == kept.cases[0].size_map, {}) == ()


def test_halves_are_few_and_small_enough_to_be_tried() -> None:
    asked = []

    def accept(sizes: Mapping[str, int]) -> bool:
        asked.append(sizes)
        return sizes["s0"] >= 1 << 14

    long = problem(spec("x", "s0", "s1"), s0=1 << 20, s1=3000)
    assert halved(long, accept, {}) != () and len(asked) <= 200
    assert all(elements(long, case.size_map) <= 2**23 for case in halved(long, accept, {}))
    assert halved(long, lambda s: s["s0"] >= 1 << 14 and s["s1"] == 3000, {}) == ()
