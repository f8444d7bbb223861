"""Scans of rows that lie side by side: right at awkward sizes and in any order, the same each time."""

import pytest
import torch
from torch import Tensor

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, plan_of, reference
from workbench.compile import compile_kernel
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import H100, CompileReport, Problem, Vector
from workbench.playbook.estimates.estimate import estimate, predicted_factor
from workbench.playbook.generate import generate
from workbench.playbook.kernels.stacked import MOST_WORDS, pieces_of_columns
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.schedules.schedule import schedule_of
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import traits_of

SMALL: Vector = (("block_size", "64"), ("scan_tile", "4"))
WAYS: dict[str, Vector] = {
    "pieces": (*SMALL, ("scan_by", "pieces"), ("vector_width", "4")),
    "bundle": (*SMALL, ("scan_by", "bundle"), ("vector_width", "4")),
}
ONE_AT_A_TIME: Vector = (*SMALL, ("scan_by", "pieces"), ("vector_width", "1"))
TURNS = (Options(case="races", races=True), Options(case="reverse", reverse=True))
CALLS: dict[str, tuple[Call, torch.dtype]] = {
    "sum": (lambda t: t["x"].cumsum(0), torch.float32),
    "half": (lambda t: t["x"].cumsum(0), torch.float16),
    "product": (lambda t: (t["x"] / 99 + 1).cumprod(0), torch.bfloat16),
    "exclusive": (lambda t: t["x"].cumsum(0) - t["x"], torch.float32),
    "back": (lambda t: t["x"].flip(0).cumsum(0).flip(0) * t["x"], torch.float32),
    "largest": (lambda t: t["x"].cummax(0).values, torch.bfloat16),
    "place": (lambda t: t["x"].cummin(0).indices, torch.float32),
    "logarithm": (lambda t: t["x"].logcumsumexp(0), torch.float32),
    "whole_numbers": (lambda t: (t["x"] > 0).cumsum(0), torch.float32),
    "starts": (
        lambda t: torch.where(t["x"] > 0.1, torch.arange(t["x"].shape[0])[:, None], 0).cummax(0).values,
        torch.float32,
    ),
    "double": (lambda t: t["x"].cumsum(0), torch.float64),
    "double_place": (lambda t: t["x"].cummax(0).indices, torch.float64),
    "with_a_tail": (lambda t: torch.tanh(t["x"].cumsum(0) + t["x"][0]) * t["x"], torch.float32),
    "two": (lambda t: (t["x"].cumsum(0), (t["x"] / 99 + 1).cumprod(0)), torch.float32),
}
OFTEN = ("sum", "exclusive", "back", "place", "whole_numbers")


