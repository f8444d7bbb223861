"""Sums down columns that neighbouring rows weigh alike: a lane makes a weight, shuffles hand it round."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check, plan_of
from workbench.model import H100, Vector
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.estimates.weights_estimate import lanes_that_share
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import traits_of

half, bfloat = torch.float16, torch.bfloat16
mask = torch.arange(3 * 70).reshape(3, 70) % 7 > 0


def pooled(t: dict[str, Tensor]) -> Tensor:
    weights = t["s"].masked_fill(~t["m"], float("-inf")).softmax(1)
    return (weights[..., None] * t["x"]).sum(1)


def by_head(t: dict[str, Tensor]) -> Tensor:
    return (t["s"].softmax(1)[..., None] * t["x"]).sum(1)


def of_lengths(t: dict[str, Tensor]) -> Tensor:
    there = torch.arange(t["x"].shape[1])[None] < t["n"][:, None]
    return (t["x"] * there[..., None]).sum(1) / t["n"][:, None]


def largest_there(t: dict[str, Tensor]) -> Tensor:
    return torch.where(t["m"][..., None], t["x"], -1e4).amax(1)


def weighed(t: dict[str, Tensor]) -> Tensor:
    """The weight is what lies in memory, and each column has a scale of its own beside it."""
    return (t["w"][..., None] * t["x"] * t["scale"][:, None]).sum(1) + t["b"]


CALLS: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "pooled": (pooled, of(s=(3, 70), m=mask, x=(3, 70, 64))()),
    "few lanes share": (pooled, of(s=(3, 70), m=mask, x=(3, 70, 300))()),
    "by head": (by_head, of(s=(2, 37, 3), x=(2, 37, 3, 40))()),
    "odd": (by_head, of(s=(2, 37, 3), x=(2, 37, 3, 37))()),
    "of lengths": (of_lengths, of(n=torch.tensor([3, 9, 20]), x=((3, 37, 128), bfloat))()),
    "largest there": (largest_there, of(m=mask, x=(3, 70, 48))()),
    "weighed": (weighed, of(w=((2, 45), bfloat), x=((2, 45, 72), bfloat), scale=(45,), b=(72,))()),
    "weighed in halves": (weighed, of(w=((2, 45), half), x=((2, 45, 64), half), scale=(45,), b=(64,))()),
}
SHARED: Vector = (("block_size", "128"), ("shared_weights", "on"))
VECTORS: tuple[Vector, ...] = (
    (*SHARED, ("vector_width", "4")),
    (*SHARED, ("vector_width", "2"), ("loads_in_flight", "2"), ("stream_hints", "on")),
    (*SHARED, ("vector_width", "1")),
)


@pytest.mark.many(11)
@pytest.mark.parametrize(("name", "vector"), crossed(CALLS, VECTORS))
def test_right_whoever_shares(name: str, vector: Vector) -> None:
    call, tensors = CALLS[name]
    problem = problem_of(call, tensors)
    assert dict(settled(problem, vector))["shared_weights"] == "on"
    source = generate(problem, vector).kernel.source
    assert "__shfl_sync" in source
    check(call, source, tensors, "checked")


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(
    batch=st.integers(1, 3),
    length=st.integers(1, 150),
    width=st.integers(1, 9).map(lambda n: 32 + 4 * n),
    threads=st.sampled_from(["64", "256"]),
    items=st.sampled_from(["1", "2"]),
)
def test_right_at_any_size(batch: int, length: int, width: int, threads: str, items: str) -> None:
    """Kernels are for one shape and right at others: also where lanes and warps have nothing to do."""
    problem = problem_of(by_head, of(s=(2, 37, 3), x=(2, 37, 3, 40))())
    vector = (
        ("block_size", threads),
        ("loads_in_flight", items),
        ("shared_weights", "on"),
        ("vector_width", "4"),
    )
    tensors = of(s=(batch, length, 2), x=(batch, length, 2, width))()
    check(by_head, generate(problem, vector).kernel.source, tensors, "checked")


@pytest.mark.many(6)
@pytest.mark.parametrize("width", ["4", "1"])
@pytest.mark.parametrize("call", [by_head, of_lengths, largest_there])
def test_few_columns_are_shared_by_blocks(call: Call, width: str) -> None:
    """The plan cuts the tokens into pieces where results are few, and not where they are many."""
    given = {
        by_head: (of(s=(2, 300, 2), x=(2, 300, 2, 64)), of(s=(3, 130, 2), x=(3, 130, 2, 44))),
        of_lengths: (of(n=torch.tensor([3, 280]), x=(2, 300, 64)), of(n=torch.tensor([70]), x=(1, 70, 72))),
        largest_there: (
            of(m=mask[:2].repeat(1, 4), x=(2, 280, 64)),
            of(m=mask[:, :66].contiguous(), x=(3, 66, 40)),
        ),
    }[call]
    vector = (("block_size", "64"), ("grid_split", "on"), ("shared_weights", "on"), ("vector_width", width))
    source = generate(problem_of(call, given[0]()), vector).kernel.source
    assert "arrives_last(" in source
    for tensors in given:
        check(call, source, tensors(), "checked")


def test_many_columns_have_a_block_each() -> None:
    tensors = of(s=(2, 300, 2), x=(2, 300, 2, 64))()
    vector = (("block_size", "64"), ("grid_split", "on"), ("shared_weights", "on"), ("vector_width", "4"))
    source = generate(problem_of(by_head, tensors), vector).kernel.source
    for batch, launched in ((2, "op_pieces"), (4096, "op")):
        tensors = {"s": torch.empty(batch, 90, 2), "x": torch.empty(batch, 90, 2, 64)}
        names = [step.kernel for step in plan_of(source, tensors).steps if step.kind == "launch"]
        assert names[-1].partition("<")[0] == launched


@pytest.mark.slow
def test_few_results_begin_with_pieces_or_narrow_vectors() -> None:
    tensors = {"s": torch.empty(2, 8192, 1, device="meta"), "x": torch.empty(2, 8192, 1, 1024, device="meta")}
    problem = problem_of(by_head, tensors)
    cards = [dict(card.vector) for card in seed_vectors(problem, H100, 6)]
    shared = [card for card in cards if card.get("shared_weights") == "on"]
    assert shared and any(card.get("grid_split") == "on" for card in shared)
    vector = (*SHARED, ("vector_width", "4"))
    sizes = problem.cases[0].size_map
    whole, pieces = (
        estimate(problem, settled(problem, (*vector, ("grid_split", split))), H100, sizes).us
        for split in ("off", "on")
    )
    assert pieces < 0.5 * whole


def test_a_weight_is_made_once_for_all_neighbours() -> None:
    """128 neighbours are a warp's in vectors of four: a vector of a token, and the 32nd part of a score."""
    tensors = of(s=(2, 64, 1), x=(2, 64, 1, 128))()
    problem = problem_of(by_head, tensors)
    requests = {}
    for shared in ("on", "off"):
        vector = (("shared_weights", shared), ("vector_width", "4"))
        counts = check(by_head, generate(problem, vector).kernel.source, tensors, "checked").report.counts
        assert counts is not None
        requests[shared] = sum(
            site.requests for site in counts.sites if site.kind == "load" and site.space == "global"
        )
    assert requests["on"] < 0.3 * requests["off"]


