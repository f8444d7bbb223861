"""Sizes are equal when they agree wherever the reference is defined, and print as Python."""

import pytest
import torch

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, plan_of
from workbench.errors import NotCovered
from workbench.model import Case, size_of
from workbench.playbook.generate import generate
from workbench.playbook.ir.sizes import ONE, Sizes, number, solved
from workbench.playbook.lowering.lower import lower

SIZES = Sizes(("s0", "s1"), [{"s0": 5, "s1": 9}])


def test_equality_is_by_value() -> None:
    assert SIZES.read("s0*s1") == SIZES.read("s1*s0")
    assert SIZES.read("2*s0 + s0") == SIZES.read("3*s0")
    assert SIZES.read("s0") != SIZES.read("s1")
    assert SIZES.read("s0//s0") == ONE
    assert len({SIZES.read("s0*s1"), SIZES.read("s1*s0")}) == 1


def test_divisibility_the_reference_implies_counts() -> None:
    groups = Sizes(("s0",), [{"s0": 8}, {"s0": 12}])
    assert groups.read("4*(s0//4)") == groups.read("s0")


def test_divisibility_the_reference_implies_counts_for_any_divisor_of_the_graph() -> None:
    accepted = [{"s0": 22}, {"s0": 44}]
    assert Sizes(("s0",), accepted).read("11*(s0//11)") != Sizes(("s0",), accepted).read("s0")
    groups = Sizes(("s0",), accepted, divisors=[11])
    assert groups.read("11*(s0//11)") == groups.read("s0")


def test_accepted_sizes_tell_apart_what_divisible_ones_do_not() -> None:
    assert SIZES.read("(s1 + 1)//2") != SIZES.read("s1//2")


def test_accepted_sizes_are_chosen_for_their_remainders() -> None:
    """Beside many that are multiples of three, the one that is not."""
    accepted = [{"s0": 3 * odd, "s1": odd} for odd in range(1, 41, 2)] + [{"s0": 256, "s1": 6}]
    sizes = Sizes(("s0", "s1"), accepted, {3})
    assert sizes.read("3*(s0//3)") != sizes.read("s0")


@pytest.mark.parametrize(
    "text", ["s0*s1//s1", "(s0 + 1)*s1", "s1 - 1", "s0*4//2", "-s0 + s1", "(s0*s1)%s1 + 3"]
)
def test_texts_evaluate_to_the_same(text: str) -> None:
    for sizes in ({"s0": 5, "s1": 9}, {"s0": 1, "s1": 2}):
        assert SIZES.read(text).at(sizes) == size_of(text, sizes)


