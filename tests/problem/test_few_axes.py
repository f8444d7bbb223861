"""Axes of few elements, fixed where their reductions can be written out."""

import pytest

from tests.problem.test_intake import opened

MIXED = "def f(x, w):\n    return (x * w[..., None]).{after}\n"


@pytest.mark.many(11)
@pytest.mark.parametrize(
    ("few", "beside", "after", "shapes", "fixed"),
    [
        (2, 32, "sum(1)", "", True),
        (8, 32, "amax(1)", "", True),
        (9, 32, "sum(1)", "", False),
        (2, 31, "sum(1)", "", False),
        (2, 32, "sum(2)", "", False),
        (2, 32, "argmax(1)", "", False),
        (2, 32, "sum(1).softmax(-1)", "", False),
        (4, 32, "softmax(1)", "", True),
        (2, 32, "sum(1)", "[((7, 2, 64), (7, 2))]", True),
        (2, 32, "sum(1)", "[((7, 3, 32), (7, 3))]", False),
        (2, 32, "sum(1)", "[((7, 2, 16), (7, 2))]", False),
    ],
)
def test_axes_of_few_with_many_beside_are_fixed(
    few: int, beside: int, after: str, shapes: str, fixed: bool
) -> None:
    inputs = f"inputs = [torch.randn(5, {few}, {beside}), torch.rand(5, {few})]\n"
    problem = opened(MIXED.format(after=after) + inputs + (f"shapes = {shapes}\n" if shapes else ""))
    assert [spec.dims[1] == few for spec in problem.tensors] == [fixed, fixed]
    assert all(isinstance(spec.dims[0], str) for spec in problem.tensors)
    told = [note for note in problem.notes if note.startswith("fixed, so that what is made of few elements")]
    assert bool(told) == fixed and all(f"{few} along axis 1 of w" in note for note in told)


@pytest.mark.parametrize(
    ("few", "shapes", "fixed"),
    [(16, "", True), (17, "", False), (5, "[((7, 5),)]", True), (5, "[((7, 6),)]", False)],
)
def test_axes_that_are_put_in_order_are_fixed(few: int, shapes: str, fixed: bool) -> None:
    source = f"def f(x):\n    return x.sort(1).values\ninputs = [torch.randn(9, {few})]\n"
    problem = opened(source + (f"shapes = {shapes}\n" if shapes else ""))
    assert (problem.tensors[0].dims[1] == few) == fixed
    assert isinstance(problem.tensors[0].dims[0], str)


def test_what_is_reduced_along_rows_of_few_is_fixed_along_with_an_axis_that_has_many_beside() -> None:
    source = "def f(x, g):\n    return (x * g.softmax(1)[..., None]).sum(1)\n"
    problem = opened(f"{source}inputs = [torch.randn(5, 4, 32), torch.randn(5, 4)]\n")
    assert [spec.dims[1] for spec in problem.tensors] == [4, 4]


def test_rows_of_few_alone_stay_rows_of_any_length() -> None:
    problem = opened("def f(x):\n    return x.softmax(1)\ninputs = [torch.randn(64, 4)]\n")
    assert not any(isinstance(dim, int) for dim in problem.tensors[0].dims)


@pytest.mark.many(2)
@pytest.mark.parametrize(("places", "fixed"), [((0, 1, 2), True), ((0, 2), False)])
def test_components_that_are_taken_one_by_one_are_as_many(places: tuple[int, ...], fixed: bool) -> None:
    taken = ", ".join(f"u[:, {place}]" for place in places)
    source = f"def f(x):\n    u = x / x.norm(dim=-1, keepdim=True)\n    return torch.stack([{taken}], 1)\n"
    problem = opened(f"{source}inputs = [torch.randn(64, 3)]\n")
    assert (problem.tensors[0].dims[1] == 3) == fixed


@pytest.mark.parametrize(("taken", "fixed"), [("0 1 2", True), ("0 2", False), ("0", False)])
def test_colours_that_are_all_taken_are_as_many(taken: str, fixed: bool) -> None:
    """Neighbouring threads read whole lines where they know how many there are."""
    terms = " + ".join(f"{0.25 * (1 + n)} * x[..., {n}]" for n in map(int, taken.split()))
    problem = opened(f"def f(x):\n    return {terms}\ninputs = [torch.rand(7, 64, 3)]\n")
    assert (problem.tensors[0].dims[2] == 3) == fixed