@pytest.mark.parametrize(
    ("call", "tensors"),
    [
        (lambda t: t["x"].sum(1), of(x=(3, 70, 64))()),  # nothing to share
        (lambda t: (t["x"] * t["w"][:, None]).sum(1), of(x=(3, 70, 64), w=(70,))()),  # all rows share it
        (lambda t: (t["x"] * t["w"][..., None]).sum(2), of(x=(3, 70, 64), w=(3, 70))()),  # rows are apart
        (lambda t: (t["x"] * t["w"][..., None]).sum(1), of(x=(3, 70, 8), w=(3, 70))()),  # eight neighbours
        (lambda t: (t["x"] * t["w"][..., None]).argmax(1), of(x=(3, 70, 64), w=(3, 70))()),
    ],
)
def test_not_offered_where_nothing_is_shared(call: Call, tensors: dict[str, Tensor]) -> None:
    problem = problem_of(call, tensors)
    assert "shared_weights" not in dict(settled(problem, (*SHARED, ("vector_width", "4"))))


def test_lanes_that_share_lie_in_one_row_of_neighbours() -> None:
    """The largest power of two, up to a warp, that the neighbours' vectors divide into."""
    assert [lanes_that_share(*of_width) for of_width in ((1024, 4), (64, 4), (300, 4), (37, 1))] == [
        32,
        16,
        1,
        1,
    ]


@pytest.mark.slow
def test_a_search_begins_with_shared_weights() -> None:
    tensors = {
        "s": torch.empty(64, 512),
        "m": torch.empty(64, 512, dtype=torch.bool),
        "x": torch.empty(64, 512, 1024),
    }
    problem = problem_of(pooled, tensors)
    best = max(seed_vectors(problem, H100, 6), key=lambda card: card.predicted_factor)
    assert dict(best.vector)["shared_weights"] == "on"
    assert best.technique == "shared_weights"
    sizes = problem.cases[0].size_map
    modelled = estimate(problem, best.vector, H100, sizes)
    bytes_us = 1e6 * 64 * 512 * 1024 * 4 / H100.dram_bytes_per_s
    assert bytes_us < modelled.us < 1.3 * bytes_us
    assert modelled.us < 0.6 * estimate(problem, settled(problem, ()), H100, sizes).us


def test_other_launches_leave_it_alone() -> None:
    """Kernels that share a launch have blocks of another kind."""
    call, tensors = CALLS["pooled"]
    problem = problem_of(call, tensors)
    assert traits_of(problem).weighed
    vector = dict(settled(problem, (*SHARED, ("launches", "together"), ("vector_width", "4"))))
    assert "launches" not in vector and vector["shared_weights"] == "on"
