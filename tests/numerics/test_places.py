"""Places among sorted values that are rounded, what is looked up there, and choices among equals."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.problem.cells import opened
from workbench.model import H100, Kernel, Outcome, Problem
from workbench.numerics.places import place_among, swing_beside
from workbench.numerics.tracked import Tracked, exact
from workbench.playbook.generate import generate
from workbench.referee.judge import judge
from workbench.referee.options import JudgeOptions


def off(values: list[float], error: float) -> Tracked:
    made = exact(torch.tensor(values, dtype=torch.float64), "f32")
    return replace(made, shared=torch.full_like(made.value, error))


def found(edges: Tracked, values: Tracked, right: bool = False) -> Tracked:
    return place_among(lambda e, v: torch.searchsorted(e, v, right=right), edges, values, "i64")


def test_a_value_beside_an_edge_may_fall_to_either_side() -> None:
    place = found(off([1.0, 2.0, 3.0], 0.01), off([1.995, 2.5, 3.015, 0.5], 0.01))
    assert place.value.tolist() == [1, 2, 3, 0]
    assert place.down.tolist() == [0, 0, 1, 0] and place.up.tolist() == [1, 0, 0, 0]
    assert place.step is not None
    assert place.step.distance.tolist() == pytest.approx([0.005, 0.5, 0.015, 0.5])


def test_edges_that_lie_close_are_passed_together() -> None:
    place = found(off([1.0, 1.001, 1.002, 2.0], 0.01), off([1.0005], 0.0))
    assert (place.value.item(), place.down.item(), place.up.item()) == (1, 1, 2)


@pytest.mark.parametrize(("right", "at"), [(False, 1), (True, 2)])
def test_what_nobody_rounded_is_in_no_doubt(right: bool, at: int) -> None:
    place = found(off([1.0, 2.0, 3.0], 0.0), off([2.0], 0.0), right)
    assert place.value.item() == at and place.is_exact


def test_what_is_looked_up_beside_is_as_far_as_it_is() -> None:
    table = torch.tensor([0.0, 1.0, 10.0, 11.0])
    place = found(off([1.0, 2.0, 3.0], 0.01), off([1.995, 2.5], 0.01))
    swing = swing_beside(lambda at: table[at], place, table, 0, table[place.value])
    assert swing is not None and swing.tolist() == [9.0, 0.0]


def test_beside_many_places_only_what_rises_or_falls_all_along_is_known() -> None:
    """A count that is off by hundreds, as of what lies below a chance, in a row that a sort has made."""
    rising = torch.arange(1000.0).square()
    place = replace(off([500.0, 20.0], 100.0), value=torch.tensor([500, 20]), dtype="i64")
    for table in (rising, -rising):
        swing = swing_beside(lambda at, t=table: t[at], place, table, 0, table[place.value])
        assert swing is not None and swing.tolist() == [600**2 - 500**2, 120**2 - 20**2]
    turned = rising.roll(1)
    assert swing_beside(lambda at: turned[at], place, turned, 0, turned[place.value]) is None


DRAWN = """
import torch

def drawn(p, u):
    \"\"\"Indices drawn by chances that sum up, and how likely each was.\"\"\"
    chances = p.abs()
    totals = torch.cumsum(chances, 0)
    at = torch.searchsorted(totals, u.abs().clamp(max=1.0) * totals[-1]).clamp(max=chances.numel() - 1)
    return at, chances[at]

inputs = [torch.randn(3000), torch.rand(5000)]
"""
RELEVANT = """
import torch

def first_relevant(scores, labels):
    \"\"\"Reciprocal rank of the first of four that is relevant: where scores are equal, of any four.\"\"\"
    hit = (torch.gather(labels, 1, scores.topk(4, dim=1).indices) >= 0.5).float()
    first = torch.argmax(hit, dim=1)
    return hit.amax(1) / (first + 1).float()

inputs = [torch.randn(60, 32), torch.rand(60, 32)]
"""


FILLED = """
import torch

def kept(scores, mask):
    return (scores * 0.125).masked_fill(mask, {fill})

inputs = [torch.randn(40, 60), torch.rand(40, 60) < 0.7]
"""
PEAKS = """
import torch
import torch.nn.functional as F

