"""Products of 16-bit matrices stay products of 16 bits, whatever is added to them."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check
from workbench.errors import ProblemError
from workbench.playbook.generate import generate

Tensors = dict[str, Tensor]
DTYPES = (torch.bfloat16, torch.float16)
LAYER = {"x": (6, 40), "w": (24, 40), "b": (24,)}
CALLS: dict[str, tuple[Call, dict[str, tuple[int, ...]], str]] = {
    "layer": (lambda t: F.linear(t["x"], t["w"], t["b"]), LAYER, "aten.addmm"),
    "layer and what follows": (lambda t: F.gelu(F.linear(t["x"], t["w"], t["b"])), LAYER, "aten.mm"),
    "two layers": (
        lambda t: F.linear(torch.relu(F.linear(t["x"], t["w"], t["b"])), t["v"], t["c"]),
        {**LAYER, "v": (16, 24), "c": (16,)},
        "aten.addmm",
    ),
    "a part of each": (
        lambda t: torch.addmm(t["b"], t["x"], t["w"].t(), beta=0.5, alpha=2),
        LAYER,
        "aten.mm",
    ),
    "several": (
        lambda t: torch.baddbmm(t["b"], t["x"], t["w"]),
        {"x": (3, 6, 40), "w": (3, 40, 24), "b": (3, 6, 24)},
        "aten.bmm",
    ),
}


@pytest.mark.many(7)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_factors_are_not_widened(name: str, dtype: torch.dtype) -> None:
    """torch's decomposition of addmm makes them float32, which libraries multiply at a tenth of the rate."""
    call, shapes, library = CALLS[name]
    tensors = {name: t.to(dtype) for name, t in of(**shapes)().items()}
    problem = problem_of(call, tensors)
    products = [node for node in problem.graph.nodes if node.op in ("aten.mm.default", "aten.bmm.default")]
    assert products and all(node.outs[0].dtype in ("f16", "bf16") for node in products)
    source = generate(problem, ()).kernel.source
    assert re.search(rf'library\(\s*"{library}"', source)
    check(call, source, tensors)


def test_factors_of_float32_are_as_they_were() -> None:
    call, shapes, _ = CALLS["layer"]
    problem = problem_of(call, of(**shapes)())
    assert [node.base_name for node in problem.graph.nodes] == ["permute", "mm", "add"]


def test_autocast_for_another_device_is_refused_with_what_to_write() -> None:
    def call(t: Tensors) -> Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return F.linear(t["x"], t["w"])

    def right(t: Tensors) -> Tensor:
        with torch.autocast(t["x"].device.type, dtype=torch.bfloat16):
            return F.linear(t["x"], t["w"])

    tensors = of(x=(6, 40), w=(24, 40))()

    def off(t: Tensors) -> Tensor:
        with torch.autocast("cuda", enabled=False):
            return F.linear(t["x"], t["w"])

    assert problem_of(off, tensors).outputs[0].dtype == "f32"
    with pytest.raises(ProblemError, match=r"Write .with torch.autocast\(x.device.type"):
        problem_of(call, tensors)
    (made,) = [node for node in problem_of(right, tensors).graph.nodes if node.op == "aten.mm.default"]
    assert made.outs[0].dtype == "bf16"
