"""Statistics taken out of sums: what goes along in one read is what three reads gave, NaN for NaN."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, plan_of, run
from workbench.model import H100, Vector
from workbench.playbook.analysis.row_passes import RowSpace, passes_of
from workbench.playbook.device_functions import weighted_helpers
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.ir.program import Kernel
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import program_of, traits_of

ON: Vector = (("single_pass", "on"),)
WIDE: Vector = (*ON, ("vector_width", "4"))
LAYOUTS: dict[str, Vector] = {
    "two passes": (),
    "one by one": ON,
    "block": (*WIDE, ("block_size", "64")),
    "warp": (*WIDE, ("threads_per_row", "warp")),
    "chains": (*WIDE, ("chains", "many")),
    "split": (*WIDE, ("grid_split", "on"), ("block_size", "64"), ("split_join", "last")),
}


def divergence(t: dict[str, Tensor]) -> Tensor:
    return F.kl_div(t["x"].log_softmax(1), t["y"].softmax(1), reduction="none").sum(1)


def by_hand(t: dict[str, Tensor]) -> Tensor:
    return (t["y"].softmax(1) * (t["y"].log_softmax(1) - t["x"].log_softmax(1))).sum(1)


def soft_labels(t: dict[str, Tensor]) -> Tensor:
    return -(t["y"].softmax(1) * t["x"].log_softmax(1)).sum(1)


def weighted_mean(t: dict[str, Tensor]) -> Tensor:
    return (t["y"].softmax(1) * t["x"]).sum(1)


def evenly(t: dict[str, Tensor]) -> Tensor:
    return -t["x"].log_softmax(1).mean(1)


CALLS: dict[str, tuple[Call, str]] = {
    "divergence": (divergence, "OnlineDivergence<true>"),
    "by_hand": (by_hand, "OnlineDivergence<false>"),
    "soft_labels": (soft_labels, "OnlineDivergence<false>"),
    "weighted_mean": (weighted_mean, "OnlineWeighted"),
    "evenly": (evenly, "OnlineDistances"),
}


def tensors_of(*shape: int) -> dict[str, Tensor]:
    torch.manual_seed(0)
    return {"x": torch.randn(shape) * 3 + 50, "y": torch.randn(shape) * 5 - 1000}


def passes(call: Call, without: frozenset[str], single_pass: bool) -> int:
    program = program_of(problem_of(call, tensors_of(6, 36)), True, without)
    kernel = next(step for step in program.steps if isinstance(step, Kernel))
    return len(passes_of(RowSpace(program.pool, kernel), kernel, single_pass))


@pytest.mark.parametrize("name", CALLS)
def test_three_passes_become_two_and_one(name: str) -> None:
    call, _ = CALLS[name]
    assert passes(call, frozenset(["taken_out"]), False) == 3
    assert passes(call, frozenset(["taken_out"]), True) == 2
    assert passes(call, frozenset(), False) == 2
    assert passes(call, frozenset(), True) == 1


@pytest.mark.many(6)
@pytest.mark.parametrize(("name", "layout"), crossed(CALLS, LAYOUTS))
def test_far_from_zero_and_of_odd_length(name: str, layout: str) -> None:
    call, accumulator = CALLS[name]
    tensors = tensors_of(3, 2053 if layout == "split" else 137)
    source = generate(problem_of(call, tensors, varying=False), LAYOUTS[layout]).kernel.source
    assert (accumulator in source) is (layout != "two passes")
    check(call, source, tensors, "checked")


def special() -> dict[str, Tensor]:
    """Every pair of special values, alone in a row and beside each other, first and last."""
    least = torch.finfo(torch.float32).min
    values = (0.0, torch.nan, torch.inf, -torch.inf, 1e30, -1e30, 1e4)
    weights = (0.0, torch.nan, torch.inf, -torch.inf, 3e38, least, 1e4)
    rows = []
    for one, other in itertools.product(values, weights):
        for at, against in ((0, 0), (0, 8), (8, 0), (8, 8)):
            x, y = torch.randn(9), torch.randn(9)
            x[at], y[against] = one, other
            rows.append((x, y))
    rows += [(torch.full((9,), one), torch.randn(9)) for one in values]
    rows += [(torch.randn(9), torch.full((9,), one)) for one in weights]
    for instead in (-torch.inf, least):
        masked = torch.randn(9)
        masked[:7] = instead
        rows += [(masked, masked), (torch.randn(9), masked), (masked.clamp(min=-1e30), torch.randn(9))]
    return {"x": torch.stack([x for x, _ in rows]), "y": torch.stack([y for _, y in rows])}


@pytest.mark.many(7)
@pytest.mark.parametrize(("name", "layout"), crossed(CALLS, ["two passes", "one by one", "block", "warp"]))
def test_special_values_come_out_where_the_sum_as_it_was_has_them(name: str, layout: str) -> None:
    torch.manual_seed(1)
    call, _ = CALLS[name]
    tensors = special()
    if name == "weighted_mean":  # sums of the largest floats themselves overflow before they are divided
        tensors["x"] = tensors["x"].clamp(-1e30, 1e30).where(tensors["x"].isfinite(), tensors["x"])
    source = generate(problem_of(call, tensors), LAYOUTS[layout]).kernel.source
    (got,) = run(source, tensors).outputs
    torch.testing.assert_close(got, call(tensors), equal_nan=True, rtol=1e-4, atol=1e-4)


@pytest.mark.many(6)
@pytest.mark.parametrize("layout", ["one by one", "block", "warp"])
@pytest.mark.parametrize("name", ["divergence", "by_hand"])
def test_a_masked_beginning_beside_a_huge_number_is_no_nan(name: str, layout: str) -> None:
    """No weight was seen yet, and the other row's maximum rises by more than a float holds: 0 times that."""
    torch.manual_seed(2)
    call, _ = CALLS[name]
    x, y = torch.randn(1, 700), torch.randn(1, 700)
    x[0, 2], y[0, :600] = 1e32, torch.finfo(torch.float32).min
    tensors = {"x": x, "y": y}
    (want,) = call(tensors)
    (got,) = run(generate(problem_of(call, tensors), LAYOUTS[layout]).kernel.source, tensors).outputs
    assert want.isfinite() and got.item() == pytest.approx(want.item(), rel=1e-4)


