"""Algebraic rewrites: each is on the card, right by the referee's own judgement, and can be turned off."""

from __future__ import annotations

from functools import lru_cache

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check
from workbench.model import H100, Passed, PlanFacts, Problem
from workbench.plan.facts import facts
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.graph.rewrites import GRAPH_REWRITES, REWRITES, applying, linear_rowsum, rewrite
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled
from workbench.playbook.text.titles import TITLES
from workbench.problem.capture import read_cell
from workbench.problem.intake import open_problem
from workbench.referee.judge import judge
from workbench.referee.librarymeta import library_meta
from workbench.referee.options import JudgeOptions

HEAD = "import torch\nfrom torch.nn import functional as F\n"
CELLS = {
    "attention": (
        "def f(q, k, v):\n    return torch.softmax(q @ k.mT / 4, -1) @ v\n",
        "inputs = [torch.randn(2, 3, 8, 16), torch.randn(2, 3, 12, 16), torch.randn(2, 3, 12, 16)]\n",
    ),
    "diagonal_product": (
        "def f(a, b):\n    return torch.diag(a) @ b\n",
        "inputs = [torch.randn(6), torch.randn(6, 9)]\n",
    ),
    "affine_in_weights": (
        "def f(x, w, m, s, b):\n    return (x @ w - m) * s + b\n",
        "inputs = [torch.randn(24, 9), torch.randn(9, 5), torch.randn(5), torch.randn(5), torch.randn(5)]\n",
    ),
    "scale_in_tail": (
        "def f(x, w):\n    return F.relu((x * 0.125) @ w)\n",
        "inputs = [torch.randn(6, 9), torch.randn(9, 5)]\n",
    ),
    "linear_rowsum": (
        "def f(x, w, b):\n    return F.linear(x, w, b).mean(1) * 2\n",
        "inputs = [torch.randn(6, 9), torch.randn(5, 9), torch.randn(5)]\n",
    ),
    "bias_in_tail": (
        "def f(x, w, b):\n    return F.max_pool2d(F.relu(F.conv2d(x, w, b)), 2)\n",
        "inputs = [torch.randn(2, 3, 7, 8), torch.randn(4, 3, 3, 3), torch.randn(4)]\n",
    ),
    "summed_products": (
        "def f(x, w, b):\n    return F.silu(F.linear(x, w, b))\n",
        "inputs = [torch.randn(4, 256), torch.randn(512, 256), torch.randn(512)]\n",
    ),
    "turned_product": (
        "def f(a, x):\n    return F.normalize((a @ x).transpose(1, 2), dim=1)\n",
        "inputs = [torch.randn(3, 5, 9), torch.randn(3, 9, 7)]\n",
    ),
    "shared_heads": (
        "def f(q, k, v):\n"
        "    k, v = (one.repeat_interleave(2, 1) for one in (k, v))\n"
        "    return F.scaled_dot_product_attention(q, k, v, is_causal=True)\n",
        "inputs = [torch.randn(2, heads, 24, 16, dtype=torch.bfloat16) for heads in (4, 2, 2)]\n",
    ),
    "activation_in_product": (
        "def f(x, w, b, u):\n    return F.gelu(F.linear(x, w, b), approximate='tanh') @ u\n",
        "inputs = [torch.randn(6, 16), torch.randn(24, 16), torch.randn(24), torch.randn(24, 8)]\n"
        "inputs = [one.bfloat16() for one in inputs]\n",
    ),
    "depthwise": (
        "def f(x, w):\n    return F.relu(F.conv2d(x, w, padding=1, groups=3))\n",
        "inputs = [torch.randn(2, 3, 7, 8), torch.randn(3, 1, 3, 3)]\n",
    ),
    "short_axis": (
        "def f(a, b):\n    return (a[:, None] - b[None]).square().sum(-1).amin(1)\n",
        "inputs = [torch.randn(37, 3), torch.randn(29, 3)]\n",
    ),
    "constant_places": (
        "def f(a, b):\n    return torch.cross(a, torch.cross(a, b, dim=-1), dim=-1)\n",
        "inputs = [torch.randn(37, 3), torch.randn(37, 3)]\n",
    ),
    "few_terms": (
        "def f(x):\n    return x.exp().sum(1).amax(1)\n",
        "inputs = [torch.randn(9, 4, 2, 64)]\n",
    ),
    "joined_last": (
        "def f(x):\n    a, b = x.unbind(1)\n"
        "    return torch.stack([a * b, a + b], 1) - torch.stack([a.exp(), b - a], 1)\n",
        "inputs = [torch.randn(5, 2, 40)]\n",
    ),
    "totals_by_rows": (
        "def f(x):\n    return x.exp().sum(), x.exp().amax(1)\n",
        "inputs = [torch.randn(6, 40)]\n",
    ),
    "wanted_rows": (
        "def f(x, w):\n    return F.linear(x.exp(), w)[:, -1]\n",
        "inputs = [torch.randn(3, 7, 40), torch.randn(64, 40)]\n",
    ),
    "moved_first": (
        "def f(x):\n    return F.layer_norm(x, (40,)).roll(2, 1)\n",
        "inputs = [torch.randn(3, 7, 40)]\n",
    ),
    "nested_sums": (
        "def f(x):\n    share = x.flatten(1).softmax(1).view(x.shape)\n"
        "    return (share.sum(1) * torch.arange(x.shape[2])).sum(1)\n",
        "inputs = [torch.randn(5, 6, 8)]\n",
    ),
    "separate_counts": (
        "def f(x, m):\n    return (m[:, :, None] & (x > 0)[:, None, :]).float().mean((1, 2))\n",
        "inputs = [torch.randn(5, 9), torch.rand(5, 7) < 0.5]\n",
    ),
    "box_sum": (
        "def f(x):\n    return F.conv2d(x, torch.ones(1, 1, 11, 13), padding=(5, 6)).relu()\n",
        "inputs = [torch.randn(2, 1, 17, 19)]\n",
    ),
    "last_written": (
        "def f(x, i, v):\n    y = x.clone()\n    y[i] = v\n    return y * 2\n",
        "inputs = [torch.randn(6, 8), torch.randperm(6)[:4], torch.randn(4, 8)]\n",
    ),
    "known_largest": (
        "def f(x):\n    share = x.softmax(1)\n"
        "    return share.max(1).values, share < 0.5 * share.amax(1, True)\n",
        "inputs = [torch.randn(6, 37)]\n",
    ),
    "few_largest": (
        "def f(x):\n    return x.exp().topk(2).values.sum(-1)\n",
        "inputs = [torch.randn(6, 40)]\n",
    ),
    "few_in_order": (
        "def f(x):\n    return x.exp().sort().values[:, 2] * 2\n",
        "inputs = [torch.randn(6, 5)]\n",
    ),
    "few_sums": (
        "def f(a, b):\n    return a.transpose(1, 2) @ (b * b)\n",
        "inputs = [torch.randn(3, 40, 2), torch.randn(3, 40, 3)]\n",
    ),
    "solved_in_registers": (
        "def f(a, b):\n    return torch.linalg.solve(a, b) * 2\n",
        "inputs = [torch.randn(37, 3, 3) + 2 * torch.eye(3), torch.randn(37, 3, 2)]\n",
    ),
    "few_edges": (
        "def f(x):\n    return torch.bucketize(x, torch.tensor([-1.0, 0.0, 0.5])) * 2\n",
        "inputs = [torch.randn(6, 40)]\n",
    ),
    "whole_records": (
        "def f(a, b):\n    return (a @ b).tanh() @ b\n",
        "inputs = [torch.randn(37, 3, 3), torch.randn(37, 3, 3)]\n",
    ),
    "half_spectrum": (
        "def f(x):\n    return torch.fft.fft(x).real + x\n",
        "inputs = [torch.randn(6, 40)]\n",
    ),
    "interleaved": (
        "def f(x):\n    return F.group_norm(x, 2)\n",
        "inputs = [torch.randn(2, 8, 6, 7).to(memory_format=torch.channels_last)]\n",
    ),
    "whole_walks": (
        "def f(x):\n    return (x[:, 1:] - x[:, :-1]).abs().mean() + (x[1:] - x[:-1]).abs().mean()\n",
        "inputs = [torch.randn(16, 24)]\n",
    ),
    "scattered_sums": (  # of whole numbers, which come out the same in any order
        "def f(x, i, v):\n    return x.index_add(0, i, v)\n",
        "inputs = [torch.randint(99, (6, 8)), torch.randint(6, (20,)), torch.randint(99, (20, 8))]\n",
    ),
    "row_steps": (
        "def f(x):\n"
        "    for step in (1, 2, 4):\n"
        "        x = torch.tanh(x + F.pad(x[:, :-step], (step, 0)))\n"
        "    return x\n",
        "inputs = [torch.randn(6, 40)]\n",
    ),
    "wider_rows": (
        "def f(x):\n    return F.pad(x - x.mean(1, keepdim=True), (0, 24))\n",
        "inputs = [torch.randn(6, 40)]\n",
    ),
    "taken_out": (
        "def f(x, y):\n    return F.kl_div(x.log_softmax(1), y.softmax(1), reduction='batchmean')\n",
        "inputs = [torch.randn(6, 37), torch.randn(6, 37)]\n",
    ),
}
LARGE = frozenset(["joint_rows", "made_once"])
"""Those that pay for large tensors alone."""


