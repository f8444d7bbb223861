"""``topk`` of a few elements: a maximum after the other, each with its place."""

from __future__ import annotations

import pytest
import torch

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import plan_of
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import H100, Vector
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled

Tensors = dict[str, torch.Tensor]
LEAST = torch.finfo(torch.float32).min


def routed(t: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    weights, places = torch.topk(t["x"].float().softmax(-1), 2)
    return weights / weights.sum(-1, keepdim=True), places


def awkward(rows: int, columns: int) -> torch.Tensor:
    """Rows of equal elements, infinities, both zeros, NaN of both signs: more of them than are sought."""
    x = torch.randn(rows, columns).round(decimals=1)
    x[0] = -torch.inf
    x[1, 1:4] = torch.tensor([torch.nan, torch.inf, -torch.nan])
    x[2] = 0.0
    x[2, ::2] = -0.0
    x[3, 1:] = LEAST
    return x


CALLS: dict[str, tuple[Call, Tensors]] = {
    "along rows": (lambda t: torch.topk(t["x"], 3), {"x": awkward(9, 37)}),
    "all of a row": (lambda t: torch.topk(t["x"], 4), {"x": awkward(5, 4)}),
    "halves": (lambda t: torch.topk(t["x"], 2), {"x": awkward(6, 50).half()}),
    "along columns": (lambda t: torch.topk(t["x"], 3, dim=1), {"x": torch.randn(3, 17, 21)}),
    "values alone": (lambda t: torch.topk(t["x"], 2)[0].sum(-1), {"x": torch.randn(6, 70)}),
    "smallest": (lambda t: torch.topk(t["x"], 3, largest=False), {"x": awkward(9, 37)}),
    "all, the smallest first": (lambda t: torch.topk(t["x"], 4, 1, False), {"x": awkward(5, 4)}),
    "of pieces": (lambda t: torch.topk(t["x"], 3), {"x": awkward(6, 4100)}),
    "smallest of pieces, along columns": (
        lambda t: torch.topk(t["x"], 4, dim=1, largest=False),
        {"x": awkward(8, 4097).view(2, 4, 4097).transpose(1, 2)},
    ),
    "one": (lambda t: torch.topk(t["x"], 1, sorted=False), {"x": awkward(7, 33)}),
}
VECTORS: list[Vector] = [
    (("row_cache", "registers"), ("threads_per_row", "warp"), ("vector_width", "4")),
    (("row_cache", "reread"), ("threads_per_row", "block")),
    (("block_size", "64"), ("row_cache", "registers"), ("threads_per_row", "bundle")),
]


@pytest.mark.many(10)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("vector", VECTORS, ids=["warp", "block", "bundle"])
def test_right_places_of_right_values(name: str, vector: Vector) -> None:
    call, tensors = CALLS[name]
    source = generate(problem_of(call, tensors), vector).kernel.source
    plan = plan_of(source, tensors)
    assert "call(" not in source
    done = execute(plan, build(source, plan.instances, "checked"), tensors, Options(case="races", races=True))
    assert not done.report.hazards, done.report.hazards[0].message
    wanted = call(tensors)
    values, *places = done.outputs
    first = wanted if isinstance(wanted, torch.Tensor) else wanted[0]
    torch.testing.assert_close(values, first, equal_nan=True, rtol=1e-6, atol=1e-6)
    for found in places:
        axis = 1
        assert torch.equal(tensors["x"].gather(axis, found).nan_to_num(7e4), values.nan_to_num(7e4))
        ordered = found.sort(axis).values
        assert bool((ordered.diff(dim=axis) > 0).all()), "a place twice"


def test_the_last_element_of_a_long_row_is_found_once() -> None:
    """Behind the end of a row its last piece goes on with the last element."""
    x = torch.arange(4500.0).repeat(2, 1)
    x[1] = 7.0
    source = generate(problem_of(lambda t: torch.topk(t["x"], 5), {"x": x}), VECTORS[0]).kernel.source
    plan = plan_of(source, {"x": x})
    done = execute(plan, build(source, plan.instances, "checked"), {"x": x}, Options(case="long"))
    assert done.outputs[1].tolist() == [[4499, 4498, 4497, 4496, 4495], [0, 1, 2, 3, 4]]


def test_many_blocks_share_a_long_row() -> None:
    """Ten of 50257 by one block of 1024 threads take an H100 138 us: 64 rows leave half of it idle."""
    x = torch.empty(64, 50257, device="meta")
    problem = problem_of(lambda t: torch.topk(t["x"], 10), {"x": x}, varying=False)
    best = max(seed_vectors(problem, H100, 6), key=lambda seed: seed.predicted_factor)
    assert dict(best.vector)["few_largest"] == "on"
    assert generate(problem, best.vector).note == "2 kernels"


def test_what_waits_is_not_computed_again() -> None:
    """Of what a pass keeps, the following ones have no line of how it was made."""
    call: Call = lambda t: torch.topk(t["x"] / t["scale"][:, None], 3)  # noqa: E731
    tensors = {"x": torch.randn(4, 300), "scale": torch.rand(4) + 1}
    vector: Vector = (("row_cache", "registers"), ("threads_per_row", "warp"))
    source = generate(problem_of(call, tensors, varying=False), vector).kernel.source
    assert source.count("const float ratio =") == 1


def test_a_router_leaves_nothing_to_the_library() -> None:
    x = torch.empty(16384, 64, device="meta", dtype=torch.bfloat16)
    problem = problem_of(routed, {"x": x}, varying=False)
    best = max(seed_vectors(problem, H100, 4), key=lambda seed: seed.predicted_factor)
    assert dict(best.vector)["few_largest"] == "on"
    assert generate(problem, best.vector).note in ("1 kernel", "2 kernels")
    tensors = {"x": torch.randn(40, 64).bfloat16()}
    source = generate(problem_of(routed, tensors), best.vector).kernel.source
    plan = plan_of(source, tensors)
    done = execute(plan, build(source, plan.instances, "checked"), tensors, Options(case="router"))
    weights, places = routed(tensors)
    torch.testing.assert_close(done.outputs[0], weights, rtol=1e-5, atol=1e-6)
    picked = tensors["x"].gather(1, done.outputs[1])
    assert torch.equal(picked, tensors["x"].gather(1, places)), "another place of an equal element is as good"


@pytest.mark.parametrize(
    "call",
    [
        lambda t: torch.topk(t["x"], 17),
        lambda t: torch.topk(t["x"].to(torch.int32), 2),
        lambda t: torch.topk(t["x"].double(), 2),
    ],
)
def test_others_stay_with_the_library(call: Call) -> None:
    problem = problem_of(call, {"x": torch.randn(8, 40)})
    assert "few_largest" not in dict(settled(problem, ()))
    assert "aten.topk" in generate(problem, ()).note
