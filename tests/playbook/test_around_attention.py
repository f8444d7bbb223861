"""Between its products a block of attention copies nothing: biases, heads and rows stay where they lie."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check, plan_of
from workbench.model import H100, Graph
from workbench.numerics.operators import library_operator
from workbench.playbook.generate import generate
from workbench.playbook.graph.rewrites import rewrite
from workbench.playbook.rules.moves import seed_vectors

Tensors = dict[str, Tensor]
HEADS, WIDTH = 3, 24
SHAPES = {
    "x": (2, 10, WIDTH), "w": (3 * WIDTH, WIDTH), "b": (3 * WIDTH,), "o": (WIDTH, WIDTH), "c": (WIDTH,)
}  # fmt: skip


def block(t: Tensors) -> Tensor:
    """Attention with a residual."""
    batch, length, width = t["x"].shape
    parts = F.linear(t["x"], t["w"], t["b"]).view(batch, length, 3, HEADS, width // HEADS)
    q, k, v = parts.permute(2, 0, 3, 1, 4)
    met = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return t["x"] + F.linear(met.transpose(1, 2).reshape(batch, length, width), t["o"], t["c"])


def of_three(t: Tensors) -> Tensor:
    """The same, with queries, keys and values split as GPT-2's are."""
    batch, length, width = t["x"].shape
    parts = F.linear(t["x"], t["w"], t["b"]).split(width, dim=2)
    q, k, v = (part.view(batch, length, HEADS, width // HEADS).transpose(1, 2) for part in parts)
    met = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return t["x"] + F.linear(met.transpose(1, 2).reshape(batch, length, width), t["o"], t["c"])


def calls(graph: Graph) -> Counter[str]:
    products = ("mm", "bmm", "addmm", "scaled_dot_product_attention")
    return Counter(name for node in graph.nodes if (name := node.base_name) in products)


@pytest.mark.many(3)
@pytest.mark.parametrize(
    ("call", "dtype"),
    [(block, torch.bfloat16), (block, torch.float32), (of_three, torch.bfloat16)],
    ids=["bfloat16", "float32", "split"],
)
def test_one_kernel_is_left_and_is_right(call: Call, dtype: torch.dtype) -> None:
    tensors = {name: tensor.to(dtype) for name, tensor in of(**SHAPES)().items()}
    problem = problem_of(call, tensors)
    assert calls(rewrite(problem)) == Counter(["addmm", "scaled_dot_product_attention", "mm"])
    fused = next(c.vector for c in seed_vectors(problem, H100, count=4) if ("fusion", "all") in c.vector)
    source = generate(problem, fused).kernel.source
    plan = plan_of(source, tensors)
    assert len(plan.launches) == 1, "the residual and the bias of the last layer"
    called = [step.op for step in plan.steps if step.kind == "library"]
    assert [op.split(".")[1] for op in called] == ["addmm", "scaled_dot_product_attention", "mm"]
    check(call, source, tensors)


def test_heads_lie_together_whichever_kernel_the_library_takes() -> None:
    attention = library_operator("aten.scaled_dot_product_attention")
    q, k, v = (torch.randn(2, 3, 5, 4) for _ in range(3))
    attended = attention(q, k, v)
    assert attended.transpose(1, 2).is_contiguous()
    torch.testing.assert_close(attended, F.scaled_dot_product_attention(q, k, v))
    assert attention(q[0], k[0], v[0]).is_contiguous()


def test_a_bias_stays_with_a_kernel_that_reads_the_product_anyway() -> None:
    def gated(t: Tensors) -> Tensor:
        return torch.relu(F.linear(t["x"], t["w"], t["b"]).view(2, 10, 3, WIDTH)[:, :, 1])

    assert calls(rewrite(problem_of(gated, of(**SHAPES)()))) == Counter(["mm"])


def test_a_part_that_comes_back_as_it_lies_is_written_by_a_kernel() -> None:
    """A view of the product would keep all of it; what is copied can be added to on the way."""

    def first(t: Tensors) -> Tensor:
        return F.linear(t["x"], t["w"], t["b"])[..., :WIDTH].permute(1, 0, 2)

    tensors = of(**SHAPES)()
    assert calls(rewrite(problem_of(first, tensors))) == Counter(["mm"])


def test_rows_of_a_batch_are_one_product_where_they_lie_so() -> None:
    """As torch has a linear layer behind attention: batched, with the weight expanded."""

    def viewed(t: Tensors) -> Tensor:
        rows = (t["x"] * 2).reshape(2, 5, 2 * WIDTH).reshape(2, 10, WIDTH)
        return torch.bmm(rows, t["o"].t().expand(2, WIDTH, WIDTH)) + t["c"]

    def cut(t: Tensors) -> Tensor:
        return torch.bmm(t["x"][:, 1:], t["o"].t().expand(2, WIDTH, WIDTH)) + t["c"]

    tensors = of(**SHAPES)()
    for call, expected in ((viewed, "mm"), (cut, "bmm")):
        problem = problem_of(call, tensors)
        assert calls(rewrite(problem)) == Counter([expected]), call.__name__
        source = generate(problem, next(iter(seed_vectors(problem, H100, count=1))).vector).kernel.source
        check(call, source, tensors)