def test_quotients_cancel() -> None:
    assert (SIZES.read("s0*s1") // SIZES.read("s1")).text == "s0"
    assert (SIZES.read("6*s0") // number(3)).text == "2*s0"


def test_spelling_renames_symbols() -> None:
    names = {"s0": "rows", "s1": "cols"}
    assert SIZES.read("s0*(s1//2)").spell(names.__getitem__) == "rows * (cols // 2)"


def test_divides() -> None:
    assert number(4).divides(SIZES.read("4*s0"))
    assert SIZES.read("s1").divides(SIZES.read("s0*s1"))
    assert not SIZES.read("s1").divides(SIZES.read("s0"))


def test_sizes_at_which_a_tensor_is_empty_keep_no_axis_from_dividing() -> None:
    """``x[:, 1:]`` is empty where one column is accepted: its rows are its rows for all that."""
    call = lambda t: (t["x"][:, 1:] - t["x"][:, :-1]).abs().mean()  # noqa: E731
    problem = problem_of(call, {"x": torch.randn(5, 9)})
    (rows, columns) = problem.tensors[0].dims
    proofs = tuple(Case(label="", sizes=((str(rows), 3), (str(columns), n))) for n in (1, 7))
    program = lower(problem.model_copy(update={"proofs": proofs}), fuse=True)
    assert len(program.steps) == 1


def test_a_size_is_solved_for_its_symbol() -> None:
    for text, solution in (("s0", "n"), ("s0 + 1", "n - 1"), ("s0 - 2", "n + 2"), ("3*s0", "n // 3")):
        assert solved(SIZES.read(text), "n") == solution
    assert solved(SIZES.read("2*s0 + 1"), "n") == "(n - 1) // 2"


def test_an_argument_one_longer_than_another_is_covered() -> None:
    """The export may write the first argument's rows as the second one's and one more."""
    call = lambda t: (t["x"][1:] * t["y"]).tanh()  # noqa: E731
    tensors = {"x": torch.randn(8, 5), "y": torch.randn(7, 5)}
    problem = problem_of(call, tensors)
    assert problem.tensors[0].dims[0] == "s0 + 1"
    check(call, generate(problem, ()).kernel.source, tensors)


@pytest.mark.parametrize(
    "equal",
    [
        (("s0", "s1"), ("s2", "s3")),
        (("s0", "s1"), ("s2", "s3"), ("s4", "s5")),
        (("s0",), ("s2", "s3")),
        (("s0", "s1"), ("s2", "s3", "s4")),
        (("s0", "s1", "s2"), ("s3", "s4", "s5")),
    ],
)
def test_products_may_be_equal_whose_factors_are_not(equal: tuple[tuple[str, ...], ...]) -> None:
    names = tuple(f"s{at}" for at in range(6))
    sizes = Sizes(names, [dict.fromkeys(names, 1)], equal=[equal])
    products = {sizes.read("*".join(factors)) for factors in equal}
    assert len(products) == 1
    assert len({sizes.read(name) for name in names}) == len(names)
    assert len({Sizes(names).read("*".join(factors)) for factors in equal}) == len(equal)
    parts = [sizes.read(factors[0]) for factors in equal if len(factors) > 1]
    assert all(part.divides(whole) for part in parts for whole in products)


def overlap(t: dict[str, torch.Tensor]) -> torch.Tensor:
    chance, truth = t["x"].sigmoid().flatten(1), t["y"].flatten(1)
    return (chance * truth).sum(1) / (chance.sum(1) + truth.square().sum(1))


def test_images_that_are_flattened_before_they_meet_are_walked_together() -> None:
    """Also where only their products are equal: torch asks no more of them."""
    problem = problem_of(overlap, {"x": torch.randn(3, 6, 8), "y": torch.rand(3, 6, 8)})
    source = generate(problem, ()).kernel.source
    assert source.count("__global__") == 1
    for shape in ((3, 6, 8), (3, 8, 6), (3, 4, 12)):
        check(overlap, source, {"x": torch.randn(3, 6, 8), "y": torch.rand(shape)}, "checked")
    with pytest.raises(NotCovered, match="sizes that meet must be equal"):
        plan_of(source, {"x": torch.randn(3, 6, 8), "y": torch.rand(3, 6, 9)})


def beside_rows(t: dict[str, torch.Tensor]) -> torch.Tensor:
    """Flattened in one place, row by row in another."""
    return overlap(t)[:, None, None] * t["x"] + t["y"].sum((1, 2), keepdim=True)


def test_rows_of_one_image_are_not_taken_for_rows_of_the_other() -> None:
    problem = problem_of(beside_rows, {"x": torch.randn(3, 6, 8), "y": torch.rand(3, 6, 8)})
    source = generate(problem, ()).kernel.source
    for shape in ((3, 6, 8), (3, 8, 6)):
        check(beside_rows, source, {"x": torch.randn(3, 6, 8), "y": torch.rand(shape)}, "checked")


def test_the_larger_of_two_sizes_is_neither_of_them() -> None:
    """At all points that sizes are told apart by, one of the two is the larger."""
    sizes = Sizes(("s0", "s1"), [{"s0": 5, "s1": 9}])
    one, other = sizes.read("s1"), sizes.read("min(s0, s1)")
    assert other.at({"s0": 12, "s1": 3}) == 3 and other not in (one, sizes.read("s0"))
    least = sizes.read("max(1, s1 - 1)")
    assert least != sizes.read("s1 - 1") and least == sizes.read("max(1, s1 - 1)")
    assert sizes.read("2*max(1, s1 - 1)") == least + least != sizes.read("2*s1 - 2")
    assert least.spell(str.upper) == "(max(1, S1 - 1))" and least.symbols == ("s1",)


def proportions(t: dict[str, torch.Tensor]) -> torch.Tensor:
    rows, columns = t["x"].shape
    return t["x"] * (columns - 1) + (columns / rows - 0.5)


def coordinates(t: dict[str, torch.Tensor]) -> torch.Tensor:
    rows, columns = t["x"].shape
    along = torch.arange(columns) / max(columns - 1, 1)
    return t["x"] * along + (columns - 1) / min(rows, columns)


def grouped(t: dict[str, torch.Tensor]) -> torch.Tensor:
    batch, heads, width = t["q"].shape
    groups = t["k"].shape[1]
    q = t["q"].view(batch, groups, heads // groups, width)
    return (q * t["k"].unsqueeze(2)).permute(0, 3, 1, 2).sum(1).view(batch, heads)


@pytest.mark.many(6)
@pytest.mark.parametrize("shape", [(7, 12), (12, 7), (3, 1)])
@pytest.mark.parametrize("call", [proportions, coordinates])
def test_numbers_made_of_sizes_are_no_whole_numbers(call: Call, shape: tuple[int, int]) -> None:
    source = generate(problem_of(call, {"x": torch.randn(7, 12)}), ()).kernel.source
    check(call, source, {"x": torch.randn(*shape)})


def test_heads_come_in_groups_of_which_any_number_may_be() -> None:
    def given(heads: int, groups: int) -> dict[str, torch.Tensor]:
        return {"q": torch.randn(3, heads, 8), "k": torch.randn(3, groups, 8)}

    source = generate(problem_of(grouped, given(12, 4)), ()).kernel.source
    for heads, groups in ((12, 4), (10, 5), (9, 3), (6, 6)):
        check(grouped, source, given(heads, groups))
    with pytest.raises(NotCovered, match="nothing may be left over"):
        check(grouped, source, given(10, 4))


def test_columns_that_are_an_area_over_rows_divide_the_whole() -> None:
    """With more rows than the area has elements there are no columns, and nothing to divide."""
    sizes = Sizes(("s0", "s1"), [{"s0": 64, "s1": 4}, {"s0": 2, "s1": 9}])
    rows, columns = sizes.read("s1//2"), sizes.read("s0//(s1//2)")
    assert 0 in columns.probes
    assert columns.divides(rows * columns * number(4))
    assert not columns.divides(rows)
