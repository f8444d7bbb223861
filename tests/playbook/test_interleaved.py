"""Rows that lie interleaved in memory: summed line by line, and then each row's share of the lines."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check, plan_of, run
from tests.playbook.test_layouts import last
from workbench.model import H100, Vector
from workbench.playbook.analysis.row_passes import RowSpace, passes_of
from workbench.playbook.generate import generate
from workbench.playbook.ir.program import Kernel
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import program_of, traits_of

half = torch.float16
bfloat = torch.bfloat16


def normed(groups: int) -> Call:
    return lambda t: F.silu(F.group_norm(t["x"], groups, t["w"], t["b"]))


def far_from_zero(t: dict[str, Tensor]) -> Tensor:
    return F.group_norm(t["x"], 4)


def of_those_that_count(t: dict[str, Tensor]) -> Tensor:
    """Columns less their mean over some lines, in units of how far those are from it."""
    counts = (t["m"] > 0).float()[:, None]
    mean = (t["x"] * counts).sum(0) / counts.sum()
    apart = (t["x"] - mean) * counts
    return (t["x"] - mean) / torch.sqrt((apart * apart).sum(0) / counts.sum() + 1e-5)


CALLS: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "group norm": (normed(4), last(x=(2, 12, 9, 7), w=(12,), b=(12,))),
    "group norm, half": (normed(2), last(x=((3, 8, 6, 11), half), w=((8,), half), b=((8,), half))),
    "group norm of a line": (lambda t: F.group_norm(t["x"], 4), last(x=(2, 8, 1, 37))),
    "sums of groups": (lambda t: t["x"].view(2, 3, 4, 40).sum((2, 3)), last(x=(2, 12, 8, 5))),
    "largest of groups": (
        lambda t: t["x"].view(2, 3, 4, 40).amax((2, 3)),
        last(x=(2, 12, 8, 5)),
    ),
    "distance from what is given": (
        lambda t: ((t["x"].view(2, 3, 4, 40) - t["m"][:, :, None, None]) ** 2).mean((2, 3)),
        last(x=(2, 12, 8, 5), m=(2, 3)),
    ),
    "first and last axis": (lambda t: t["x"].sum((0, 2)), of(x=(40, 6, 5))()),
    "long rows side by side": (lambda t: F.instance_norm(t["x"]) * 2, last(x=(2, 8, 32, 33))),
    "batch norm": (
        lambda t: F.batch_norm(t["x"], None, None, t["w"], t["b"], training=True),
        last(x=(3, 12, 18, 20), w=(12,), b=(12,)),
    ),
    "moments of some lines": (of_those_that_count, of(x=(1100, 24), m=(1100,))()),
    "softmax of columns": (lambda t: F.softmax(t["x"], 0), of(x=(1100, 24))()),
    "softmax of groups": (
        lambda t: F.softmax(t["x"].view(2, 3, 4, 40).transpose(2, 3).reshape(2, 3, -1), -1).sum(-1),
        last(x=(2, 12, 8, 5)),
    ),
}
VECTORS: tuple[Vector, ...] = (
    (),
    (("single_pass", "on"), ("vector_width", "4")),
    (
        ("single_pass", "on"),
        ("vector_width", "4"),
        ("grid_split", "on"),
        ("split_join", "last"),
        ("columns_by", "bundle"),
        ("launches", "together"),
    ),
    (("interleaved", "off"),),
)


@pytest.mark.many(14)
@pytest.mark.parametrize(("name", "vector"), crossed(CALLS, VECTORS))
def test_interleaved_rows_are_right(name: str, vector: Vector) -> None:
    call, tensors = CALLS[name]
    problem = problem_of(call, tensors, "grouped")
    assert "interleaved" in traits_of(problem).rewrites
    check(call, generate(problem, vector).kernel.source, tensors, "checked")


@pytest.mark.many(6)
@pytest.mark.parametrize(
    ("call", "tensors"),
    [
        (normed(4), of(x=(2, 12, 9, 7), w=(12,), b=(12,))()),  # row-major: a group is one stretch
        (normed(2), last(x=(2, 80, 9, 7), w=(80,), b=(80,))),  # 40 channels are most of the lines they lie in
        (normed(4), last(x=(2, 12, 3, 5), w=(12,), b=(12,))),  # fifteen pixels are not worth it
        (lambda t: t["x"].mean((2, 3)), last(x=(2, 40, 9, 7))),  # a channel is a column of its own
        (lambda t: F.softmax(t["x"], 1), of(x=(2, 24, 9, 7))()),  # columns that a thread can keep
        (lambda t: F.instance_norm(t["x"]), of(x=(2, 8, 32, 33))()),  # each row is one stretch
    ],
)
def test_other_rows_are_left_alone(call: Call, tensors: dict[str, Tensor]) -> None:
    assert "interleaved" not in traits_of(problem_of(call, tensors)).rewrites


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["registers", "shared"])
def test_rows_may_wait_on_the_chip_where_their_lines_are_not_summed(cache: str) -> None:
    """What may be chosen is what the kernels without the rewrite have."""
    problem = problem_of(normed(32), last(x=(2, 640, 32, 32), w=(640,), b=(640,)))
    vector = dict(settled(problem, (("block_size", "1024"), ("interleaved", "off"), ("row_cache", cache))))
    assert (vector["interleaved"], vector["row_cache"]) == ("off", cache)
    assert "row_cache" not in dict(settled(problem, (("row_cache", cache),)))
    seeds = [dict(card.vector) for card in seed_vectors(problem, H100, 40)]
    assert any(seed.get("interleaved") == "off" and seed.get("row_cache") == cache for seed in seeds)


def test_lines_are_read_whole() -> None:
    call, tensors = CALLS["group norm"]
    problem = problem_of(call, tensors)

    def waste(value: str) -> float:
        vector = (*VECTORS[2], ("interleaved", value))
        counts = check(call, generate(problem, vector).kernel.source, tensors, "checked").report.counts
        assert counts is not None
        read = [site for site in counts.sites if site.kind == "load"]
        return sum(site.transactions for site in read) / sum(site.ideal_transactions for site in read)

    assert waste("on") < 0.75 * waste("off")


def test_a_variance_is_exact_far_from_zero() -> None:
    """Squares of what is far from zero would cancel; distances from a mean do not."""
    tensors = {"x": last(x=(2, 8, 8, 8))["x"] + 3000.0}
    expected = F.group_norm(tensors["x"].double(), 4).float()
    for vector in VECTORS:
        source = generate(problem_of(far_from_zero, tensors), vector).kernel.source
        (got,) = run(source, tensors).outputs
        torch.testing.assert_close(got, expected, rtol=0.0, atol=3000 * 2.0**-22)


def test_statistics_come_in_one_pass() -> None:
    call, tensors = CALLS["group norm"]
    problem = problem_of(call, tensors)
    plan = plan_of(generate(problem, VECTORS[1]).kernel.source, tensors)
    launches = [step for step in plan.steps if step.kind == "launch"]
    assert len(launches) == 3  # channels, groups, and what is stored
    assert len(program_of(problem, True, frozenset(["interleaved"])).steps) == 1


@pytest.mark.parametrize("name", ["moments of some lines", "softmax of columns"])
def test_long_rows_side_by_side_are_walked_once_by_a_kernel(name: str) -> None:
    """A bundle of them is walked once: a statistic that another needs is in memory before."""
    call, tensors = CALLS[name]
    program = program_of(problem_of(call, tensors), True)
    kernels = [step for step in program.steps if isinstance(step, Kernel)]
    assert len(kernels) >= 2
    for kernel in kernels:
        passes = passes_of(RowSpace(program.pool, kernel), kernel, True)
        assert sum(bool(step.accumulators) for step in passes) <= 1


@pytest.mark.slow
def test_a_search_tries_both() -> None:
    call, tensors = CALLS["group norm"]
    problem = problem_of(call, tensors)
    tried = {dict(card.vector or ()).get("interleaved") for card in seed_vectors(problem, H100, 8)}
    assert tried >= {"on", "off"}


@pytest.mark.slow
def test_results_in_another_order_are_turned_in_tiles_from_the_start() -> None:
    """Torch's instance norm of channels-last images is row-major."""
    problem = problem_of(lambda t: F.instance_norm(t["x"]), last(x=(2, 64, 32, 33)))
    tiles = {dict(card.vector or ()).get("turned_tile") for card in seed_vectors(problem, H100, 8)}
    assert "32" in tiles
