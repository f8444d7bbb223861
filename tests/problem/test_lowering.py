"""The short way to an export's operations comes out where torch's own way does."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from workbench.problem import lowering
from workbench.problem.trace import trace


def composites(tensors: dict[str, Tensor]) -> Tensor:
    """Operations made of others: some broken down as ever, some with a decomposition of their own."""
    x, y = tensors["x"], tensors["y"]
    normed = F.group_norm(F.interpolate(x, scale_factor=2.0)[..., :8], 2) + F.rms_norm(x, (8,))
    return F.selu(torch.einsum("nca,ca->nc", normed, F.linear(y, y))).std(1)


def test_the_short_way_comes_out_where_torch_s_own_does(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = {"x": torch.randn(3, 8, 8), "y": torch.randn(8, 8)}
    assert lowering._as_known()
    overridden, _ = lowering._tables(tuple(lowering._registered()))
    assert 10 < len(overridden) < 100, "torch overrides 500"
    with torch.no_grad():
        short = trace(composites, tensors, False)
        monkeypatch.setattr(lowering, "_as_known", lambda: False)
        assert repr(short) == repr(trace(composites, tensors, False))
    assert len(short.graph.nodes) > 20


@pytest.mark.parametrize("inside", [None, lambda ep, table: ep])
def test_a_torch_that_is_otherwise_inside_is_asked_in_public(
    inside: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lowering.exported_program, "_decompose_exported_program", inside)
    lowering._as_known.cache_clear()
    try:
        assert not lowering._as_known()
    finally:
        lowering._as_known.cache_clear()


def test_a_diagonal_is_filled_where_values_are() -> None:
    def hidden(tensors: dict[str, Tensor]) -> Tensor:
        scores = tensors["x"] @ tensors["x"].t()
        scores.fill_diagonal_(-torch.inf)
        return scores.softmax(1)

    ops = {node.op for node in trace(hidden, {"x": torch.randn(6, 4)}, True).graph.nodes}
    assert "aten.where.self" in ops and not any("as_strided" in op for op in ops)