def test_coordinates_in_a_product_of_vectors_are_fixed_where_sums_of_them_are_summed() -> None:
    source = (
        "def f(points, centres, widths):\n"
        "    delta = points[:, None, :] - centres[None]\n"
        "    square = torch.einsum('gax,gax->ga', delta, delta)\n"
        "    return torch.exp(-widths * square[..., None]).sum(-1)\n"
    )
    problem = opened(f"{source}inputs = [torch.randn(40, 3), torch.randn(5, 3), torch.rand(5, 6)]\n")
    assert [spec.dims[1] for spec in problem.tensors[:2]] == [3, 3]


@pytest.mark.parametrize(
    ("points", "coordinates", "fixed"), [(4096, 3, True), (4095, 3, False), (4096, 5, False)]
)
def test_coordinates_of_many_points_are_fixed(points: int, coordinates: int, fixed: bool) -> None:
    source = "def f(x):\n    return (x / x.norm(dim=-1, keepdim=True)).mean(0)\n"
    problem = opened(f"{source}inputs = [torch.randn({points}, {coordinates})]\n")
    assert (problem.tensors[0].dims[1] == coordinates) == fixed


@pytest.mark.parametrize(("turn", "fixed"), [("[:, :3, :3]", 4), ("[:, :3, 1:3]", None)])
def test_a_matrix_of_a_turn_and_a_shift_has_as_many_columns_as_both(turn: str, fixed: int | None) -> None:
    source = (
        "def f(move, x):\n"
        f"    turn, shift = move{turn}, move[:, :3, 3]\n"
        "    return turn.sum(-1) * x + shift\n"
    )
    move = opened(f"{source}inputs = [torch.randn(5, 4, 4), torch.randn(5, 3)]\n").tensors[0]
    assert (move.dims[2] == 4) == (fixed == 4) and isinstance(move.dims[1], str)


@pytest.mark.parametrize(("few", "row", "fixed"), [(8, 256, True), (9, 256, False), (8, 255, False)])
def test_few_that_are_summed_before_their_row_is_reduced_are_fixed(few: int, row: int, fixed: bool) -> None:
    source = "def f(x, w):\n    y = (x * w[..., None]).sum(1)\n    return y / y.norm(dim=-1, keepdim=True)\n"
    problem = opened(f"{source}inputs = [torch.randn(5, {few}, {row}), torch.rand(5, {few})]\n")
    assert [spec.dims[1] == few for spec in problem.tensors] == [fixed, fixed]


@pytest.mark.parametrize(
    ("count", "columns", "fixed"), [(5000, 4, 2), (5000, 1, 2), (5000, 5, 1), (50, 4, 0)]
)
def test_many_small_matrices_that_are_multiplied_are_of_known_size(
    count: int, columns: int, fixed: int
) -> None:
    inputs = f"inputs = [torch.randn({count}, 4, 4), torch.randn({count}, 4, {columns})]\n"
    problem = opened(f"def f(a, b):\n    return (a @ b).relu()\n{inputs}")
    known = [spec.dims[1:] == (4, last) for spec, last in zip(problem.tensors, (4, columns), strict=True)]
    assert known == [fixed > 0, fixed > 1]


@pytest.mark.parametrize(
    ("count", "columns", "fixed"), [(2048, 3, True), (2048, 4, True), (2048, 5, False), (2047, 3, False)]
)
def test_a_small_matrix_that_turns_many_points_is_of_known_size(
    count: int, columns: int, fixed: bool
) -> None:
    inputs = f"inputs = [torch.randn(2, {count}, 3), torch.randn(3, {columns})]\n"
    points, turn = opened(f"def f(x, turn):\n    return (x @ turn).tanh()\n{inputs}").tensors
    assert (points.dims[2] == 3, turn.dims == (3, columns)) == (fixed, fixed)
