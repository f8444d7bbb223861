"""Rows whose length is no multiple of the width: vectors between the borders, single columns at both ends."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import _compare, plan_of, reference, run
from workbench.compile import compile_kernel
from workbench.emulator.build import build
from workbench.emulator.execute import Execution, execute
from workbench.emulator.values import Options
from workbench.model import H100, CompileReport, TensorMeta, Vector
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse
from workbench.playbook.estimates.estimate import estimate, predicted_factor
from workbench.playbook.generate import generate

FOUR: Vector = (("block_size", "64"), ("vector_width", "4"))
EIGHT: Vector = (("block_size", "64"), ("vector_width", "8"))
Tensors = dict[str, torch.Tensor]


def softmax(t: Tensors) -> torch.Tensor:
    return torch.softmax(t["x"].float(), 1).to(t["x"].dtype)


def normalised(t: Tensors) -> torch.Tensor:
    both = t["x"] + t["y"][:, : t["x"].shape[1]]
    return F.layer_norm(both, (both.shape[1],), t["w"], t["b"])


def right_in_both_orders(call: Call, source: str, tensors: Tensors) -> Execution:
    """Run with races looked for, then in the other order; the first run is returned."""
    plan = plan_of(source, tensors)
    built = build(source, plan.instances, "checked")
    turns = [execute(plan, built, tensors, Options(case=o, races=o == "races", reverse=o != "races"))
             for o in ("races", "reverse")]  # fmt: skip
    for done in turns:
        assert not done.report.hazards, done.report.hazards[0].message
        for got, want in zip(done.outputs, reference(call, tensors), strict=True):
            _compare(got, want)
    return turns[0]


def requests_by_width(done: Execution, kind: str) -> dict[int, int]:
    """Requests of global memory by the bytes that one lane moves."""
    assert done.report.counts is not None
    found: dict[int, int] = {}
    for site in done.report.counts.sites:
        if (site.space, site.kind) == ("global", kind):
            found[site.width_bytes] = found.get(site.width_bytes, 0) + site.requests
    return found


@pytest.mark.many(11)
@pytest.mark.parametrize("cache", ["registers", "shared", "reread"])
@pytest.mark.parametrize(
    ("dtype", "vector", "shape"),
    [(torch.float32, FOUR, (5, 519)), (torch.float16, EIGHT, (9, 1031))],
)
def test_rows_that_begin_at_every_place_of_a_vector(
    cache: str, dtype: torch.dtype, vector: Vector, shape: tuple[int, int]
) -> None:
    tensors = {"x": torch.randn(shape).to(dtype)}
    source = generate(problem_of(softmax, tensors), (*vector, ("row_cache", cache))).kernel.source
    done = right_in_both_orders(softmax, source, tensors)
    for kind in ("load", "store"):
        requests = requests_by_width(done, kind)
        alone = tensors["x"].element_size()
        assert requests[16] >= shape[0] and requests[alone] <= 3 * shape[0], (
            "one single request a row and pass"
        )


@pytest.mark.parametrize("team", ["warp", "fit"])
def test_inputs_that_begin_elsewhere_are_read_one_by_one(team: str) -> None:
    tensors = {"x": torch.randn(6, 77), "y": torch.randn(6, 80), "w": torch.randn(77), "b": torch.randn(77)}
    vector = (*FOUR, ("threads_per_row", team), ("row_cache", "registers"), ("chains", "many"))
    source = generate(problem_of(normalised, tensors), vector).kernel.source
    assert "load<VEC>(x_row + col)" in source and "y_row[col + k]" in source
    right_in_both_orders(normalised, source, tensors)


@pytest.mark.many(5)
@pytest.mark.parametrize("columns", [1, 2, 3, 5, 8])
def test_rows_shorter_than_what_they_are_peeled_for(columns: int) -> None:
    source = generate(problem_of(softmax, {"x": torch.empty(5, 57)}), FOUR).kernel.source
    assert "has_edge" in source
    right_in_both_orders(softmax, source, {"x": torch.randn(7, columns)})


def test_pieces_of_a_row() -> None:
    call: Call = lambda t: (t["x"].argmax(1), t["x"].amax(1))  # noqa: E731
    tensors = {"x": torch.randn(3, 8101)}
    vector = (*FOUR, ("grid_split", "on"), ("split_join", "last"))
    source = generate(problem_of(call, tensors), vector).kernel.source
    done = right_in_both_orders(call, source, tensors)
    requests = requests_by_width(done, "load")
    assert requests[16] * 4 * 32 > 3 * 8000


def test_pieces_that_a_cluster_keeps() -> None:
    tensors = {"x": torch.randn(3, 8101)}
    vector = (*FOUR, ("cluster", "4"), ("row_cache", "registers"))
    problem = problem_of(softmax, tensors, cases=({"s0": 3, "s1": 401},))
    source = generate(problem, vector).kernel.source
    assert "has_edge" in source[source.index("BLOCKS") :]
    assert [name for name, _ in plan_of(source, tensors).instances] == ["op_cluster<4>"]
    right_in_both_orders(softmax, source, tensors)


def test_a_pointer_between_borders_falls_back_to_single_columns() -> None:
    source = generate(problem_of(softmax, {"x": torch.empty(5, 57)}), FOUR).kernel.source
    meta = TensorMeta(dtype="f32", shape=(5, 57), strides=(57, 1), alignment=4)
    plan = interpret(parse(source), {"x": meta}, H100)
    assert [name for name, _ in plan.instances] == ["op<1>"]
    tensors = {"x": torch.randn(5, 57)}
    done = execute(plan, build(source, plan.instances, "checked"), tensors, Options(case="alone"))
    assert set(requests_by_width(done, "load")) == {4}
    _compare(done.outputs[0], reference(softmax, tensors)[0])


def test_rows_of_whole_vectors_are_not_peeled() -> None:
    whole = {"x": torch.empty(64, 4096)}
    assert "has_edge" not in generate(problem_of(softmax, whole), FOUR).kernel.source


def test_peeling_costs_rows_of_whole_vectors_nothing() -> None:
    """Where both are declared the ends are compiled away."""
    tensors: Tensors = {"x": torch.empty(64, 1024), "y": torch.empty(64, 1024), "w": torch.empty(1024)}
    tensors["b"] = tensors["w"]
    vector = (*FOUR, ("row_cache", "registers"))
    registers = []
    for other in (2048, 1025):
        problem = problem_of(normalised, tensors, cases=({"s0": 8, "s1": other},))
        source = generate(problem, vector).kernel.source
        report = compile_kernel(source, plan_of(source, tensors).instances)
        assert isinstance(report, CompileReport)
        registers.append([kernel.registers for kernel in report.kernels])
    assert "has_edge" in source and registers[0] == registers[1]


def test_predicted() -> None:
    problem = problem_of(softmax, {"x": torch.empty(2048, 50257)}, varying=False)
    single = (("block_size", "256"), ("row_cache", "shared"), ("vector_width", "1"))
    assert predicted_factor(problem, single, (*single[:2], ("vector_width", "4")), H100) > 1.05
    assert estimate(problem, single, H100, {}).us > 0


@pytest.mark.many(5)
@pytest.mark.parametrize("chains", ["one", "many"])
@pytest.mark.parametrize("columns", [128, 131])
def test_the_place_of_an_extreme_is_the_first_one(columns: int, chains: str) -> None:
    """Equal values, NaN, rows of nothing but the lowest; with a column beside the vectors and without."""
    x = torch.randint(3, (9, columns)).float()
    x[1], x[2], x[3] = -math.inf, math.inf, 7.0
    x[4, 5], x[4, columns - 1], x[5, columns - 1] = math.nan, math.nan, 9.0
    call: Call = lambda t: (t["x"].argmax(1), t["x"].argmin(1))  # noqa: E731
    for team in ("warp", "block"):
        vector = (("chains", chains), ("block_size", "64"), ("threads_per_row", team), ("vector_width", "4"))
        source = generate(problem_of(call, {"x": x}), vector).kernel.source
        (most, least) = run(source, {"x": x}).outputs
        assert torch.equal(most, x.argmax(1)) and torch.equal(least, x.argmin(1))


@pytest.mark.many(2)
@pytest.mark.parametrize("team", ["block", "warp"])
def test_columns_beside_the_vectors_are_waited_for_behind_the_loads_of_a_row_that_is_kept(team: str) -> None:
    """Their lanes would begin a trip to memory behind the others; across a loop they would cost registers."""
    tensors = {"x": torch.randn(5, 1031)}
    call: Call = lambda t: t["x"].softmax(1)  # noqa: E731

    def places(cache: str, *marks: str) -> list[int]:
        vector = (*FOUR, ("row_cache", cache), ("threads_per_row", team))
        source = generate(problem_of(call, tensors), vector).kernel.source
        right_in_both_orders(call, source, tensors)
        kernel = source[source.index("__global__") :]
        return [kernel.index(mark) for mark in marks]

    asked, walk = places("registers", "x_row[edge]", "load<VEC>(x_row")
    assert asked < walk
    edge, asked, walk = places("reread", "if (has_edge)", "x_row[col]", "load<VEC>(x_row")
    assert edge < asked < walk


@pytest.mark.many(6)
@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
@pytest.mark.parametrize("place", [0, 1, 1030])
def test_special_values_beside_the_vectors(value: float, place: int) -> None:
    x = torch.randn(5, 1031)
    x[3, place] = value
    call: Call = lambda t: (t["x"].amax(1), t["x"].sum(1), t["x"].argmax(1))  # noqa: E731
    for cache in ("registers", "reread"):
        source = generate(problem_of(call, {"x": x}), (*FOUR, ("row_cache", cache))).kernel.source
        right_in_both_orders(call, source, {"x": x})
