"""Running totals along short rows: lanes of a warp scan them, behind a walk for what is reduced before."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import run
from workbench.model import H100, Vector
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.techniques.offers import scan_lanes
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import traits_of

LANES = ("block", "32", "16", "8", "4", "2", "1")


def totals(t: dict[str, Tensor]) -> Tensor:
    return t["x"].cumsum(1)


def left(t: dict[str, Tensor]) -> Tensor:
    """What is left before each share is taken: an exclusive product."""
    rest = (1 - torch.sigmoid(t["x"])).cumprod(1)
    return torch.cat([torch.ones_like(rest[:, :1]), rest[:, :-1]], 1) * t["x"]


def from_the_end(t: dict[str, Tensor]) -> Tensor:
    return t["x"].flip(1).logcumsumexp(1).flip(1)


def largest(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    found = t["x"].round().cummax(1)
    return found.values, found.indices


def of_softmax(t: dict[str, Tensor]) -> Tensor:
    return torch.softmax(t["x"] / 2.83, 1).cumsum(1) * 2


def summed(t: dict[str, Tensor]) -> Tensor:
    return (torch.softmax(t["x"] / 2.83, 1).cumsum(1) - t["x"]).square().sum(1)


def twice(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    first = t["x"].cumsum(1)
    return first, first.cumsum(1)


def vector_of(lanes: str, width: str) -> Vector:
    return (("block_size", "64"), ("scan_lanes", lanes), ("vector_width", width))


def offered(rows: int, columns: int, call: Call = totals) -> tuple[str, ...]:
    return scan_lanes(traits_of(problem_of(call, {"x": torch.randn(rows, columns)})), {})


@pytest.mark.many(84)
@pytest.mark.parametrize("call", [totals, left, from_the_end, largest, of_softmax, summed])
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("width", ["1", "4"])
def test_as_torch_has_it(call: Call, lanes: str, width: str) -> None:
    """Of 36 columns, so that one lane has many tiles and a warp has idle lanes; rows are no whole block."""
    torch.manual_seed(0)
    x = torch.randn(37, 36)
    problem = problem_of(call, {"x": x})
    vector = settled(problem, (*vector_of(lanes, width), ("row_sums", "warp")))
    assert ("scan_lanes", lanes) in vector
    execution = run(generate(problem, vector).kernel.source, {"x": x}, "checked")
    assert not execution.report.hazards
    wanted = call({"x": x.double()})
    for got, want in zip(execution.outputs, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        torch.testing.assert_close(got.double(), want.double(), rtol=2e-6, atol=2e-5)


def test_infinities_and_nan_stay_in_their_rows() -> None:
    x = torch.randn(12, 8)
    x[0, 3], x[1, 0], x[2, 7], x[3, 2], x[3, 5] = torch.nan, torch.inf, -torch.inf, torch.inf, -torch.inf
    for lanes in ("fit", "4", "1"):
        source = generate(problem_of(totals, {"x": x}), vector_of(lanes, "4")).kernel.source
        got = run(source, {"x": x}, "checked").outputs[0]
        torch.testing.assert_close(got, x.cumsum(1), equal_nan=True)


def test_a_short_row_has_as_many_lanes_as_vectors() -> None:
    source = generate(problem_of(totals, {"x": torch.randn(4096, 8)}), vector_of("fit", "4")).kernel.source
    assert "lane_scan<Sum, 2>" in source
    assert "__syncthreads" not in source


def test_long_rows_are_a_block_s_and_those_of_no_warp_are_not_offered_one() -> None:
    source = generate(problem_of(totals, {"x": torch.randn(64, 4096)}), vector_of("fit", "4")).kernel.source
    assert "block_scan<Sum>" in source
    assert offered(64, 4096) == ()
    assert offered(4096, 8) == ("fit", "block", "8", "4", "2", "1")
    assert offered(4096, 100)[-1] == "2"


def test_what_is_reduced_before_needs_no_launch_of_its_own() -> None:
    problem = problem_of(of_softmax, {"x": torch.randn(4096, 32)})
    source = generate(problem, vector_of("fit", "4")).kernel.source
    assert source.count("\n    launch(") == 1
    by_blocks = generate(problem, vector_of("block", "4")).kernel.source
    assert by_blocks.count("\n    launch(") == 1 and "block_reduce<Max>" in by_blocks


def test_the_model_of_time_knows_that_a_block_is_too_much_for_eight_columns() -> None:
    problem = problem_of(totals, {"x": torch.zeros(1 << 20, 8)})
    sizes = problem.cases[0].size_map
    few, many = (estimate(problem, vector_of(lanes, "4"), H100, sizes).us for lanes in ("fit", "block"))
    assert many > 20 * few


def test_two_scans_in_one_kernel_have_lanes_too() -> None:
    """The model of time, what is offered, and the kernel agree on that."""
    problem = problem_of(twice, {"x": torch.randn(4096, 8)})
    assert offered(4096, 8, twice) == ("fit", "block", "8", "4", "2", "1")
    assert generate(problem, vector_of("fit", "4")).kernel.source.count("lane_scan<Sum, 2>") == 2
    sizes = problem.cases[0].size_map
    few, many = (estimate(problem, vector_of(lanes, "4"), H100, sizes).us for lanes in ("fit", "block"))
    assert few < many
