"""Covariances in one read: both means and the sums of products of deviations go along together."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, plan_of, reference, run
from workbench.model import Vector
from workbench.playbook.analysis.accumulators import MEMBERS
from workbench.playbook.analysis.row_passes import RowSpace, passes_of
from workbench.playbook.generate import generate
from workbench.playbook.ir.program import Kernel
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import program_of, traits_of

ONE_PASS: Vector = (("single_pass", "on"), ("block_size", "64"), ("vector_width", "4"))
ROWS: dict[str, Vector] = {
    "one by one": (*ONE_PASS[:2], ("vector_width", "1")),
    "block": ONE_PASS,
    "tree": (*ONE_PASS, ("block_reduction", "tree")),
    "chains": (*ONE_PASS, ("chains", "many")),
    "warp": (*ONE_PASS, ("threads_per_row", "warp")),
    "kept": (*ONE_PASS, ("row_cache", "registers")),
    "shared": (*ONE_PASS, ("row_cache", "shared")),
    "split": (*ONE_PASS, ("grid_split", "on")),
    "last": (*ONE_PASS, ("grid_split", "on"), ("split_join", "last")),
    "told": (*ONE_PASS, ("grid_split", "on"), ("split_join", "told")),
    "cluster": (*ONE_PASS, ("cluster", "4")),
}
COLUMNS: dict[str, Vector] = {
    "thread": (*ONE_PASS[:2], ("threads_per_row", "thread")),
    "abreast": (*ONE_PASS[:2], ("threads_per_row", "bundle")),
    "abreast in vectors": (*ONE_PASS, ("threads_per_row", "bundle")),
    "split": (*ONE_PASS[:2], ("threads_per_row", "thread"), ("grid_split", "on")),
    "bundle": (
        *ONE_PASS, ("threads_per_row", "thread"), ("grid_split", "on"), ("columns_by", "bundle"),
        ("bundle_lanes", "8"),
    ),
    "bundle, last": (
        *ONE_PASS, ("threads_per_row", "thread"), ("grid_split", "on"), ("columns_by", "bundle"),
        ("split_join", "last"),
    ),
}  # fmt: skip


def covariance(t: dict[str, Tensor]) -> Tensor:
    x, y = t["x"], t["y"]
    return ((x - x.mean(1, keepdim=True)) * (y - y.mean(1, keepdim=True))).sum(1)


def correlation(t: dict[str, Tensor]) -> Tensor:
    x, y = (t[name] - t[name].mean(1, keepdim=True) for name in ("x", "y"))
    return (x * y).sum(1) / (x.square().sum(1).sqrt() * y.square().sum(1).sqrt() + 1e-8)


def similarity(t: dict[str, Tensor]) -> Tensor:
    x, y = (t[name] - t[name].mean(1, keepdim=True) for name in ("x", "y"))
    return F.cosine_similarity(x, y, dim=-1)


def scores(t: dict[str, Tensor]) -> Tensor:
    x, y = t["x"], t["y"]
    x = (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5)
    y = (y - y.mean(1, keepdim=True)) / (y.var(1, keepdim=True) + 1e-5).sqrt()
    return (x * y).mean(1)


def line(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    x, y = t["x"], t["y"]
    dx, dy = x - x.mean(1, keepdim=True), y - y.mean(1, keepdim=True)
    slope = (dx * dy).sum(1) / (dy * dy).sum(1)
    return slope, slope * y.mean(1) + 3


def down(t: dict[str, Tensor]) -> Tensor:
    x, y = t["x"] - t["x"].mean(0), t["y"] - t["y"].mean(0)
    return (x * y).sum(0) / (x.square().sum(0).sqrt() * y.square().sum(0).sqrt() + 1e-8)


MEMBERS_BYTES = 4 * len(MEMBERS["co_moments"])
CALLS: dict[str, Call] = {
    "covariance": covariance,
    "correlation": correlation,
    "similarity": similarity,
    "scores": scores,
    "line": line,
}


def pair(rows: int, columns: int, mean: float = 3.0) -> dict[str, Tensor]:
    torch.manual_seed(rows + columns)
    x = torch.randn(rows, columns)
    return {"x": x + mean, "y": 0.6 * x + torch.randn(rows, columns) - mean / 2}


def kinds(call: Call, single_pass: bool) -> list[list[str]]:
    program = program_of(problem_of(call, pair(6, 36)), True)
    kernel = next(step for step in program.steps if isinstance(step, Kernel))
    found = passes_of(RowSpace(program.pool, kernel), kernel, single_pass)
    return [[one.kind for one in step.accumulators] for step in found]


def source_of(call: Call, tensors: dict[str, Tensor], vector: Vector) -> str:
    problem = problem_of(call, tensors)
    return generate(problem, settled(problem, vector)).kernel.source


@pytest.mark.many(9)
@pytest.mark.parametrize("name", [*CALLS, "down"])
def test_two_passes_become_one_and_the_search_has_both(name: str) -> None:
    call = {**CALLS, "down": down}[name]
    assert len(kinds(call, False)) == 2
    assert kinds(call, True) == [["co_moments"]]
    (row,) = traits_of(problem_of(call, pair(6, 36))).rows
    assert (row.passes, row.joint_passes) == (2, 1)


@pytest.mark.many(13)
@pytest.mark.parametrize(("layout", "name"), crossed(ROWS, CALLS))
def test_rows_of_any_size(name: str, layout: str) -> None:
    for rows, columns in ((1, 2), (5, 37), (3, 132), (2, 2053 if layout in ("split", "last") else 64)):
        tensors = pair(rows, columns)
        source = source_of(CALLS[name], tensors, ROWS[layout])
        assert "CoMoments" in source
        check(CALLS[name], source, tensors, "checked")


@pytest.mark.many(9)
@pytest.mark.parametrize("layout", COLUMNS)
def test_columns_of_any_size(layout: str) -> None:
    for rows, columns in ((2, 1), (37, 5), (132, 68), (2053, 8)):
        tensors = pair(rows, columns)
        source = source_of(down, tensors, COLUMNS[layout])
        assert "CoMoments" in source
        check(down, source, tensors, "checked")


@pytest.mark.many(13)
@pytest.mark.parametrize("layout", ROWS)
def test_far_from_zero_it_is_as_exact_as_two_passes(layout: str) -> None:
    """Sums of products as they are would have lost everything: 1e8 beside 1."""
    tensors = pair(6, 4100, mean=1e4)
    (expected,) = reference(correlation, tensors)
    found = {}
    for single_pass in ("on", "off"):
        vector = (*ROWS[layout][1:], ("single_pass", single_pass))
        (out,) = run(source_of(correlation, tensors, vector), tensors).outputs
        found[single_pass] = (out.double() - expected).abs().max().item()
    assert found["on"] <= max(4 * found["off"], 1e-6), found


def test_far_from_zero_down_columns() -> None:
    tensors = pair(4100, 8, mean=1e4)
    (expected,) = reference(down, tensors)
    for layout, vector in COLUMNS.items():
        (out,) = run(source_of(down, tensors, vector), tensors).outputs
        assert (out.double() - expected).abs().max().item() <= 3e-6, layout


def test_a_sum_that_is_wanted_itself_keeps_its_infinity() -> None:
    """The means of what goes along are NaN in an infinite row, as the covariance is; the sum is not."""

    def with_sum(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        return t["x"].sum(1), covariance(t)

    assert "co_moments" not in itertools.chain(*kinds(with_sum, True))
    tensors = pair(3, 90)
    tensors["x"][1, 17] = float("inf")
    check(with_sum, source_of(with_sum, tensors, ONE_PASS), tensors)


def test_of_several_partners_one_goes_along() -> None:
    def several(t: dict[str, Tensor]) -> Tensor:
        x, y = (t[name] - t[name].mean(1, keepdim=True) for name in ("x", "y"))
        z = t["x"] * t["y"]
        z = z - z.mean(1, keepdim=True)
        return (x * y).sum(1) + (x * z).sum(1) * (z * z).sum(1)

    assert sorted(kinds(several, True)[0]) == ["co_moments", "welford"]
    tensors = pair(4, 130)
    check(several, source_of(several, tensors, ONE_PASS), tensors)


@pytest.mark.parametrize("threads", ["256", "512", "1024"])
def test_what_a_bundle_joins_fits_in_shared_memory(threads: str) -> None:
    """48 KB: 512 threads with four results each of 32 bytes would have 64."""
    tensors = {name: torch.empty(4096, 512) for name in ("x", "y")}
    vector = tuple({**dict(COLUMNS["bundle"]), "block_size": threads}.items())
    launch, *_ = plan_of(source_of(down, tensors, vector), tensors).launches
    width = int(launch.kernel.partition("<")[2].rstrip(">") or 1)
    assert int(threads) * width * MEMBERS_BYTES <= 40 * 1024


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 5),
    columns=st.integers(2, 70),
    layout=st.sampled_from(sorted(ROWS)),
    name=st.sampled_from(sorted(CALLS)),
    mean=st.sampled_from([0.0, -20.0, 500.0]),
)
def test_drawn_shapes(rows: int, columns: int, layout: str, name: str, mean: float) -> None:
    tensors = pair(rows, columns + 2, mean)
    (out, *_) = run(source_of(CALLS[name], tensors, ROWS[layout]), tensors).outputs
    expected, *_ = reference(CALLS[name], tensors)
    scale = expected.abs().clamp(min=1.0)
    assert ((out.double() - expected).abs() <= 1e-4 * scale).all()
