"""Tensors that are rolled: two slices in the other order, and neighbours found in a vector that is loaded."""

import re

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, plan_of
from workbench.errors import NotCovered
from workbench.model import H100
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors

Tensors = dict[str, Tensor]


def ring(t: Tensors) -> Tensor:
    x = t["x"]
    return x - 0.5 * (x.roll(1, -1) + x.roll(-1, -1))


def far(t: Tensors) -> Tensor:
    """Further than a vector of two, by as much as a vector of four less one, and by as much as four."""
    x = t["x"]
    return x.roll(3, -1) * 3.0 + x.roll(-3, -1) + x.roll(4, -1) * x


def torus(t: Tensors) -> Tensor:
    """Neighbours across both ends of both axes."""
    x = t["x"]
    return sum((x.roll((i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)), x)


def flat(t: Tensors) -> Tensor:
    """All of a tensor as one row, and by more than one of its rows."""
    return t["x"].roll(9) + t["x"]


def by_half(t: Tensors) -> Tensor:
    """By what the shape says."""
    return t["x"].roll(t["x"].shape[-1] // 2, -1) + t["x"]


def slices(t: Tensors) -> Tensor:
    """As it is written by hand."""
    x = t["x"]
    return torch.cat([x[:, -2:], x[:, :-2]], 1) - torch.cat([x[:, 1:], x[:, :1]], 1) * x


CALLS = [ring, far, torus, flat, by_half, slices]


@pytest.mark.many(47)
@pytest.mark.parametrize("width", ["1", "2", "4", "8"])
@pytest.mark.parametrize("columns", [8, 24, 7])
@pytest.mark.parametrize("call", CALLS)
def test_right_in_vectors_and_alone(call: Call, columns: int, width: str) -> None:
    tensors = {"x": torch.randint(-9, 9, (5, columns)).to(torch.float16 if width == "8" else torch.float32)}
    vector = (("fusion", "all"), ("vector_width", width))
    check(call, generate(problem_of(call, tensors), vector).kernel.source, tensors, "checked")


@pytest.mark.parametrize("call", [ring, far, torus, slices])
def test_places_are_not_computed_with_a_remainder(call: Call) -> None:
    source = generate(problem_of(call, {"x": torch.randn(6, 16)}), (("fusion", "all"),)).kernel.source
    assert "long long" not in source and not re.search(r"\[[^]]*%[^]]*%", source)


@pytest.mark.parametrize(("call", "beside"), [(ring, 2), (far, 2), (torus, 8), (slices, 2)])
def test_neighbours_are_elements_of_a_vector(call: Call, beside: int) -> None:
    """Four of ``torus`` are in vectors of the rows above and below, which are one of two pieces."""
    vector = (("fusion", "all"), ("vector_width", "4"))
    source = generate(problem_of(call, {"x": torch.randn(6, 16)}), vector).kernel.source
    assert len(re.findall(r"_pack\w*\.at\[k [-+] \d\] : x\[", source)) >= beside
    assert "bool inside = " in source


def test_the_ends_of_a_row_stay_compared_where_vectors_straddle_them() -> None:
    vector = (("fusion", "all"), ("vector_width", "4"))
    problem = problem_of(ring, {"x": torch.randn(6, 7)})
    assert "bool inside" not in generate(problem, vector).kernel.source


def test_rows_of_what_is_only_rolled_do_not_wait_on_the_chip() -> None:
    """A roll of a roll reads one element, where a step of a butterfly reads two of what was made of two."""
    problem = problem_of(torus, {"x": torch.randn(256, 512)})
    assert all(dict(card.vector).get("row_steps") != "on" for card in seed_vectors(problem, H100, count=4))


@pytest.mark.slow
def test_an_automaton_still_keeps_its_rows() -> None:
    def step(cells: Tensor) -> Tensor:
        left, right = cells.roll(1, 1), cells.roll(-1, 1)
        return (cells | right) & ~(left & cells & right)

    def four(t: Tensors) -> Tensor:
        return step(step(step(step(t["x"]))))

    tensors = {"x": torch.rand(9, 64) < 0.5}
    source = generate(problem_of(four, tensors), (("fusion", "all"), ("row_steps", "on"))).kernel.source
    assert "Rows wait on the chip" in source and "long long" not in source
    check(four, source, tensors, "checked")


@pytest.mark.slow
def test_bytes_are_read_sixteen_at_a_time() -> None:
    """Where all are bytes; the first kernels try it, because the model of time sees what lies in a vector."""

    def born(t: Tensors) -> Tensor:
        x = t["x"]
        near = sum((x.roll((i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j), x * 0)
        return ((near == 3) | ((near == 2) & (x == 1))).to(torch.uint8)

    problem = problem_of(born, {"x": torch.randint(0, 2, (4096, 4096), dtype=torch.uint8)}, varying=False)
    assert dict(seed_vectors(problem, H100, count=4)[-1].vector)["vector_width"] == "16"
    sizes = problem.cases[0].size_map
    times = [estimate(problem, (("vector_width", width),), H100, sizes).us for width in ("1", "4", "16")]
    assert times == sorted(times, reverse=True)
    for columns in (32, 33):
        tensors = {"x": torch.randint(0, 2, (6, columns), dtype=torch.uint8)}
        vector = (("fusion", "all"), ("index_width", "32"), ("vector_width", "16"))
        source = generate(problem_of(born, tensors), vector).kernel.source
        assert "16 if " in source
        check(born, source, tensors)


def parts(t: Tensors) -> Tensor:
    first, second = t["x"].unflatten(-1, (2, -1)).unbind(-2)
    return torch.cat([first.roll(2, -1), second.roll(3, -1)], -1)


def test_parts_that_are_no_longer_than_they_are_rolled() -> None:
    """3 % n is three for all sizes but the smallest, of which one leaves another part empty."""
    source = generate(problem_of(parts, {"x": torch.randn(5, 4)}), (("fusion", "all"),)).kernel.source
    for columns in (4, 6, 12):
        check(parts, source, {"x": torch.randn(5, columns)})


@pytest.mark.many(2)
@pytest.mark.parametrize(("call", "least"), [(parts, 6), (far, 4)])
def test_rows_that_are_shorter_than_they_are_rolled_are_refused(call: Call, least: int) -> None:
    source = generate(problem_of(call, {"x": torch.randn(5, 12)}), (("fusion", "all"),)).kernel.source
    check(call, source, {"x": torch.randn(5, least)})
    with pytest.raises(NotCovered, match="lies inside"):
        plan_of(source, {"x": torch.randn(5, least - 2)})
