"""Techniques that change instructions: another source, the same numbers, offered where they help."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.playbook.problems import problem_of
from tests.playbook.running import check, plan_of
from workbench.compile import compile_kernel
from workbench.model import H100, CompileReport, Problem, Vector
from workbench.playbook.estimates.estimate import predicted_factor
from workbench.playbook.generate import generate
from workbench.playbook.techniques.table import TECHNIQUES, settled

Call = Callable[[dict[str, Tensor]], Tensor]
WIDE: Vector = (("vector_width", "4"),)
KEPT: Vector = (("row_cache", "registers"), ("vector_width", "4"))


def softmax(t: dict[str, Tensor]) -> Tensor:
    return torch.softmax(t["x"], 1)


def layer_norm(t: dict[str, Tensor]) -> Tensor:
    return F.layer_norm(t["x"], (t["x"].shape[1],))


def argmax(t: dict[str, Tensor]) -> Tensor:
    return torch.argmax(t["x"], 1)


def shares(t: dict[str, Tensor]) -> Tensor:
    return t["x"] / (t["x"].sum(1, keepdim=True) + 100.0)


def shifted(t: dict[str, Tensor]) -> Tensor:
    return F.relu(t["x"] / 3.0) + torch.arange(t["x"].shape[1], device=t["x"].device)


CASES: tuple[tuple[Call, Vector, str, str, str], ...] = (
    (softmax, WIDE, "chains", "many", "_chains[VEC]"),
    (softmax, (*WIDE, ("single_pass", "on")), "chains", "many", "OnlineSoftmax::join"),
    (layer_norm, (*WIDE, ("single_pass", "on")), "chains", "many", "moments_chains[VEC]"),
    (argmax, WIDE, "chains", "many", "Best<float> x_argmax_chains[VEC]"),
    (softmax, (*WIDE, ("threads_per_row", "warp")), "chains", "many", "_chains[VEC]"),
    (shares, KEPT, "reciprocal", "on", "1.0f / "),
    (shifted, WIDE, "reciprocal", "on", "* 0.33333333f"),
    (softmax, KEPT, "occupancy", "full", "__launch_bounds__(THREADS, 2048 / THREADS)"),
    (softmax, KEPT, "occupancy", "half", "__launch_bounds__(THREADS, 1024 / THREADS)"),
    (shifted, WIDE, "index_width", "32", "const int i = "),
    (shifted, (("loads_in_flight", "4"),), "index_width", "32", "const int i = "),
    (shifted, (("persistent_grid", "on"),), "index_width", "32", "const int step = "),
    (softmax, WIDE, "loads_in_flight", "4", "x_pack[i] = load<VEC>"),
    (argmax, (*WIDE, ("threads_per_row", "warp")), "loads_in_flight", "2", "x_pack[2];"),
    (shifted, WIDE, "stores", "streamed", "store_once"),
    (softmax, WIDE, "stores", "streamed", "store_once"),
)


def made(call: Call, vector: Vector) -> str:
    x = torch.empty(9, 132, device="meta")
    return generate(problem_of(call, {"x": x}, call.__name__), vector).kernel.source


@pytest.mark.many(29)
@pytest.mark.parametrize(("call", "base", "name", "value", "mark"), CASES)
def test_another_source_the_same_numbers(call: Call, base: Vector, name: str, value: str, mark: str) -> None:
    plain, tuned = made(call, base), made(call, (*base, (name, value)))
    assert mark in tuned and mark not in plain
    torch.manual_seed(0)
    check(call, tuned, {"x": torch.randn(9, 132)}, "checked")
    report = compile_kernel(tuned, plan_of(tuned, {"x": torch.randn(9, 132)}).instances)
    assert isinstance(report, CompileReport) and not report.warnings


def sized(call: Call, rows: int, columns: int) -> Problem:
    return problem_of(call, {"x": torch.empty(rows, columns, device="meta")}, call.__name__)


def offered(problem: Problem, base: Vector, name: str) -> bool:
    return name in dict(settled(problem, base))


def test_each_is_offered_only_where_it_makes_sense() -> None:
    rows, flat = sized(softmax, 64, 4096), sized(shifted, 64, 4096)
    assert (
        offered(rows, WIDE, "chains")
        and not offered(rows, (), "chains")
        and not offered(flat, WIDE, "chains")
    )
    assert offered(sized(shares, 64, 4096), KEPT, "reciprocal") and not offered(rows, KEPT, "reciprocal")
    assert offered(rows, KEPT, "occupancy") and not offered(rows, WIDE, "occupancy")
    assert offered(flat, (), "index_width") and not offered(rows, WIDE, "index_width")
    assert not offered(sized(shifted, 70_000, 70_000), (), "index_width")
    assert offered(rows, WIDE, "stores") and not offered(rows, (("stream_hints", "on"),), "stores")


def test_a_plan_with_narrow_indices_refuses_what_they_cannot_count() -> None:
    source = made(shifted, (("index_width", "32"),))
    with pytest.raises(Exception, match="32 bits"):
        plan_of(source, {"x": torch.empty(50_000, 50_000, device="meta")})


def test_predictions_follow_the_arithmetic() -> None:
    single: Vector = (*WIDE, ("single_pass", "on"))
    many: Vector = (*single, ("chains", "many"))
    assert predicted_factor(sized(argmax, 1, 4096), WIDE, (*WIDE, ("chains", "many")), H100) > 1.1
    assert predicted_factor(sized(layer_norm, 1, 4096), single, many, H100) <= 1, "moments take vectors in"
    kept = sized(softmax, 4096, 8192)
    crowded: Vector = (*KEPT, ("block_size", "256"))
    assert predicted_factor(kept, crowded, (*crowded, ("occupancy", "full")), H100) < 1.05


def test_there_are_twenty() -> None:
    assert len(TECHNIQUES) >= 20
