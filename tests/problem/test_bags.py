"""Bags of embeddings that are all as long, written out: what torch makes of them, in every mode."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch.nn import functional as F

from workbench.problem.bags import embedding_bag
from workbench.problem.trace import trace

MODES = ("sum", "mean", "max")
PLACES = torch.tensor([[0, 3, 3, 1], [2, 2, 2, 2], [4, 2, 0, 2]])


@pytest.mark.parametrize(("mode", "padding"), list(product(MODES, (None, 2, -3))))
def test_rows_that_count_are_joined(mode: str, padding: int | None) -> None:
    table = torch.randn(5, 6)
    own = embedding_bag(PLACES, table, mode=mode, padding_idx=padding)
    torch.testing.assert_close(own, F.embedding_bag(PLACES, table, mode=mode, padding_idx=padding))


def test_rows_are_weighed() -> None:
    table, weights = torch.randn(5, 6), torch.randn(3, 4)
    named = {"mode": "sum", "per_sample_weights": weights, "padding_idx": 2}
    own = embedding_bag(PLACES, table, **named)  # type: ignore[arg-type]
    torch.testing.assert_close(own, F.embedding_bag(PLACES, table, **named))  # type: ignore[arg-type]


def test_bags_of_several_lengths_are_left_to_torch() -> None:
    table, begins = torch.randn(5, 6), torch.tensor([0, 5, 5])
    own = embedding_bag(PLACES.flatten(), table, begins, mode="max")
    assert torch.equal(own, F.embedding_bag(PLACES.flatten(), table, begins, mode="max"))
    with pytest.raises(NotImplementedError, match="per_sample_weights"):
        embedding_bag(PLACES, table, per_sample_weights=torch.randn(3, 4))
    with pytest.raises(ValueError, match="mode has to be"):
        embedding_bag(PLACES, table, mode="median")


def test_no_library_is_asked() -> None:
    bag = torch.nn.EmbeddingBag(5, 6, padding_idx=0)
    traced = trace(lambda t: bag(t["places"]), {"places": PLACES}, varying=True)
    assert not any("embedding_bag" in node.op for node in traced.graph.nodes)