def test_every_rewrite_has_a_cell() -> None:
    """Also of those that a session of tests does not happen to take; large ones have files of their own."""
    assert set(CELLS) == set(REWRITES) - LARGE


@lru_cache(maxsize=32)
def opened(name: str) -> Problem:
    """A cell in which the rewrite of that name has something to do."""
    return open_problem(read_cell(HEAD + "".join(CELLS[name])))


def facts_of(problem: Problem, value: str, name: str) -> PlanFacts:
    source = generate(problem, ((name, value),)).kernel.source
    metas = problem.metas(problem.cases[0])
    return facts(interpret(parse(source), metas, H100, library_meta), name)


@pytest.mark.many(37)
@pytest.mark.parametrize("name", CELLS)
def test_a_rewrite_is_on_the_card_and_passes_the_referee(name: str) -> None:
    problem = opened(name)
    assert dict(settled(problem, ()))[name] == "on"
    card = next(card for card in seed_vectors(problem, H100, 2) if TITLES[name, "on"] in card.fix)
    assert card.vector is not None
    draft = generate(problem, card.vector)
    evaluation = judge(problem, draft.kernel, H100, JudgeOptions(), lambda stage: None)
    assert evaluation.outcome == Passed()


@pytest.mark.many(19)
@pytest.mark.parametrize("name", GRAPH_REWRITES)
def test_a_rewrite_can_be_turned_off_and_is_expected_to_gain(name: str) -> None:
    problem = opened(name)
    on, off = (settled(problem, ((name, value),)) for value in ("on", "off"))
    if name in (
        "constant_places",
        "joined_last",
        "known_largest",
        "turned_product",
        "whole_records",
    ):  # as many bytes
        assert generate(problem, on).kernel.source != generate(problem, off).kernel.source
    else:
        assert facts_of(problem, "on", name) != facts_of(problem, "off", name)
    if name in ("joined_last", "turned_product"):  # which pay by what follows: a search tries both
        return
    times = 8 if name == "box_sum" else 1024  # of larger images a convolution is as good
    large = {symbol: times * size for symbol, size in problem.cases[0].sizes}
    assert estimate(problem, on, H100, large).us < estimate(problem, off, H100, large).us