def columns(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    torch.manual_seed(sum(shape))
    return {"x": (torch.randn(shape) / 8).to(dtype)}


def in_all_turns(call: Call, source: str, tensors: dict[str, Tensor]) -> list[Tensor]:
    """Run it in two orders of threads and blocks; no hazards, nothing kept, the same bits."""
    plan = plan_of(source, tensors)
    built = build(source, plan.instances, "checked")
    runs = []
    for options in TURNS:
        done = execute(plan, built, tensors, options)
        assert not done.report.hazards, done.report.hazards[0].message
        assert not done.report.kept, "what the pieces told is forgotten"
        for got, want in zip(done.outputs, reference(call, tensors), strict=True):
            torch.testing.assert_close(got.double(), want.double(), rtol=4e-3, atol=2e-4)
        runs.append(done.outputs)
    for one, other in zip(*runs, strict=True):
        assert torch.equal(one, other), "the same totals are joined in the same order"
    return list(runs[0])


@pytest.mark.parametrize("way", WAYS)
def test_what_rows_share_does_not_say_how_they_lie(way: str) -> None:
    """Labels are read along a scan of their one-hot code, and its totals are written across."""
    tensors = {"label": torch.randint(0, 40, (300,))}

    def taken_before(t: dict[str, Tensor]) -> Tensor:
        return (t["label"][:, None] == torch.arange(40)).cumsum(0)

    problem = problem_of(taken_before, tensors)
    assert dict(settled(problem, WAYS[way])).get("scan_by") == way
    in_all_turns(taken_before, generate(problem, WAYS[way]).kernel.source, tensors)


@pytest.mark.many(5)
@pytest.mark.parametrize(("way", "name"), crossed(WAYS, OFTEN))
def test_right_whoever_comes_first(name: str, way: str) -> None:
    call, dtype = CALLS[name]
    source = generate(problem_of(call, columns((300, 40), dtype)), WAYS[way]).kernel.source
    for shape in ((300, 40), (97, 37)):
        tensors = columns(shape, dtype)
        in_all_turns(call, source, tensors)
        cut = any("_pieces" in launch.kernel for launch in plan_of(source, tensors).launches)
        assert cut == (way == "pieces")


@pytest.mark.sweep
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CALLS)
def test_right_at_other_sizes(name: str, way: str) -> None:
    call, dtype = CALLS[name]
    source = generate(problem_of(call, columns((300, 40), dtype)), WAYS[way]).kernel.source
    for shape in ((300, 40), (97, 37), (1031, 3), (5, 1), (1, 70), (33, 258)):
        in_all_turns(call, source, columns(shape, dtype))


