"""Rows too long for one block are shared by a cluster: right, without hazards, compiled."""

import pytest
import torch

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, metas_of, plan_of, reference
from workbench.compile import compile_kernel
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import H100, CompileReport, Problem, Vector
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled
from workbench.referee.librarymeta import library_meta

TOGETHER: Vector = (("block_size", "64"), ("row_cache", "registers"), ("vector_width", "4"))
"""64 threads keep 4096 columns; small blocks are quick on the emulator."""


def softmax(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.softmax(t["x"], 1)


def norm_and_mean(t: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    wide = t["x"].float()
    mean = wide.mean(1)
    return ((wide - mean[:, None]) * torch.rsqrt(wide.var(1, correction=0)[:, None] + 1e-5)).to(
        t["x"].dtype
    ), mean


def opened(call: Call, dtype: torch.dtype) -> Problem:
    cases = ({"s0": 500, "s1": 15000},)
    return problem_of(call, {"x": torch.randn(3, 5).to(dtype)}, "op", cases=cases)


@pytest.mark.many(11)
@pytest.mark.parametrize(
    ("call", "shape", "dtype", "vector"),
    [
        (softmax, (3, 12004), torch.float32, (("cluster", "4"),)),
        (softmax, (3, 4099), torch.float32, (("cluster", "16"), ("vector_width", "1"))),
        (softmax, (2, 5000), torch.bfloat16, (("cluster", "8"), ("vector_width", "8"))),
        (softmax, (2, 15000), torch.float32, (("cluster", "8"), ("block_reduction", "tree"))),
        (norm_and_mean, (3, 5001), torch.float16, (("cluster", "4"),)),
        (softmax, (3, 12004), torch.float32, (("cluster", "4"), ("single_pass", "on"))),
        (norm_and_mean, (3, 5001), torch.float16, (("cluster", "4"), ("single_pass", "on"))),
    ],
)
def test_right_and_without_hazards(
    call: Call, shape: tuple[int, int], dtype: torch.dtype, vector: Vector
) -> None:
    source = generate(opened(call, dtype), tuple({**dict(TOGETHER), **dict(vector)}.items())).kernel.source
    given = {"x": torch.randn(shape).to(dtype)}
    plan = plan_of(source, given)
    (launch,) = plan.launches
    blocks = int(dict(vector)["cluster"])
    assert launch.cluster == (blocks, 1, 1) and launch.grid == (blocks * shape[0], 1, 1)
    check(call, source, given)
    races = Options(case="test", races=True)
    report = execute(plan, build(source, plan.instances, "checked"), given, races).report
    assert not report.hazards, report.hazards[0].message


def test_dependent_reductions_cross_the_cluster_together_where_asked() -> None:
    def joins(single: str) -> int:
        vector = (*TOGETHER, ("cluster", "4"), ("single_pass", single))
        source = generate(opened(softmax, torch.float32), vector).kernel.source
        kernel = source[source.index("void op_cluster(") :]
        return kernel[: kernel.index("\n}")].count("cluster_reduce<")

    assert (joins("off"), joins("on")) == (2, 1)


def test_the_plan_takes_a_cluster_only_between_one_block_and_too_long() -> None:
    cases = ({"s0": 4096, "s1": 393216}, {"s0": 4096, "s1": 32768}, {"s0": 1, "s1": 2**20})
    problem = problem_of(softmax, {"x": torch.randn(3, 5)}, "softmax", cases=cases)
    vector = (
        *(("block_size", "fit"), ("cluster", "16"), ("grid_split", "on"), ("prefetch", "on")),
        *(("row_cache", "registers"), ("single_pass", "on"), ("vector_width", "4")),
    )
    source = generate(problem, vector).kernel.source
    found = {}
    for rows, columns in ((4096, 16384), (4096, 32768), (1, 32772), (64, 524288), (4096, 524292), (1, 2**20)):
        plan = plan_of(source, {"x": torch.empty(rows, columns, device="meta")})
        found[rows, columns] = [launch.kernel for launch in plan.launches]
    whole = ["softmax_partial<4>", "softmax_finish<4>"]
    assert list(found.values()) == [
        *(["softmax<4>"], ["softmax_ahead<4>"], ["softmax_cluster<4>"], ["softmax_cluster<4>"]),
        *(["softmax_reread<4>"], whole),
    ]
    plan = plan_of(source, {"x": torch.empty(4096, 393216, device="meta")})
    report = compile_kernel(source, plan.instances)
    assert isinstance(report, CompileReport) and not report.kernels[0].spill_store_bytes


def test_offered_where_a_declared_row_is_too_long_for_a_block() -> None:
    short = problem_of(softmax, {"x": torch.randn(4096, 4096)}, "softmax")
    assert "cluster" not in dict(settled(short, (*TOGETHER[1:], ("block_size", "fit"))))
    assert dict(settled(opened(softmax, torch.float32), (*TOGETHER, ("cluster", "8"))))["cluster"] == "8"


def test_loads_of_a_piece_do_not_wait_for_welfords_steps() -> None:
    """instance_norm 16x64x256x256 on an H100: 287 us with one load in flight a thread, 194 in two passes."""
    vector = (*TOGETHER, ("cluster", "4"), ("single_pass", "on"))
    norm: Call = lambda t: torch.nn.functional.layer_norm(t["x"], t["x"].shape[1:])  # noqa: E731
    source = generate(opened(norm, torch.float32), vector).kernel.source
    kernel = source[source.index("void op_cluster(") :]
    kernel = kernel[: kernel.index("\n}")]
    loads, steps = kernel.index("load<VEC>(x_row + col)"), kernel.index("add_vector(moments, values)")
    assert kernel.count("load<VEC>(x_row + col)") == 1 and loads < kernel.index("Moments moments =") < steps


CARD = H100.model_copy(update={"sm_count": 1})
"""Room for four clusters of four small blocks, or for one of 16: each has several rows."""


@pytest.mark.many(3)
@pytest.mark.parametrize(
    ("call", "shape", "dtype", "vector"),
    [
        (softmax, (11, 12004), torch.float32, (("cluster", "4"),)),
        (
            softmax,
            (3, 6149),
            torch.float32,
            (("cluster", "16"), ("single_pass", "on"), ("vector_width", "1")),
        ),
        (norm_and_mean, (9, 5008), torch.float16, (("cluster", "4"), ("single_pass", "on"))),
    ],
)
def test_the_next_rows_piece_is_copied_ahead(
    call: Call, shape: tuple[int, int], dtype: torch.dtype, vector: Vector
) -> None:
    wanted = {**dict(TOGETHER), "prefetch": "on", **dict(vector)}
    source = generate(opened(call, dtype), tuple(wanted.items())).kernel.source
    given = {"x": torch.randn(shape).to(dtype)}
    plan = interpret(parse(source), metas_of(given), CARD, library_meta)
    (launch,) = plan.launches
    blocks = int(wanted["cluster"])
    assert launch.cluster == (blocks, 1, 1) and blocks <= launch.grid[0] < blocks * shape[0]
    assert launch.shared_bytes == (-(-shape[1] // blocks) + 8) * dtype.itemsize
    expected = reference(call, given)
    for turn in (Options(case="races", races=True), Options(case="reverse", reverse=True)):
        done = execute(plan, build(source, plan.instances, "checked"), given, turn)
        assert not done.report.hazards, done.report.hazards[0].message
        for got, want in zip(done.outputs, expected, strict=True):
            torch.testing.assert_close(
                got.double(), want.double(), rtol=2e-3, atol=2e-3 if dtype.itemsize == 2 else 1e-6
            )


def test_rows_of_a_megabyte_and_a_half_one_after_the_other() -> None:
    """4096x393216: 96 values a thread where eight blocks share a row, 48 where 16 do; no spills."""
    problem = problem_of(softmax, {"x": torch.randn(3, 5)}, "softmax", cases=({"s0": 4096, "s1": 393216},))
    problem = problem.model_copy(update={"cases": problem.cases[1:], "proofs": problem.cases[:1]})
    seeds = [dict(card.vector or ()) for card in seed_vectors(problem, H100, count=5)]
    ahead = {(s["cluster"], s["block_size"]) for s in seeds if s.get("prefetch") == "on"}
    assert ahead == {("8", "512"), ("16", "512")}
    for seed in (one for one in seeds if one.get("prefetch") == "on"):
        source = generate(problem, tuple(seed.items())).kernel.source
        plan = plan_of(source, {"x": torch.empty(4096, 393216, device="meta")})
        (launch,) = plan.launches
        assert launch.kernel == "softmax_cluster<4>" and launch.shared_bytes <= 200_000
        report = compile_kernel(source, plan.instances)
        assert isinstance(report, CompileReport) and not report.kernels[0].spill_store_bytes
    times = [
        estimate(problem, card.vector or (), H100, problem.cases[0].size_map).us
        for card in seed_vectors(problem, H100, count=5)
    ]
    assert min(times) < 0.8 * times[1], "against a row that is read again"


def test_where_every_seed_has_clusters_one_meets_once() -> None:
    """Rows of 0.5 MB beside rows of 1.5 MB: on a card they are faster without, whatever the model says."""
    sizes = [{"s0": 64, "s1": 131072}, {"s0": 4096, "s1": 393216}]
    problem = problem_of(softmax, {"x": torch.randn(3, 5)}, "softmax", cases=tuple(sizes))
    problem = problem.model_copy(update={"cases": problem.cases[1:], "proofs": problem.cases[:1]})
    seeds = [dict(card.vector or ()) for card in seed_vectors(problem, H100, count=5)]
    shared = [one for one in seeds if one.get("grid_split") == "on"]
    assert (shared[0]["cluster"], shared[1]["cluster"], shared[1]["split_join"]) == ("8", "1", "words")