def also_an_output(t: dict[str, Tensor]) -> tuple[Tensor, ...]:
    product = t["x"] @ t["w"]
    return torch.relu(product), product.sum(1)


def normed(t: dict[str, Tensor]) -> Tensor:
    return F.layer_norm(F.linear(t["x"], t["w"].T, t["b"]), (5,))


def two_sums(t: dict[str, Tensor]) -> tuple[Tensor, ...]:
    product = t["x"] @ t["w"]
    return product.sum(1), (product + t["b"]).sum(1)


@pytest.mark.parametrize(("call", "dies"), [(also_an_output, False), (normed, False), (two_sums, True)])
def test_a_sum_moves_into_a_product_only_where_nobody_else_reads_it(call: Call, dies: bool) -> None:
    problem = problem_of(call, of(x=(6, 9), w=(9, 5), b=(5,))())
    assert ("linear_rowsum" in applying(problem)) == dies
    assert any(node.op == "aten.mm.default" for node in linear_rowsum(problem).nodes) != dies


def pooled(t: dict[str, Tensor]) -> Tensor:
    return F.max_pool2d(F.conv2d(t["x"], t["w"], t["b"]), 2)


def convolved_again(t: dict[str, Tensor]) -> Tensor:
    return F.conv2d(F.conv2d(t["x"], t["w"], t["b"]), t["v"])