@pytest.mark.slow
def test_a_sum_of_logarithms_goes_along_with_its_maximum() -> None:
    """Smoothed labels: the sum over all classes and the logit at the label, in one read of the row."""
    torch.manual_seed(3)
    for rows, columns in ((1, 1), (5, 7), (3, 2053)):
        x, label = torch.randn(rows, columns) * 3 + 1e4, torch.randint(0, columns, (rows,))
        label[0] = -100
        for kind in ("none", "mean", "sum"):

            def call(t: dict[str, Tensor], kind: str = kind) -> Tensor:
                return F.cross_entropy(t["x"], t["label"], label_smoothing=0.1, reduction=kind)

            tensors = {"x": x, "label": label}
            if kind == "mean" and rows == 1:
                continue  # no label counts: 0 / 0
            for layout in ("block", "warp", "one by one"):
                source = generate(problem_of(call, tensors), LAYOUTS[layout]).kernel.source
                assert columns == 1 or "OnlineDistances" in source
                check(call, source, tensors, "checked")


def test_distances_of_values_whose_difference_no_float_holds() -> None:
    rows = [[-3e38, 3e38, 0.0], [3e38, -3e38, 1.0], [torch.finfo(torch.float32).min, 1e32, 0.0]]
    tensors = {"x": torch.tensor(rows)}
    for layout in ("two passes", "one by one", "block", "warp"):
        (got,) = run(generate(problem_of(evenly, tensors), LAYOUTS[layout]).kernel.source, tensors).outputs
        torch.testing.assert_close(got, evenly(tensors))


def test_two_equal_rows_do_not_diverge() -> None:
    """Both sums cancel: what is left is of the size of their rounding, as it is element by element."""
    x = torch.randn(4, 4099) * 8
    tensors = {"x": x, "y": x.clone()}
    source = generate(problem_of(divergence, tensors), LAYOUTS["block"]).kernel.source
    (got,) = run(source, tensors).outputs
    assert got.abs().max() < 1e-5


@pytest.mark.many(5)
@pytest.mark.parametrize(
    "call",
    [
        lambda t: (t["x"].exp() * (t["y"] - t["y"].mean(1, True))).sum(1),
        lambda t: (t["y"].softmax(1) * (t["x"] - t["x"].mean(1, True))).sum(1),
        lambda t: (t["x"] * (t["y"] - t["y"].logsumexp(1, True))).sum(1),
        lambda t: t["x"].softmax(1).pow(2).sum(1),
        lambda t: (t["x"] / t["x"].norm(dim=1, keepdim=True)).sum(1),
    ],
)
def test_what_would_cancel_or_overflow_stays(call: Call) -> None:
    tensors = tensors_of(6, 36)
    assert "taken_out" not in traits_of(problem_of(call, tensors)).rewrites
    check(call, generate(problem_of(call, tensors), WIDE).kernel.source, tensors)


def test_a_wrong_rewrite_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Distances that do not grow with their maximum, and weights that do not shrink."""
    tensors = tensors_of(6, 300)
    problem = problem_of(divergence, tensors)
    right = weighted_helpers.WEIGHTED["divergence"]
    source = generate(problem, LAYOUTS["block"]).kernel.source
    assert right.strip() in source
    for good, bad in (
        ("a.cross + other_down * a.sum", "a.cross"),
        ("a.own + down * a.sum", "a.own"),
        ("return {to.top, sum, to.other_top", "return {to.top, a.sum, to.other_top"),
        ("a.other_sum * exp_below(a.other_top - to.other_top)", "a.other_sum"),
    ):
        assert good in source
        with pytest.raises(AssertionError, match="times the allowed error"):
            check(divergence, source.replace(good, bad), tensors)


def test_distances_that_do_not_grow_with_their_maximum_are_caught() -> None:
    tensors = {"x": torch.randn(6, 300) * 3}
    source = generate(problem_of(evenly, tensors), LAYOUTS["block"]).kernel.source
    good = "a.below + a.count * down"
    assert good in source
    with pytest.raises(AssertionError, match="times the allowed error"):
        check(evenly, source.replace(good, "a.below"), tensors)


def test_the_model_of_time_prefers_one_read_of_long_rows() -> None:
    """Rows of 32,000, two tensors: nothing keeps them on the chip, so a second pass is a second read."""
    tensors = {name: torch.empty(4096, 32000) for name in "xy"}
    problem = problem_of(divergence, tensors)
    case = problem.cases[0].size_map
    wide: Vector = (("block_size", "1024"), ("vector_width", "4"))
    once = estimate(problem, settled(problem, (*wide, *ON)), H100, case)
    twice = estimate(problem, settled(problem, (*wide, *ON, ("taken_out", "off"))), H100, case)
    assert once.dram_bytes == pytest.approx(2 * 4 * 4096 * 32000, rel=0.01)
    assert twice.dram_bytes > 1.5 * once.dram_bytes
    assert once.us < 0.7 * twice.us
    assert plan_of(generate(problem, settled(problem, (*wide, *ON))).kernel.source, tensors).launches