@pytest.mark.many(3)
@pytest.mark.parametrize("count", [512, 512 + 8, 617])
def test_more_pieces_than_one_hears_at_once(count: int) -> None:
    tensors = columns((count, 5))
    call = CALLS["back"][0]
    source = generate(problem_of(call, tensors), ONE_AT_A_TIME).kernel.source
    assert plan_of(source, tensors).launches[0].grid[0] == -(-count // 32)
    wide = columns((count, 40))
    assert plan_of(source, wide).launches[0].grid[0] == -(-count // 8) * 2
    for given in (tensors, wide):
        in_all_turns(call, source, given)


LYING: dict[str, tuple[Call, Tensor]] = {
    "in batches": (lambda t: t["x"].cumsum(1), torch.randn(3, 70, 20)),
    "far inside": (lambda t: t["x"].cumsum(-2) * 2, torch.randn(2, 3, 40, 5)),
    "gaps": (lambda t: t["x"][:, ::3].cumsum(0), torch.randn(90, 66)),
    "turned": (lambda t: t["x"].cumsum(1), torch.randn(70, 41).t()),
    "behind a softmax": (lambda t: t["x"].softmax(1).cumsum(0), torch.randn(41, 12)),
    "two in one": (lambda t: torch.cat((t["x"], t["x"] * 2)).cumsum(0), torch.randn(41, 12)),
}


@pytest.mark.many(6)
@pytest.mark.parametrize(("name", "way"), crossed(LYING, WAYS))
def test_wherever_rows_lie(name: str, way: str) -> None:
    call, given = LYING[name]
    problem = problem_of(call, {"x": given})
    check(call, generate(problem, WAYS[way]).kernel.source, {"x": given}, "checked")


@pytest.mark.parametrize("way", WAYS)
def test_near_the_truth_far_from_zero(way: str) -> None:
    tensors = {"x": torch.rand(8192, 8) + 100}
    call = CALLS["sum"][0]
    source = generate(problem_of(call, tensors), WAYS[way]).kernel.source
    plan = plan_of(source, tensors)
    got = execute(plan, build(source, plan.instances, "plain"), tensors, Options(case="far")).outputs[0]
    want = tensors["x"].double().cumsum(0)
    assert ((got.double() - want).abs() / want).max() < 8 * 2**-24


def of_zeros(call: Call, shape: tuple[int, ...]) -> Problem:
    return problem_of(call, {"x": torch.empty(shape)}, varying=False)


def test_the_plan_cuts_what_there_are_words_for() -> None:
    call = CALLS["sum"][0]
    problem = problem_of(call, columns((300, 40)))
    source = generate(problem, WAYS["pieces"]).kernel.source
    (scan,) = traits_of(problem).scans
    schedule = schedule_of(settled(problem, WAYS["pieces"]))
    for rows in (MOST_WORDS // 64, MOST_WORDS):
        shape = (64, rows)
        pieces = pieces_of_columns(schedule, scan, 4, (rows, 64))
        (launch,) = plan_of(source, {"x": torch.empty(shape, device="meta")}).launches
        assert launch.grid[0] == rows // 32 * pieces
        assert ("_pieces" in launch.kernel) == (pieces > 1) == (rows < MOST_WORDS)


@pytest.mark.parametrize(
    ("call", "shape", "offered"),
    [
        (lambda t: t["x"].cumsum(0), (8192, 1024), ("thread", "bundle", "pieces")),
        (lambda t: t["x"].cumsum(1), (16, 4096, 256), ("thread", "bundle", "pieces")),
        (lambda t: t["x"].cumsum(0), (8, 1024), ("thread", "bundle")),
        (lambda t: t["x"].double().cummax(0).indices, (512, 64), ("thread", "bundle")),
        (lambda t: t["x"].cumsum(1), (8192, 1024), ("thread",)),
        (lambda t: t["x"].softmax(0), (8192, 1024), ("thread",)),
    ],
)
def test_offered_where_rows_lie_side_by_side(call: Call, shape: tuple[int, ...], offered: tuple[str]) -> None:
    problem = of_zeros(call, shape)
    for way in ("thread", "bundle", "pieces"):
        got = dict(settled(problem, (("scan_by", way),))).get("scan_by", "thread")
        assert (got == way) == (way in offered)


@pytest.mark.parametrize("shape", [(8192, 1024), (65536, 64)])
def test_a_search_begins_with_pieces_of_long_columns(shape: tuple[int, ...]) -> None:
    problem = of_zeros(CALLS["sum"][0], shape)
    first = [dict(card.vector) for card in seed_vectors(problem, H100, 3)]
    assert [vector["scan_by"] for vector in first[1:]] == ["pieces", "pieces"]
    assert predicted_factor(problem, settled(problem, ()), seed_vectors(problem, H100, 2)[1].vector, H100) > 5


def test_the_model_sees_pieces_and_bundles() -> None:
    problem = of_zeros(CALLS["sum"][0], (8192, 1024))
    wide: Vector = (("block_size", "256"), ("scan_tile", "8"), ("vector_width", "4"))
    times = {
        way: estimate(problem, settled(problem, (*wide, ("scan_by", way))), H100, {}).us
        for way in ("thread", "bundle", "pieces")
    }
    assert times["pieces"] < times["bundle"] < times["thread"]
    assert times["pieces"] > 2 * 4 * 8192 * 1024 / 3.03e12 * 1e6


def test_the_model_sees_stretches_wait_for_one_another() -> None:
    problem = of_zeros(CALLS["sum"][0], (2**20, 8))
    times = [
        estimate(problem, settled(problem, (*WAYS["pieces"], ("block_size", size))), H100, {}).us
        for size in ("64", "256")
    ]
    assert times[0] > 3 * times[1] > 3 * 22


@pytest.mark.many(13)
@pytest.mark.parametrize("name", CALLS)
def test_compiles_for_the_gpu(name: str) -> None:
    call, dtype = CALLS[name]
    tensors = columns((4096, 64), dtype)
    vector: Vector = (("block_size", "256"), ("scan_by", "pieces"), ("scan_tile", "8"), ("vector_width", "4"))
    source = generate(problem_of(call, tensors), vector).kernel.source
    report = compile_kernel(source, plan_of(source, tensors).instances)
    assert isinstance(report, CompileReport), report
    assert not report.warnings
