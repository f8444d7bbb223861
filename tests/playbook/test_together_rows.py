"""Long rows that the whole card shares in turns, the next one on its way: right in any order."""

import pytest
import torch
import torch.nn.functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import metas_of, plan_of, reference
from tests.playbook.test_in_part import SMALL, TURNS, centred_and_scaled, of_channels, of_rows, softmax
from workbench.compile import compile_kernel
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.model import H100, CompileReport, Problem, Vector
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse
from workbench.playbook.estimates.estimate import Estimate, estimate
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled
from workbench.referee.librarymeta import library_meta
from workbench.referee.occupancy import not_together

AHEAD: Vector = (
    ("block_size", "64"), ("grid_split", "on"), ("prefetch", "on"), ("split_join", "grid"),
    ("vector_width", "4"),
)  # fmt: skip


def group_norm(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return F.group_norm(t["x"], 2, t["w"], t["b"])


def images(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return F.layer_norm(t["x"], t["x"].shape[1:])


def of_images(batch: int) -> Problem:
    return problem_of(images, {"x": torch.empty(batch, 64, 256, 256, device="meta")})


CASES: dict[str, tuple[Call, dict[str, torch.Tensor], dict[str, torch.Tensor]]] = {
    "two_at_a_time_and_then_one": (softmax, of_rows(64, 131072, "meta"), of_rows(3, 31000)),
    "odd": (softmax, of_rows(64, 131071, "meta"), of_rows(2, 70001)),
    "with_weights": (group_norm, of_channels(16, 8, 98304, "meta"), of_channels(2, 4, 36000)),
    "two_meetings": (centred_and_scaled, of_rows(16, 2244032, "meta"), of_rows(3, 49152)),
}


@pytest.mark.many(5)
@pytest.mark.parametrize("name", CASES)
def test_right_in_any_order(name: str) -> None:
    call, large, given = CASES[name]
    torch.manual_seed(1)
    source = generate(problem_of(call, large), AHEAD).kernel.source
    plan = interpret(parse(source), metas_of(given), SMALL, library_meta)
    (launch,) = plan.launches
    assert launch.cooperative and "in_turns" in launch.kernel
    (want,) = reference(call, given)
    for turn in TURNS:
        done = execute(plan, build(source, plan.instances, "checked"), dict(given), turn)
        assert not done.report.hazards, done.report.hazards[0].message
        torch.testing.assert_close(done.outputs[0].double(), want, rtol=1e-4, atol=1e-6)


def test_the_whole_card_has_a_row_of_sixteen_megabytes() -> None:
    vector = settled(of_images(16), (*AHEAD[1:], ("block_size", "512")))
    source = generate(of_images(16), vector).kernel.source
    plan = plan_of(source, {"x": torch.empty(16, 64, 256, 256, device="meta")})
    (launch,) = plan.launches
    assert (launch.grid, launch.block, launch.shared_bytes) == ((1, 132, 1), (512, 1, 1), 127104)
    report = compile_kernel(source, plan.instances)
    assert isinstance(report, CompileReport) and not report.kernels[0].spill_store_bytes
    assert not_together(H100, plan, report) is None


def test_offered_where_more_rows_than_the_card_holds_are_shared() -> None:
    def ahead(problem: Problem, **changed: str) -> str | None:
        return dict(settled(problem, tuple({**dict(AHEAD), **changed}.items()))).get("prefetch")

    assert ahead(of_images(16), block_size="512") == "on"
    assert ahead(of_images(1), block_size="512") is None, "one row has none behind it"
    assert ahead(of_images(16), block_size="512", split_join="last") is None
    longer = problem_of(images, {"x": torch.empty(16, 64, 512, 512, device="meta")})
    assert ahead(longer, block_size="512") is None, "67 MB find no room"


def test_a_search_tries_it_and_expects_no_more_than_was_seen() -> None:
    """Rows of 16.8 MB, read once instead of twice; what that saves, waiting for one another costs."""
    problem = of_images(16)
    seeds = [card.vector or () for card in seed_vectors(problem, H100, 8)]
    times = {estimate(problem, seed, H100, problem.cases[0].size_map).us: dict(seed) for seed in seeds}
    in_turn = [us for us, seed in times.items() if seed.get("prefetch") == "on"]
    assert in_turn and min(in_turn) < 1.15 * min(times)


def test_long_groups_in_turn_are_slower_than_reading_them_twice() -> None:
    """896 rows of 8.4 MB on an H100: 8967 us in turn, 7701 in two launches."""
    problem = problem_of(group_norm, {
        "x": torch.empty(448, 16, 512, 512, device="meta"),
        "w": torch.empty(16, device="meta"), "b": torch.empty(16, device="meta"),
    })  # fmt: skip
    sizes = problem.cases[0].size_map
    twice = (("grid_split", "on"), ("single_pass", "on"), ("split_join", "launch"), ("vector_width", "4"))
    asked: Vector = (*AHEAD[1:], ("block_size", "512"))
    in_turn, apart = (estimate(problem, settled(problem, one), H100, sizes).us for one in (asked, twice))
    assert in_turn > 0.98 * apart


def test_weights_that_each_row_sweeps_out_of_l2_are_read_again_for_the_next() -> None:
    """layer_norm_3d, in turn and in two launches: 330 and 224 us on an H200, 433 and 318 on an H100."""

    def weighted(t: dict[str, torch.Tensor]) -> torch.Tensor:
        return F.layer_norm(t["x"], t["x"].shape[1:], t["w"], t["b"])

    x, w, b = (torch.empty(*batch, 64, 256, 256, device="meta") for batch in ((16,), (), ()))
    problem = problem_of(weighted, {"x": x, "w": w, "b": b})

    def modelled(asked: Vector) -> Estimate:
        return estimate(problem, settled(problem, asked), H100, problem.cases[0].size_map)

    in_turn = modelled((*AHEAD[1:], ("block_size", "512")))
    twice = (("grid_split", "on"), ("single_pass", "on"), ("split_join", "launch"), ("vector_width", "4"))
    apart = modelled(twice)
    assert 433 / 318 < in_turn.us / apart.us < 1.2 * 330 / 224
    assert in_turn.dram_bytes > 15 * 2 * w.numel() * 4
