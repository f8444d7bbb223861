"""Running logarithms of sums of exponentials: pairs of a maximum and a sum, whoever scans."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import plan_of, run
from workbench.compile import compile_kernel
from workbench.model import H100, CompileReport, Vector
from workbench.playbook.analysis.arithmetic import scanned
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.techniques.offers import fast_math
from workbench.playbook.techniques.traits import traits_of

SMALL: Vector = (("block_size", "64"), ("scan_tile", "4"), ("vector_width", "4"))
ALONG: dict[str, Vector] = {
    "one at a time": (("block_size", "64"),),
    "vectors": (("block_size", "128"), ("vector_width", "4")),
    "tiles": (*SMALL, ("look_back", "on")),
    "fast": (("block_size", "64"), ("fast_math", "on"), ("vector_width", "2")),
}
DOWN: dict[str, Vector] = {
    "threads": (("block_size", "64"),),
    "bundle": (*SMALL, ("scan_by", "bundle")),
    "pieces": (*SMALL, ("scan_by", "pieces")),
}
WAYS = [*((1, vector) for vector in ALONG.values()), *((0, vector) for vector in DOWN.values())]
NAMES = [*ALONG, *DOWN]


def along(t: dict[str, Tensor]) -> Tensor:
    return t["x"].logcumsumexp(1)


def down(t: dict[str, Tensor]) -> Tensor:
    return t["x"].logcumsumexp(0)


def back(t: dict[str, Tensor]) -> Tensor:
    return t["x"].flip(1).logcumsumexp(1).flip(1)


def computed(t: dict[str, Tensor]) -> Tensor:
    return (t["x"] * 2 + 1).logcumsumexp(1).tanh() * t["x"]


def of_sums(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    first = (t["x"] / 32).cumsum(1)
    return first.logcumsumexp(1), first


def sums_of(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    first = t["x"].logcumsumexp(1)
    return first, (first * t["x"]).cumsum(1)


def rows(columns: int) -> Tensor:
    """Steep ones, up and down, far from one another; and draws near zero."""
    torch.manual_seed(0)
    line = torch.linspace(-1, 1, columns)
    cliff = torch.where(line < 0.3, -200.0, 200.0)
    drawn = torch.randn(4, columns)
    return torch.stack([line * 700, line * -700, cliff, -cliff, line * 1e30, *drawn])


def result(call: Call, x: Tensor, vector: Vector) -> tuple[Tensor, ...]:
    execution = run(generate(problem_of(call, {"x": x}), vector).kernel.source, {"x": x}, "checked")
    assert not execution.report.hazards
    return execution.outputs


@pytest.mark.many(7)
@pytest.mark.parametrize(("axis", "vector"), WAYS, ids=NAMES)
def test_every_total_is_right_beside_those_before_it(axis: int, vector: Vector) -> None:
    """What lies far below a later maximum does not vanish from the totals before that maximum."""
    x = rows(1100)
    want = x.double().logcumsumexp(1)
    got = result(along, x, vector)[0] if axis else result(down, x.t().contiguous(), vector)[0].t()
    assert torch.allclose(got.double(), want, rtol=4e-7, atol=2e-6)


@pytest.mark.many(6)
@pytest.mark.parametrize("call", [back, computed, of_sums, sums_of])
@pytest.mark.parametrize("width", ["1", "4"])
def test_with_work_around_and_scans_beside(call: Call, width: str) -> None:
    x = torch.randn(3, 600)
    wanted = call({"x": x.double()})
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for got, want in zip(
        result(call, x, (("block_size", "64"), ("vector_width", width))), wanted, strict=True
    ):
        assert torch.allclose(got.double(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.many(13)
@pytest.mark.parametrize(("axis", "vector"), WAYS, ids=NAMES)
def test_infinities_and_nan(axis: int, vector: Vector) -> None:
    x = torch.randn(8, 1032)
    inf, largest = torch.inf, torch.finfo(torch.float32).max
    x[0, :7] = -inf
    x[1] = -inf
    x[2, 500], x[2, 700] = inf, -inf
    x[3, 300], x[3, 400] = inf, torch.nan
    x[4, 2] = torch.nan
    x[5, 0], x[5, 1], x[5, 9] = -inf, inf, inf
    x[6, 3], x[6, 5] = -largest, largest
    x[7, 5], x[7, 6] = largest, inf
    want = x.logcumsumexp(1)
    got = result(along, x, vector)[0] if axis else result(down, x.t().contiguous(), vector)[0].t()
    torch.testing.assert_close(got, want, equal_nan=True, rtol=1e-6, atol=2e-6)


def test_doubles_keep_their_digits() -> None:
    x = rows(300).double()
    for vector in ALONG.values():
        got = result(along, x, vector)[0]
        assert torch.allclose(got, x.logcumsumexp(1), rtol=1e-14, atol=1e-14)


def test_one_logarithm_for_each_column_and_no_more() -> None:
    source = generate(problem_of(along, {"x": torch.randn(8, 1024)}), ALONG["vectors"]).kernel.source
    assert source.count("logf(") == 1
    assert "log1p" not in source


def test_the_model_of_time_sees_what_a_join_takes() -> None:
    problem = problem_of(along, {"x": torch.zeros(8192, 1024)})
    assert fast_math(traits_of(problem), {}) == ("off", "on")
    assert scanned("logsumexp", "f32", True).value < scanned("logsumexp", "f32", False).value
    sizes = problem.cases[0].size_map
    us = {width: estimate(problem, (("vector_width", width),), H100, sizes).us for width in "124"}
    assert us["1"] > us["2"] > us["4"], "joins are shared out among the columns of a thread"


@pytest.mark.many(6)
@pytest.mark.parametrize(("axis", "vector"), WAYS, ids=NAMES)
def test_compiles_for_the_gpu(axis: int, vector: Vector) -> None:
    x = rows(1100) if axis else rows(1100).t().contiguous()
    source = generate(problem_of(along if axis else down, {"x": x}), vector).kernel.source
    report = compile_kernel(source, plan_of(source, {"x": x}).instances)
    assert isinstance(report, CompileReport), report
    assert not report.warnings
