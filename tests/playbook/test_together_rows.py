"""Long rows that teams of blocks take in turns, each waiting for its own blocks: right in any order."""

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


def masked(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return t["x"].masked_fill(t["mask"], -1e30).softmax(1)


def under_a_mask(rows: int, columns: int, device: str = "cpu") -> dict[str, torch.Tensor]:
    """Two bytes of it make a vector: too few for a copy that nobody waits for."""
    return {
        **of_rows(rows, columns, device),
        "mask": (torch.rand(rows, columns) < 0.3).to(device),
    }


def modulated(t: dict[str, torch.Tensor]) -> torch.Tensor:
    scale, shift = t["e"].chunk(2, 1)
    return F.layer_norm(t["x"], t["x"].shape[1:]) * (1 + scale[:, :, None]) + shift[:, :, None]


def by_channels(batch: int, channels: int, height: int, device: str = "cpu") -> dict[str, torch.Tensor]:
    return {
        "x": torch.randn(batch, channels, height, device=device),
        "e": torch.randn(batch, 2 * channels, device=device),
    }


def padded(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return (t["x"] + F.pad(t["w"], (1, 1))[None, :, None]).flatten(1).softmax(1)


def with_a_frame(batch: int, channels: int, height: int, device: str = "cpu") -> dict[str, torch.Tensor]:
    return {
        "x": torch.randn(batch, channels, height, device=device),
        "w": torch.randn(channels - 2, device=device),
    }


def named_badly(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return F.group_norm(t["x"], 2, t["pieces_of"], t["op_arrived"])


def with_bad_names(batch: int, channels: int, height: int, device: str = "cpu") -> dict[str, torch.Tensor]:
    x, w, b = of_channels(batch, channels, height, device).values()
    return {"x": x, "pieces_of": w, "op_arrived": b}


def in_bfloat16(rows: int, columns: int, device: str = "cpu") -> dict[str, torch.Tensor]:
    return {name: x.bfloat16() for name, x in of_rows(rows, columns, device).items()}


def images(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return F.layer_norm(t["x"], t["x"].shape[1:])


def of_images(batch: int, width: int = 128) -> Problem:
    return problem_of(images, {"x": torch.empty(batch, 64, 256, width, device="meta")})


def in_groups() -> Problem:
    """896 rows of 8.4 MB."""
    x, w, b = (torch.empty(shape, device="meta") for shape in ((448, 16, 512, 512), (16,), (16,)))
    return problem_of(group_norm, {"x": x, "w": w, "b": b})


CASES: dict[str, tuple[Call, dict[str, torch.Tensor], dict[str, torch.Tensor]]] = {
    "three_teams_and_then_two": (softmax, of_rows(64, 131072, "meta"), of_rows(5, 31000)),
    "odd": (softmax, of_rows(64, 131071, "meta"), of_rows(4, 31001)),
    "with_weights": (group_norm, of_channels(16, 8, 98304, "meta"), of_channels(2, 4, 18000)),
    "an_edge_in_a_piece": (group_norm, of_channels(16, 8, 98304, "meta"), of_channels(2, 4, 20000)),
    "short_runs": (group_norm, of_channels(16, 8, 98304, "meta"), of_channels(2, 12, 6000)),
    "a_mask": (masked, under_a_mask(64, 131070, "meta"), under_a_mask(5, 31002)),
    "two_of_one_tensor": (modulated, by_channels(64, 8, 16384, "meta"), by_channels(5, 8, 4000)),
    "a_frame": (padded, with_a_frame(64, 8, 16384, "meta"), with_a_frame(5, 8, 4000)),
    "bad_names": (named_badly, with_bad_names(16, 8, 98304, "meta"), with_bad_names(2, 4, 18000)),
    "two_meetings": (centred_and_scaled, of_rows(16, 2244032, "meta"), of_rows(3, 49152)),
    "sixteen_bits": (softmax, in_bfloat16(64, 262144, "meta"), in_bfloat16(5, 62000)),
}


@pytest.mark.many(10)
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
        rtol = 1e-4 if given["x"].dtype == torch.float32 else 2**-7
        torch.testing.assert_close(done.outputs[0].double(), want, rtol=rtol, atol=1e-6)


def test_three_teams_share_rows_of_eight_megabytes() -> None:
    vector = settled(of_images(16), (*AHEAD[1:], ("block_size", "512")))
    source = generate(of_images(16), vector).kernel.source
    plan = plan_of(source, {"x": torch.empty(16, 64, 256, 128, device="meta")})
    (launch,) = plan.launches
    assert (launch.grid, launch.block, launch.shared_bytes) == ((132, 3, 1), (512, 1, 1), 63552)
    report = compile_kernel(source, plan.instances)
    assert isinstance(report, CompileReport) and not report.kernels[0].spill_store_bytes
    assert not_together(H100, plan, report) is None


def test_offered_where_teams_have_others_beside_them() -> None:
    def ahead(problem: Problem, **changed: str) -> str | None:
        return dict(settled(problem, tuple({**dict(AHEAD), **changed}.items()))).get("prefetch")

    assert ahead(of_images(16), block_size="512") == "on"
    assert ahead(of_images(3), block_size="512") is None, "three rows have none behind them"
    assert ahead(of_images(16), block_size="512", split_join="last") is None
    assert ahead(of_images(16, 256), block_size="512") is None, "of 16.8 MB the card holds one at a time"


@pytest.mark.parametrize("threads", [1024, 1536])
def test_a_card_with_fewer_threads_takes_another_way(threads: int) -> None:
    """Three blocks of 512 threads find room on neither of these, and a plan that is refused helps nobody."""
    tensors = of_rows(64, 131072, "meta")
    problem = problem_of(softmax, tensors)
    for block in ("512", "1024"):
        source = generate(problem, settled(problem, (*AHEAD[1:], ("block_size", block)))).kernel.source
        card = H100.model_copy(update={"threads_per_sm": threads})
        launches = interpret(parse(source), metas_of(tensors), card, library_meta).launches
        in_turns = [launch for launch in launches if "in_turns" in launch.kernel]
        assert bool(in_turns) is (threads == 1536 and block == "512")


def test_rows_of_nothing_have_a_plan() -> None:
    def shorter(t: dict[str, torch.Tensor]) -> torch.Tensor:
        return t["x"][:, 1:].softmax(1)

    source = generate(problem_of(shorter, of_rows(64, 131073, "meta")), AHEAD).kernel.source
    assert "in_turns" in source
    assert plan_of(source, of_rows(5, 1, "meta")) is not None


def test_a_search_begins_with_it_where_no_cluster_holds_a_row() -> None:
    """896 rows of 8.4 MB on an H100: 6332 us in turns, 7782 in two launches."""
    problem = in_groups()
    sizes = problem.cases[0].size_map
    seeds = [card.vector or () for card in seed_vectors(problem, H100, 8)]
    times = {seed: estimate(problem, seed, H100, sizes).us for seed in seeds}
    best = min(times, key=times.__getitem__)
    assert dict(best).get("prefetch") == "on"
    apart = min(us for seed, us in times.items() if dict(seed).get("split_join") == "launch")
    assert 0.75 < times[best] / apart < 0.88


def test_few_rounds_are_mostly_a_beginning_and_an_end() -> None:
    """Softmax of 64 x 131072 on an H100: 31.1 us in two rounds of 32 teams, 28.5 where all meet at once."""
    problem = problem_of(softmax, of_rows(64, 131072, "meta"))

    def modelled(**changed: str) -> float:
        vector = settled(problem, tuple({**dict(AHEAD), "block_size": "256", **changed}.items()))
        return estimate(problem, vector, H100, problem.cases[0].size_map).us

    assert modelled() > modelled(prefetch="off", split_join="words", stores="streamed")


def test_weights_that_a_round_sweeps_out_of_l2_are_read_again_for_the_next() -> None:
    def weighted(t: dict[str, torch.Tensor]) -> torch.Tensor:
        return F.layer_norm(t["x"], t["x"].shape[1:], t["w"], t["b"])

    x, w, b = (torch.empty(*batch, 64, 256, 128, device="meta") for batch in ((16,), (), ()))
    problem = problem_of(weighted, {"x": x, "w": w, "b": b})
    in_turns: Estimate = estimate(
        problem, settled(problem, (*AHEAD[1:], ("block_size", "512"))), H100, problem.cases[0].size_map
    )
    moved = 2 * x.numel() * 4
    assert in_turns.dram_bytes > moved + 5 * 2 * w.numel() * 4, "six rounds of three rows"
