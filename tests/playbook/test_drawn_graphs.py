"""The check of drawn graphs can fail, and its receipt adds up; test_random_graphs.py runs many of them."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import pytest
import random_graphs
from graph_maker import COLUMNS_FROM, LAST_FROM, WINDOWS_FROM, sample

from workbench.playbook.device_functions import cuda_helpers
from workbench.playbook.generate import generate


def test_a_seed_gives_the_same_graph() -> None:
    one, other = sample(7), sample(7)
    assert one.problem == other.problem and one.vector == other.vector
    assert all(torch.equal(tensor, other.tensors[name]) for name, tensor in one.tensors.items())
    assert sample(8).problem != one.problem


@pytest.mark.slow
def test_seeds_of_windows_begin_with_them_and_walk() -> None:
    drawn = [sample(WINDOWS_FROM + seed) for seed in range(24)]
    assert all("pool" in one.kinds for one in drawn)
    sources = [generate(one.problem, one.vector).kernel.source for one in drawn]
    assert sum("walks down" in source for source in sources) >= 3


@pytest.mark.slow
def test_seeds_of_channels_last_images_walk_beside() -> None:
    drawn = [sample(LAST_FROM + seed) for seed in range(24)]
    assert all("pool" in one.kinds and one.tensors["x"].stride(1) == 1 for one in drawn)
    sources = [generate(one.problem, one.vector).kernel.source for one in drawn]
    assert sum("Planes lie side by side" in source for source in sources) >= 3


@pytest.mark.slow
def test_seeds_of_columns_share_them_among_blocks() -> None:
    parts = [random_graphs.written(sample(COLUMNS_FROM + seed)) for seed in range(48)]
    shared = [part for part in parts if any(launch.grid[1] > 1 for launch in part.plan.launches)]
    assert len(shared) >= 8
    assert sum("Welford" in part.source for part in shared) >= 3
    assert sum("const int first = blockIdx.x * BUNDLE" in part.source for part in shared) >= 2


@pytest.mark.slow
def test_moments_of_pieces_that_are_joined_wrongly_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    right = "const float share = __fdividef(b.count, count);"
    wrong = right.replace(";", " * 0.5f;")
    text = cuda_helpers._TEXTS["welford"]
    assert right in text
    texts = {**cuda_helpers._TEXTS, "welford": text.replace(right, wrong)}
    monkeypatch.setattr(cuda_helpers, "_TEXTS", texts)
    parts = [random_graphs.written(sample(COLUMNS_FROM + seed)) for seed in range(24)]
    joining = [part.sample for part in parts if "Welford::join" in part.source]
    smallest = min(joining, key=lambda one: one.tensors["x"].numel())
    (outcome,) = random_graphs.batch([smallest.seed])
    assert "numbers" in outcome.failure


def test_wrong_numbers_are_told() -> None:
    drawn = next(s for s in map(sample, range(100)) if s.problem.outputs[0].dtype == "f32")
    right = tuple(
        values.to(random_graphs.TORCH[spec.dtype])
        for spec, values in zip(drawn.problem.outputs, random_graphs.Reference(drawn).outputs(), strict=True)
    )
    assert random_graphs.difference(drawn, right)[0] == ""
    wrong = (right[0] + 0.01 * (1 + right[0].abs()), *right[1:])
    assert "float64 says" in random_graphs.difference(drawn, wrong)[0]
    assert "not f32" in random_graphs.difference(drawn, (right[0].double(), *right[1:]))[0]


def test_runs_are_added_up_and_a_run_that_went_on_replaces_itself() -> None:
    first = {"date": "d", "playbook": "p", "first_seed": 1, "graphs": 16, "failures": []}
    again = {**first, "graphs": 32, "failures": [{"seed": 20, "what": "numbers"}]}
    other = {**first, "first_seed": 500}
    receipt = random_graphs.merged(random_graphs.merged({}, first), other)
    assert (receipt["graphs"], receipt["failures"]) == (32, 0)
    receipt = random_graphs.merged(receipt, again)
    assert (receipt["graphs"], receipt["failures"], len(receipt["runs"])) == (48, 1, 2)