def peaks(image):
    \"\"\"The largest around of what is made of many neighbours each.\"\"\"
    r = F.avg_pool2d(image.square(), 5, 1, 2) - F.avg_pool2d(image, 5, 1, 2).square()
    return (r == F.max_pool2d(r, 3, 1, 1)) & (r > 0.05)

inputs = [torch.rand(2, 1, 40, 44)]
"""
BEST = """
import torch

def best(scores):
    shares = scores.softmax(-1)
    return torch.where(shares == shares.amax(-1, keepdim=True), shares, 0.0)

inputs = [torch.randn(40, 60)]
"""
CUT = """
import torch

def typical(logits, noise, mass: float = 0.9):
    \"\"\"A token of those that are about as likely as the entropy says.\"\"\"
    logp = torch.log_softmax(logits.float(), -1)
    entropy = -(logp.exp() * logp).sum(-1, keepdim=True)
    shifted = (-logp - entropy).abs()
    ordered, where = torch.sort(shifted)
    cumulative = logits.gather(-1, where).float().softmax(-1).cumsum(-1)
    last = (cumulative < mass).sum(-1, keepdim=True).clamp(max=logits.shape[-1] - 1)
    cut = shifted > ordered.gather(-1, last)
    return (logits.float().masked_fill(cut, float("-inf")) + noise).argmax(-1), (~cut).sum(-1)

inputs = [torch.randn(12, 300, dtype=torch.bfloat16) * 3, torch.randn(12, 300)]
"""


def verdict(problem: Problem, kernel: Kernel) -> Outcome:
    return judge(problem, kernel, H100, JudgeOptions(seed=1, races=False), lambda stage: None).outcome


@pytest.mark.many(3)
@pytest.mark.parametrize("source", [DRAWN, RELEVANT, PEAKS, CUT])
def test_honest_kernels_are_not_turned_away(source: str) -> None:
    problem = opened(source)
    outcome = verdict(problem, generate(problem, (("vector_width", "4"),)).kernel)
    assert outcome.kind == "passed", outcome


def test_an_index_beside_the_right_one_is_wrong() -> None:
    """Nearly none of the values lie at an edge: what holds for those holds for no other."""
    problem = opened(DRAWN)
    kernel = generate(problem, ()).kernel
    wrong = kernel.source.replace("(searchsorted[i], ", "(searchsorted[i] + 1, ", 1)
    assert wrong != kernel.source
    outcome = verdict(problem, kernel.model_copy(update={"source": wrong}))
    assert outcome.kind == "mismatch", outcome


@pytest.mark.many(2)
@pytest.mark.parametrize("fill", ["-1e9", "-1e30", "torch.finfo(torch.float32).min"])
def test_what_a_mask_puts_there_is_no_measure_of_what_it_leaves(fill: str) -> None:
    """Twice the scores are wrong, however large a number stands beside them."""
    problem = opened(FILLED.format(fill=fill))
    kernel = generate(problem, ()).kernel
    wrong = kernel.model_copy(update={"source": kernel.source.replace("0.125f", "0.1250002f")})
    assert wrong.source != kernel.source and verdict(problem, wrong).kind == "mismatch"


@pytest.mark.parametrize("source", [PEAKS, BEST])
def test_a_peak_is_equal_to_itself(source: str) -> None:
    """A kernel that finds none would pass where every comparison of a computed value were in doubt."""
    problem = opened(source)
    kernel = generate(problem, ()).kernel
    plan, _, text = kernel.source.partition("*/")
    none = kernel.model_copy(update={"source": f"{plan}*/{text.replace(' == ', ' < ')}"})
    assert none.source != kernel.source and verdict(problem, none).kind == "mismatch"


@pytest.mark.parametrize(("right", "wrong"), [("0.9f", "0.8f"), ("> sort_", ">= sort_")])
def test_where_a_row_is_cut_off_is_known(right: str, wrong: str) -> None:
    """Some of a row's scores are as good as one another, and yet it is cut off at one of its own: a kernel
    that keeps one element less, or the elements of another share, is wrong."""
    problem = opened(CUT)
    kernel = generate(problem, ()).kernel
    plan, _, text = kernel.source.partition("*/")
    other = kernel.model_copy(update={"source": f"{plan}*/{text.replace(right, wrong)}"})
    assert other.source != kernel.source and verdict(problem, other).kind == "mismatch"
