"""What ``topk(..., sorted=False)`` finds is right in any order, in every place where outputs are compared."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from first_case import prepared
from torch import Tensor

from workbench.foreign import verdicts
from workbench.referee import gpu_expectation, trial

ROUTER = """
import torch

def router(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scores = logits.sigmoid()
    values, places = torch.topk(scores, 4, dim=-1, sorted=False)
    return places, values / values.sum(-1, keepdim=True)

inputs = [torch.randn(64, 32)]
"""
"""A reference whose order a kernel cannot know: the CPU's is that of a partial sort."""


def by_index(logits: Tensor) -> tuple[Tensor, Tensor]:
    """As a kernel finds them that goes through a row once."""
    scores = logits.sigmoid()
    places = scores.topk(4).indices.sort(-1).values
    values = scores.gather(1, places)
    return places, values / values.sum(-1, keepdim=True)


@pytest.mark.parametrize("in_slices", [False, True])
def test_on_a_gpu(in_slices: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if in_slices:
        monkeypatch.setattr(gpu_expectation, "SLICE_ELEMENTS", 8 * 32)
        monkeypatch.setattr(gpu_expectation, "DRAWN_ON_CPU", 100)
    expectations, known = prepared(ROUTER)
    assert bool(known.bounds) is not in_slices
    places, weights = by_index(known.tensors["logits"])
    assert all(one.max_ratio <= 1 for one in expectations.differences(known, (places, weights)))
    mixed = expectations.differences(known, (places, weights.flip(-1)))
    assert mixed[0].max_ratio <= 1 < mixed[1].max_ratio
    other = (places + 1) % 32
    assert expectations.differences(known, (other, weights))[0].max_ratio > 1


def test_in_the_emulator_and_for_foreign_kernels() -> None:
    _, known = prepared(ROUTER)
    places, weights = by_index(known.tensors["logits"])
    for outputs, right in (((places, weights), True), ((places, weights.flip(-1)), False)):
        ours = trial._differences(SimpleNamespace(outputs=outputs), known.bounds)  # type: ignore[arg-type]
        theirs = verdicts.differences(outputs, SimpleNamespace(bounds=known.bounds))  # type: ignore[arg-type]
        assert ours == theirs
        assert all(one.max_ratio <= 1 for one in ours) is right
