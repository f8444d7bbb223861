"""Slices of a tensor a few places apart: windows, whose threads read once what neighbours share."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check
from workbench.model import H100, Vector
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import program_of, traits_of

half = torch.float16
bfloat = torch.bfloat16


def edges(t: dict[str, Tensor]) -> Tensor:
    """Differences across and down, two apart."""
    x = t["x"]
    across, down = x[..., 2:] - x[..., :-2], x[..., 2:, :] - x[..., :-2, :]
    return torch.sqrt(across[..., 1:-1, :] ** 2 + down[..., 1:-1] ** 2)


def laplace(t: dict[str, Tensor]) -> Tensor:
    x = t["x"]
    around = x[:, 2:, 1:-1] + x[:, :-2, 1:-1] + x[:, 1:-1, 2:] + x[:, 1:-1, :-2]
    return around - 4 * x[:, 1:-1, 1:-1] + t["f"][:, 1:-1, 1:-1]


def corner(t: dict[str, Tensor]) -> Tensor:
    """Windows that begin neither at the first row nor at the first column."""
    x = t["x"]
    return x[:, 3:, 2:] * x[:, 2:-1, 1:-1]


def below(t: dict[str, Tensor]) -> Tensor:
    return t["x"][:, 1:] - t["x"][:, :-1]


def of_two(t: dict[str, Tensor]) -> Tensor:
    x, y = t["x"], t["y"]
    return (x[1:, 1:] - x[:-1, :-1]) * (y[1:, :-1] - y[:-1, 1:])


def box(t: dict[str, Tensor]) -> Tensor:
    high, wide = (size - 2 for size in t["x"].shape[-2:])
    return sum(t["x"][:, y : y + high, x : x + wide] for y in range(3) for x in range(3)) / 9


def scaled(t: dict[str, Tensor]) -> Tensor:
    return (t["x"][:, 1:, 1:] + t["x"][:, :-1, :-1]) * t["s"][:, None, None]


CALLS: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "edges": (edges, of(x=(2, 1, 14, 18))()),
    "edges of odd images": (edges, of(x=(3, 2, 11, 13))()),
    "half": (edges, of(x=((2, 9, 26), half))()),
    "box": (box, of(x=(2, 9, 10))()),
    "laplace": (laplace, of(x=(2, 10, 12), f=(2, 10, 12))()),
    "corner": (corner, of(x=(2, 9, 11))()),
    "of two tensors": (of_two, of(x=(17, 16), y=(17, 16))()),
    "bfloat16": (of_two, of(x=((9, 21), bfloat), y=((9, 21), bfloat))()),
    "scaled": (scaled, of(x=(3, 8, 9), s=(3,))()),
    "integers": (
        lambda t: t["x"][1:, 1:] * 2 - t["x"][:-1, :-1],
        {"x": torch.arange(11 * 13, dtype=torch.int32).reshape(11, 13)},
    ),
}
VECTORS: tuple[Vector, ...] = (
    (("strip", "2"), ("block_size", "64")),
    (("strip", "8"), ("index_width", "32"), ("stores", "streamed")),
    (("walk_down", "2"), ("walk_rows", "8"), ("loads_in_flight", "2")),
    (("walk_down", "4"), ("index_width", "32")),
)


@pytest.mark.many(11)
@pytest.mark.parametrize(("name", "vector"), crossed(CALLS, VECTORS))
def test_right_in_strips_and_walks(name: str, vector: Vector) -> None:
    call, tensors = CALLS[name]
    problem = problem_of(call, tensors, "shifted")
    assert traits_of(problem).strips and traits_of(problem).walks
    source = generate(problem, vector).kernel.source
    assert "const auto take" in source or "_seen[" in source
    check(call, source, tensors, "checked")


SHAPES = [(2, 5, 3, 3), (1, 1, 3, 9), (1, 1, 40, 3), (3, 1, 17, 33)]


@pytest.mark.many(5)
@pytest.mark.parametrize(("shape", "vector"), crossed(SHAPES, VECTORS))
def test_one_kernel_takes_other_shapes(shape: tuple[int, ...], vector: Vector) -> None:
    problem = problem_of(*CALLS["edges of odd images"])
    check(edges, generate(problem, vector).kernel.source, of(x=shape)(), "checked")


@pytest.mark.parametrize(
    ("call", "tensors"),
    [
        (below, of(x=(2, 8, 9))()),  # rows that follow one another: no axis across
        (lambda t: t["x"][:, 1:] - t["x"][:, :-1], of(x=(8, 9))()),  # one axis only
        (lambda t: t["x"][20:, 20:] - t["x"][:-20, :-20], of(x=(40, 40))()),  # too far apart to be kept
        (lambda t: t["x"][1:, 1:] - t["x"][:-1, :-1], {"x": torch.randn(9, 12).t()}),
        (lambda t: t["x"][1:, 1:] + t["y"][:-1, :-1], of(x=(9, 12), y=(9, 12))()),  # nothing is shared
    ],
)
def test_other_slices_are_no_windows(call: Call, tensors: dict[str, Tensor]) -> None:
    assert not program_of(problem_of(call, tensors), True).stencils


def test_a_strip_reads_less() -> None:
    """Eight results below one another share the rows between them."""
    call, tensors = box, of(x=(2, 18, 34))()
    problem = problem_of(call, tensors)

    def sectors(vector: Vector) -> int:
        counts = check(call, generate(problem, vector).kernel.source, tensors, "checked").report.counts
        assert counts is not None
        return sum(site.transactions for site in counts.sites if site.kind == "load")

    assert sectors((("strip", "8"),)) < 0.5 * sectors((("vector_width", "1"),))


def test_a_search_tries_strips_and_walks() -> None:
    problem = problem_of(edges, of(x=(8, 1, 512, 512))())
    tried = [dict(card.vector or ()) for card in seed_vectors(problem, H100, 8)]
    assert any(one.get("walk_down", "off") != "off" or one.get("strip", "off") != "off" for one in tried)


def test_vectors_are_not_expected_where_slices_begin_anywhere() -> None:
    problem = problem_of(edges, of(x=(8, 1, 512, 512))())
    sizes = problem.cases[0].size_map
    scalar, vector = (
        estimate(problem, settled(problem, (("index_width", "32"), ("vector_width", width))), H100, sizes).us
        for width in ("1", "4")
    )
    assert vector == pytest.approx(scalar)


def test_rows_of_whole_halves_are_stored_in_halves() -> None:
    """Of rows of 18 results, four side by side: pairs, not one by one."""
    call, tensors = edges, of(x=(2, 1, 9, 20))()
    problem = problem_of(call, tensors)
    source = generate(problem, (("walk_down", "4"), ("stores", "streamed"))).kernel.source
    counts = check(call, source, tensors, "checked").report.counts
    assert counts is not None
    assert {site.width_bytes for site in counts.sites if site.kind == "store"} == {8}