@pytest.mark.slow
@pytest.mark.parametrize(("call", "moved"), [(pooled, True), (convolved_again, False)])
def test_a_bias_moves_only_where_a_kernel_follows(call: Call, moved: bool) -> None:
    tensors = of(x=(2, 3, 8, 8), w=(4, 3, 3, 3), b=(4,), v=(2, 4, 3, 3))()
    graph = rewrite(problem_of(call, tensors))
    assert any(node.op == "aten.add.Tensor" for node in graph.nodes) == moved


def test_activation_and_pooling_are_one_kernel_behind_a_convolution() -> None:
    problem = opened("bias_in_tail")
    assert generate(problem, ()).kernel.source.count("__global__") == 1
    assert facts_of(problem, "on", "bias_in_tail").launches == 1


def test_overlapping_windows_compute_a_long_chain_only_once() -> None:
    def call(t: dict[str, Tensor]) -> Tensor:
        return F.max_pool2d(F.gelu(t["x"]), 3, 1)

    tensors = {"x": torch.randn(2, 3, 7, 8)}
    source = generate(problem_of(call, tensors), ()).kernel.source
    check(call, source, tensors)
    assert source.count("__global__") == 2


def test_a_pool_that_a_reduction_and_its_tail_read_is_written_once() -> None:
    def call(t: dict[str, Tensor]) -> Tensor:
        return torch.softmax(F.max_pool2d(F.relu(t["x"] + 1), 2), 1)

    tensors = {"x": torch.randn(2, 5, 6, 8)}
    source = generate(problem_of(call, tensors), ()).kernel.source
    check(call, source, tensors)
    assert source.count("__global__") == 2


def test_a_pool_that_only_a_reduction_reads_is_not_written() -> None:
    def call(t: dict[str, Tensor]) -> Tensor:
        return F.max_pool2d(t["x"], 2).sum(1)

    tensors = {"x": torch.randn(2, 5, 6, 8)}
    source = generate(problem_of(call, tensors), ()).kernel.source
    check(call, source, tensors)
    assert source.count("__global__") == 1


def test_numbers_without_axes_are_no_affine_step_of_a_product() -> None:
    def scaled(t: dict[str, Tensor]) -> Tensor:
        return (t["s"] + t["b"]) * 2.0 + t["x"].sum()

    tensors = of(s=(), b=(), x=(4, 5))()
    check(scaled, generate(problem_of(scaled, tensors, "scaled"), ()).kernel.source, tensors)


def value_head(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.addmm(t["bias"], t["x"].tanh(), t["weight"])


def test_a_layer_with_one_result_is_a_sum_of_products_whatever_is_added() -> None:
    """Nothing follows it, so the bias would have gone into the library's product."""
    given = {"bias": torch.randn(1), "x": torch.randn(33, 24), "weight": torch.randn(24, 1)}
    source = generate(problem_of(value_head, given), ()).kernel.source
    assert "library(" not in source and source.count("__global__") == 1
    check(value_head, source, given, "checked")


def test_rewrites_that_apply_are_all_without_which_the_graph_would_be_another() -> None:
    """Only those that change it on the way are left out to see."""

    def call(t: dict[str, torch.Tensor]) -> torch.Tensor:
        return (t["x"] @ t["w"].T * 3.0 + t["b"]).sum(1)

    tensors = {"x": torch.randn(64, 32), "w": torch.randn(48, 32), "b": torch.randn(48)}
    problem = problem_of(call, tensors)
    whole = rewrite(problem)
    every = {name for name in GRAPH_REWRITES if rewrite(problem, frozenset([name])) != whole}
    assert applying(problem) == every and every
