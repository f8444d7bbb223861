"""Results that are pairs of rows, in tiles: right at odd sizes, in every type, and without bank conflicts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check
from workbench.model import Vector
from workbench.playbook.generate import generate

half, brain = torch.float16, torch.bfloat16


def similarity(t: dict[str, Tensor]) -> Tensor:
    normal = torch.nn.functional.normalize(t["x"], dim=-1)
    return (normal[:, None] * normal[None]).sum(-1)


def weighted(t: dict[str, Tensor]) -> Tensor:
    """A weight a column, a scale a row of either side, and a table of the results behind it."""
    apart = (t["a"][:, None] * t["s"][:, None, None] - t["b"][None]).abs() * t["w"]
    return apart.mean(-1) * t["s"][:, None] + t["m"]


def both(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    apart = t["a"][:, None] - t["b"][None]
    return apart.amax(-1), apart.amin(-1)


CALLS: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "similarity": (similarity, of(x=(37, 20))()),
    "distances": (lambda t: (t["a"][:, None] - t["b"][None]).abs().sum(-1), of(a=(35, 9), b=(70, 9))()),
    "batched": (
        lambda t: torch.exp(-((t["a"][:, :, None] - t["b"][:, None]) ** 2).sum(-1)),
        of(a=(3, 17, 33), b=(3, 33, 33))(),
    ),
    "max plus": (lambda t: (t["a"][:, :, None] + t["b"][None]).amax(1), of(a=(33, 40), b=(40, 50))()),
    "from columns": (
        lambda t: (t["a"][:, :, None] * t["b"][:, None]).sum(0),
        of(a=(21, 33), b=(21, 47))(),
    ),
    "weighted": (weighted, of(a=(34, 10), b=(18, 10), w=(10,), s=(34,), m=(34, 18))()),
    "two results": (both, of(a=(20, 12), b=(40, 12))()),
    "half": (
        lambda t: (t["a"][:, None] - t["b"][None]).abs().sum(-1),
        of(a=((35, 18), half), b=((20, 18), half))(),
    ),
    "brain": (
        lambda t: torch.maximum(t["a"][:, None], t["b"][None]).mean(-1),
        of(a=((35, 16), brain), b=((20, 16), brain))(),
    ),
    "truth": (
        lambda t: ((t["a"][:, None] > t["b"][None]).any(-1), (t["a"][:, None] > t["b"][None] - 3).all(-1)),
        of(a=(35, 8), b=(20, 8))(),
    ),
    "integers": (
        lambda t: (t["a"][:, None] == t["b"][None]).sum(-1),
        of(a=torch.randint(0, 3, (35, 11)), b=torch.randint(0, 3, (20, 11)))(),
    ),
    "double": (
        lambda t: (t["a"][:, None] * t["b"][None]).sum(-1),
        of(a=((20, 13), torch.float64), b=((21, 13), torch.float64))(),
    ),
    "looked up": (
        lambda t: (t["a"][t["i"]][:, None] * t["b"][None]).sum(-1),
        of(a=(9, 16), b=(20, 16), i=torch.randint(0, 9, (35,)))(),
    ),
    "sliced": (
        lambda t: (t["a"][1:, None, ::2] * t["b"][None, :, 3:].flip(-1)).sum(-1),
        of(a=(35, 20), b=(20, 13))(),
    ),
}
VECTORS: tuple[Vector, ...] = (
    (("block_size", "64"), ("pair_tile", "32")),
    (("block_size", "256"), ("pair_tile", "64")),
)


@pytest.mark.parametrize("name", CALLS)
def test_right_at_odd_sizes_without_bank_conflicts(name: str) -> None:
    call, tensors = CALLS[name]
    problem = problem_of(call, tensors, "paired")
    for vector in VECTORS:
        source = generate(problem, vector).kernel.source
        assert "[TILE][PIECE + " in source
        execution = check(call, source, tensors, "checked")
        for site in execution.report.counts.sites:
            if site.kind == "load" or site.space == "shared":
                assert site.transactions <= 2 * site.ideal_transactions + 2 * site.requests, site
