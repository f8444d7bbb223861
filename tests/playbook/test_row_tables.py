"""Rows whose columns are made of few elements: a thread reads these once, and then makes all columns."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check, plan_of
from workbench.compile.service import compile_kernel
from workbench.model import H100, Vector
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import traits_of

half, bfloat = torch.float16, torch.bfloat16
ON = ("row_tables", "on")


def score(t: dict[str, Tensor]) -> Tensor:
    """The continuous ranked probability score of an ensemble."""
    x, members = t["x"], t["x"].shape[1]
    skill = (x - t["y"].unsqueeze(1)).abs().mean(1)
    pairs = (x.unsqueeze(1) - x.unsqueeze(2)).abs().sum((1, 2))
    return (skill - pairs / (2 * members * (members - 1))).mean((0, 2, 3))


def pairs(t: dict[str, Tensor]) -> Tensor:
    return (t["x"].unsqueeze(1) - t["x"].unsqueeze(2)).abs().sum((1, 2))


def of_two(t: dict[str, Tensor]) -> Tensor:
    return (t["x"].unsqueeze(1) * t["y"].unsqueeze(2)).amax((1, 2))


def triples(t: dict[str, Tensor]) -> Tensor:
    x = t["x"]
    return (x[:, :, None, None] * x[:, None, :, None] + x[:, None, None, :]).square().mean((1, 2, 3))


def spread(t: dict[str, Tensor]) -> Tensor:
    sums = t["x"].unsqueeze(1) + t["x"].unsqueeze(2)
    return sums.flatten(1, 2).var(1, correction=0)


def farthest(t: dict[str, Tensor]) -> Tensor:
    return (t["x"].unsqueeze(1) - t["x"].unsqueeze(2)).flatten(1, 2).argmax(1)


def logs(t: dict[str, Tensor]) -> Tensor:
    return (t["x"].unsqueeze(1) * t["x"].unsqueeze(2)).flatten(1, 2).logsumexp(1)


CASES: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "score": (score, of(x=(2, 5, 3, 4, 7), y=(2, 3, 4, 7))()),
    "pairs": (pairs, of(x=(2, 6, 5, 9))()),
    "half": (pairs, of(x=((3, 4, 33), half))()),
    "bfloat16": (pairs, of(x=((3, 4, 33), bfloat))()),
    "two tensors": (of_two, of(x=(2, 5, 37), y=(2, 3, 37))()),
    "triples": (triples, of(x=(2, 4, 35))()),
    "two passes": (spread, of(x=(3, 5, 34))()),
    "places": (farthest, of(x=(2, 5, 40))()),
    "logarithms": (logs, of(x=(2, 5, 40))()),
    "integers": (pairs, {"x": torch.arange(2 * 5 * 9, dtype=torch.int32).reshape(2, 5, 9) ** 2 % 97}),
}
VECTORS: tuple[Vector, ...] = (
    (ON,),
    (ON, ("block_size", "64"), ("persistent_grid", "on"), ("stream_hints", "on")),
    (ON, ("single_pass", "on"), ("block_size", "fit"), ("vector_width", "4"), ("threads_per_row", "bundle")),
    (ON, ("grid_split", "on"), ("split_join", "last"), ("row_cache", "registers"), ("occupancy", "full")),
    (("row_tables", "off"),),
)


@pytest.mark.many(11)
@pytest.mark.parametrize(("name", "vector"), crossed(CASES, VECTORS))
def test_rows_in_tables_are_right(name: str, vector: Vector) -> None:
    call, tensors = CASES[name]
    problem = problem_of(call, tensors, "tabled")
    assert any(row.tabled for row in traits_of(problem).rows)
    check(call, generate(problem, vector).kernel.source, tensors, "checked")


@pytest.mark.many(5)
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 2, 300), (2, 20, 31), (1, 32, 5)])
def test_one_kernel_takes_other_ensembles(shape: tuple[int, ...]) -> None:
    problem = problem_of(pairs, of(x=(2, 6, 45))())
    check(pairs, generate(problem, (ON,)).kernel.source, of(x=shape)(), "checked")


def test_an_ensemble_that_is_too_large_is_refused() -> None:
    source = generate(problem_of(pairs, of(x=(2, 6, 45))()), (ON,)).kernel.source
    with pytest.raises(Exception, match="must be short"):
        plan_of(source, of(x=(1, 33, 5))())


def test_elements_are_read_once_for_all_sums_of_their_row() -> None:
    call, tensors = CASES["score"]
    problem = problem_of(call, tensors)
    read = []
    for value in ("on", "off"):
        source = generate(problem, (("row_tables", value),)).kernel.source
        counts = check(call, source, tensors, "checked").report.counts
        assert counts is not None
        read.append(counts.load_bytes)
    once = 4 * sum(tensor.numel() for tensor in tensors.values())
    places = 4 * 2 * tensors["y"].numel()  # what each comes to, which the last sum reads
    assert read[0] <= once + places + 64 < read[1]


def test_tables_are_in_registers() -> None:
    """An index that the compiler did not know would put them into local memory."""
    call, _ = CASES["score"]
    tensors = of(x=(2, 16, 2, 4, 64), y=(2, 2, 4, 64))()
    source = generate(problem_of(call, tensors), (ON,)).kernel.source
    report = compile_kernel(source, plan_of(source, tensors).instances)
    kernel = report.kernels[0]  # type: ignore[union-attr]
    assert kernel.stack_bytes == 0 and kernel.spill_load_bytes == 0 and kernel.registers >= 16


@pytest.mark.parametrize(
    ("call", "tensors"),
    [
        (lambda t: (t["x"][:, :, None] - t["x"][:, None]).abs().sum((1, 2)), of(x=(90, 8))()),  # rows apart
        (pairs, of(x=(2, 40, 45))()),  # 1600 columns
        (lambda t: t["x"].sum(1), of(x=(4, 16, 90))()),  # each element is of one column
        (lambda t: (t["x"][:, None] - t["x"][:, :, None]).abs().sum((1, 2, 3)), of(x=(2, 6, 45))()),  # long
    ],
)
def test_other_rows_are_left_alone(call: Call, tensors: dict[str, Tensor]) -> None:
    assert not any(row.tabled for row in traits_of(problem_of(call, tensors)).rows)


def test_tables_are_expected_to_be_faster_and_are_tried() -> None:
    problem = problem_of(score, of(x=(2, 16, 2, 90, 180), y=(2, 2, 90, 180))())
    sizes = problem.cases[0].size_map
    on, off = (
        estimate(problem, settled(problem, (("row_tables", value),)), H100, sizes).us
        for value in ("on", "off")
    )
    assert on < 0.5 * off
    tried = [dict(card.vector or ()) for card in seed_vectors(problem, H100, 4)]
    assert sum(vector.get("row_tables") == "on" for vector in tried) >= 2
