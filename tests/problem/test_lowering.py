"""The short way to an export's operations comes out where torch's own way does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from workbench.problem import lowering
from workbench.problem.trace import Call, trace


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


def test_what_torch_puts_in_their_place_is_seen_once_and_taken_back() -> None:
    asked, _ = lowering._tables(tuple(lowering._registered()))
    before = {op: dict(op.py_kernels) for op in asked}
    with lowering.exported_program._override_composite_implicit_decomp(dict(asked)):
        theirs = {op: set(op.py_kernels) for op in asked}
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), lowering._overridden(asked):
            assert {op: set(op.py_kernels) for op in asked} == theirs
            assert all(op in lowering.fake_impls.op_implementations_dict for op in asked)
            raise ZeroDivisionError
        assert {op: op.py_kernels for op in asked} == before
    op = next(iter(asked))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(op.py_kernels, torch._C.DispatchKey.CPU, len)
        with lowering._overridden(asked):
            assert op.py_kernels[torch._C.DispatchKey.CPU] is len
        assert op.py_kernels[torch._C.DispatchKey.CPU] is len
    assert {op: op.py_kernels for op in asked} == before


def softly(tensors: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """A result that is a view, operations of several results, and decompositions of torch's own."""
    values, places = tensors["x"].topk(2, 1)
    return F.layer_norm(tensors["x"].flatten(1), (32,)).softmax(1).T, values * places


def pooled(tensors: dict[str, Tensor]) -> Tensor:
    return F.avg_pool2d(F.pad(tensors["x"], (1, 1, 1, 1)), 2, ceil_mode=True).roll(1, -1)


def resized(tensors: dict[str, Tensor]) -> Tensor:
    """Half a size is a size, not the number that it is here."""
    x = tensors["x"].unsqueeze(0)
    return F.interpolate(x, scale_factor=0.5, mode="bicubic") + F.interpolate(x, scale_factor=0.5)


def written(tensors: dict[str, Tensor]) -> Tensor:
    """Writes to what it has made."""
    made = tensors["x"] * 2
    made[:, 0] += 1
    return made.relu_()


def powers(tensors: dict[str, Tensor]) -> Tensor:
    """Writes only where it is broken down."""
    return torch.vander(tensors["x"][0, 0])


@pytest.mark.many(23)
@pytest.mark.parametrize(
    ("call", "once"),
    [(softly, True), (pooled, True), (resized, True), (composites, True), (written, False), (powers, False)],
)
@pytest.mark.parametrize("varying", [False, True])
def test_what_writes_to_nothing_is_traced_once_and_comes_out_the_same(
    call: Call, once: bool, varying: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[bool] = []
    ordinary = lowering._traced_once

    def noted(*given: Any) -> Any:
        made = ordinary(*given)
        found.append(made is not None)
        return made

    monkeypatch.setattr(lowering, "_traced_once", noted)
    tensors = {"x": torch.randn(3, 8, 4 if call is softly else 8), "y": torch.randn(8, 8)}
    short = trace(call, tensors, varying and call is not composites)
    assert any(found) == once
    monkeypatch.setattr(lowering, "_only_computes", lambda program: False)
    assert repr(short) == repr(trace(call, tensors, varying and call is not composites))


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
