"""Rows that lie side by side share a block: coalesced both ways, read once, right in any order."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.running import _compare, plan_of, reference
from workbench.compile import compile_kernel
from workbench.emulator.build import build
from workbench.emulator.execute import Execution, execute
from workbench.emulator.values import Options
from workbench.model import H100, CompileReport, Vector
from workbench.playbook.estimates.estimate import predicted_factor
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled

Tensors = dict[str, torch.Tensor]
BUNDLE: Vector = (("block_size", "256"), ("threads_per_row", "bundle"))


def over_channels(t: Tensors) -> torch.Tensor:
    return torch.softmax(t["x"], 1)


def normalised_transposed(t: Tensors) -> torch.Tensor:
    x = t["x"].transpose(1, 2)
    return F.layer_norm(x, (x.shape[2],), t["w"], t["b"])


def two_layouts(t: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    both = t["x"].transpose(1, 2).float() + t["y"].float()
    return torch.log_softmax(both, 1), (torch.softmax(both, 1) > 0.01)


CALLS: dict[str, tuple[Call, Tensors]] = {
    "results_beside": (over_channels, {"x": torch.randn(3, 37, 23)}),
    "results_turned": (
        normalised_transposed,
        {"x": torch.randn(3, 37, 45), "w": torch.randn(37), "b": torch.randn(37)},
    ),
    "input_turned": (
        lambda t: torch.softmax(t["x"].permute(0, 3, 1, 2), 1),
        {"x": torch.randn(2, 5, 9, 40)},
    ),
    "columns_summed": (lambda t: t["x"].sum(1), {"x": torch.randn(3, 70, 23)}),
    "columns_compared": (lambda t: t["x"].argmax(1), {"x": torch.randn(3, 70, 23).round()}),
    "one_of_two_turned": (
        two_layouts,
        {"x": torch.randn(2, 50, 37).half(), "y": torch.randn(2, 37, 50).half()},
    ),
}


def run(call: Call, tensors: Tensors, vector: Vector, options: Options) -> Execution:
    source = generate(problem_of(call, tensors), vector).kernel.source
    plan = plan_of(source, tensors)
    return execute(plan, build(source, plan.instances, "checked"), tensors, options)


@pytest.mark.many(6)
@pytest.mark.parametrize(("name", "cache"), crossed(CALLS, ["registers", "reread"]))
def test_right_in_any_order(name: str, cache: str) -> None:
    call, tensors = CALLS[name]
    for options in (Options(case="races", races=True), Options(case="reverse", reverse=True)):
        done = run(call, tensors, (*BUNDLE, ("row_cache", cache)), options)
        assert not done.report.hazards, done.report.hazards[0].message
        for got, want in zip(done.outputs, reference(call, tensors), strict=True):
            _compare(got, want)


@pytest.mark.many(2)
@pytest.mark.parametrize("name", ["results_turned", "input_turned"])
def test_neighbours_are_read_and_written_together(name: str) -> None:
    call, _ = CALLS[name]
    x = torch.randn(2, 64, 64) if name == "results_turned" else torch.randn(2, 8, 8, 64)
    tensors = {"x": x, "w": torch.randn(64), "b": torch.randn(64)}
    if name == "input_turned":
        tensors = {"x": x}
    sectors = {}
    for team in ("bundle", "thread"):
        vector = (("block_size", "256"), ("threads_per_row", team), ("row_cache", "registers"))
        done = run(call, tensors, vector, Options(case=team))
        assert done.report.counts is not None
        sectors[team] = done.report.counts.sectors
    least = 2 * x.numel() // 8
    assert sectors["bundle"] <= 1.3 * least < 2 * least < sectors["thread"]


def test_offered_where_rows_lie_side_by_side() -> None:
    beside = problem_of(over_channels, {"x": torch.empty(32, 256, 512)})
    along = problem_of(lambda t: torch.softmax(t["x"], 2), {"x": torch.empty(32, 256, 512)})
    once = problem_of(lambda t: t["x"].sum(1), {"x": torch.empty(32, 256, 512)})
    taken = [dict(settled(one, BUNDLE)).get("threads_per_row") for one in (beside, along, once)]
    assert taken == ["bundle", "block", "bundle"]
    assert any(dict(card.vector).get("threads_per_row") == "bundle" for card in seed_vectors(beside, H100))


def test_long_columns_are_walked_down_together() -> None:
    """A thread a column loses step: 3686 us for the sum of 128x4096x4095 on an H100, eager's bundles 3027."""
    for call in (lambda t: t["x"].sum(1), lambda t: t["x"].argmin(1)):
        x = torch.empty(16, 4096, 4095, device="meta")
        problem = problem_of(call, {"x": x}, cases=({"s0": 16, "s1": 4096, "s2": 4095},))
        best = max(seed_vectors(problem, H100), key=lambda seed: seed.predicted_factor)
        assert dict(best.vector)["threads_per_row"] == "bundle"
        source = generate(problem, best.vector).kernel.source
        assert "#pragma unroll 1\n    for (int col = group; col < end; col += GROUPS)" in source
        alone = (*best.vector, ("vector_width", "1"))
        source = generate(problem, alone).kernel.source
        assert "#pragma unroll 4\n    for (int col = group; col < end; col += GROUPS)" in source
        assert predicted_factor(problem, alone, best.vector, H100) > 1.01


def test_rows_too_long_for_the_registers_are_read_again() -> None:
    problem = problem_of(
        over_channels, {"x": torch.empty(4, 100, 64)}, cases=({"s0": 4, "s1": 5000, "s2": 64},)
    )
    source = generate(problem, (*BUNDLE, ("row_cache", "registers"))).kernel.source
    assert source.count("join_groups<Max>(") == 2 and "<= 512" in source
    tensors = {"x": torch.randn(2, 700, 33)}
    plan = plan_of(source, tensors)
    done = execute(plan, build(source, plan.instances, "checked"), tensors, Options(case="long"))
    _compare(done.outputs[0], reference(over_channels, tensors)[0])


def test_longer_rows_do_not_take_the_bundle_from_those_that_fit() -> None:
    call, tensors = CALLS["input_turned"]
    cases = ({"s0": 2, "s1": 8, "s2": 8, "s3": 600},)
    source = generate(
        problem_of(call, tensors, cases=cases), (*BUNDLE, ("row_cache", "registers"))
    ).kernel.source
    assert "join_groups<Max>(" in source and "block_reduce<Max>(" in source
    for width in (33, 600):
        wide = {"x": torch.randn(1, 3, 5, width)}
        plan = plan_of(source, wide)
        done = execute(plan, build(source, plan.instances, "checked"), wide, Options(case="both"))
        assert not done.report.hazards
        _compare(done.outputs[0], reference(call, wide)[0])


def test_nothing_is_spilled() -> None:
    tensors = {"x": torch.empty(32, 512, 512)}
    for threads, width in (("256", "1"), ("512", "2")):
        vector = (*BUNDLE, ("block_size", threads), ("row_cache", "registers"), ("vector_width", width))
        source = generate(problem_of(over_channels, tensors), vector).kernel.source
        report = compile_kernel(source, plan_of(source, tensors).instances)
        assert isinstance(report, CompileReport)
        assert not report.kernels[0].spill_store_bytes and report.kernels[0].registers <= 128


def test_predicted() -> None:
    problem = problem_of(over_channels, {"x": torch.empty(32, 512, 512)}, varying=False)
    thread = (("grid_split", "on"), ("single_pass", "on"), ("threads_per_row", "thread"))
    bundle = (*BUNDLE, ("row_cache", "registers"))
    assert predicted_factor(problem, thread, bundle, H100) > 1.2


def two_types(t: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    both = t["x"].float() + t["y"].float() * t["w"][:, None]
    return torch.softmax(both, 1), both.sum(1)


def test_vectors_of_neighbouring_rows() -> None:
    """120 rows, which is less than 32 lanes of eight: lanes without rows take part in joining only."""
    x, y = torch.randn(3, 30, 40), torch.randn(3, 30, 40)
    tensors = {"x": x.half(), "y": y.bfloat16(), "w": torch.randn(30)}
    vector = (*BUNDLE, ("row_cache", "registers"), ("vector_width", "8"))
    done = run(two_types, tensors, vector, Options(case="races", races=True))
    assert not done.report.hazards, done.report.hazards[0].message
    for got, want in zip(done.outputs, reference(two_types, tensors), strict=True):
        _compare(got, want)
    source = generate(problem_of(two_types, tensors), vector).kernel.source
    assert "load<VEC>(x_row + " in source and "join_groups_each<Max>(" in source
    assert plan_of(source, tensors).instances[0][0] == "op<8>"
    odd = {name: tensor[..., :37].contiguous() for name, tensor in tensors.items()}
    assert plan_of(source, odd).instances[0][0] == "op<1>"


def moments(t: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    return t["x"].var(1), t["x"].float().mean(1)


def looked_up(t: Tensors) -> torch.Tensor:
    return F.cross_entropy(t["x"], t["at"], reduction="none")


APART: dict[str, tuple[Call, Tensors]] = {
    "kept": (over_channels, {"x": torch.randn(3, 37, 23)}),
    "summed": (lambda t: t["x"].sum(1), {"x": torch.randn(3, 70, 23)}),
    "compared": (lambda t: t["x"].argmax(1), {"x": torch.randn(3, 70, 23).round()}),
    "moments": (moments, {"x": torch.randn(2, 45, 67).half()}),
    "two": (
        two_types,
        {"x": torch.randn(3, 30, 41).half(), "y": torch.randn(3, 30, 41), "w": torch.randn(30)},
    ),
    "looked_up": (looked_up, {"x": torch.randn(5, 11, 29), "at": torch.randint(11, (5, 29))}),
}


@pytest.mark.many(6)
@pytest.mark.parametrize(
    ("name", "how"),
    crossed(APART, [("registers", "4"), ("reread", "2"), ("registers", "2"), ("reread", "4")]),
)
def test_rows_that_begin_between_vectors(name: str, how: tuple[str, str]) -> None:
    """Each lane has several, 32 apart: of them some lie in the next image, some behind the last."""
    (call, tensors), (cache, width) = APART[name], how
    vector = (*BUNDLE, ("row_cache", cache), ("stores", "streamed"), ("vector_width", width))
    source = generate(problem_of(call, tensors), vector).kernel.source
    assert f"constexpr int VEC = {width}, GROUPS = THREADS / 32;" in source
    for options in (Options(case="races", races=True), Options(case="reverse", reverse=True)):
        done = run(call, tensors, vector, options)
        assert not done.report.hazards, done.report.hazards[0].message
        for got, want in zip(done.outputs, reference(call, tensors), strict=True):
            _compare(got, want)


def test_several_rows_a_lane_only_where_lines_begin_anywhere() -> None:
    vector = (*BUNDLE, ("vector_width", "4"))
    for width, apart in ((4096, False), (4098, False), (4095, True)):
        x = torch.empty(8, 300, width, device="meta")
        problem = problem_of(lambda t: t["x"].sum(1), {"x": x}, cases=({"s0": 8, "s1": 300, "s2": width},))
        assert ("row[k] = first + 32 * k" in generate(problem, vector).kernel.source) == apart


def test_few_rows_are_not_had_by_fewer_blocks() -> None:
    """Images of 7 x 7: 98 blocks of 256 threads take 135 us on an H100, 392 take 58."""
    x = torch.empty(256, 2048, 49, device="meta")
    problem = problem_of(lambda t: t["x"].sum(1), {"x": x}, varying=False)
    one, four = ((*BUNDLE, ("vector_width", width)) for width in ("1", "4"))
    assert predicted_factor(problem, four, one, H100) > 2


def test_as_many_rows_a_lane_as_registers_hold() -> None:
    vector = (*BUNDLE, ("row_cache", "registers"), ("vector_width", "4"))
    for columns, width in ((64, 4), (200, 2), (300, 1)):
        x = torch.empty(8, columns, 4096, device="meta")
        source = generate(problem_of(over_channels, {"x": x}, varying=False), vector).kernel.source
        assert (f"vec = {width} if" in source) == (width > 1) == ("VEC" in source)
    moments = (*BUNDLE, ("block_size", "1024"), ("single_pass", "on"), ("vector_width", "4"))
    once = problem_of(lambda t: t["x"].var(1), {"x": torch.empty(8, 64, 4096)}, varying=False)
    assert "vec = 2 if" in generate(once, moments).kernel.source  # else 48 KB to join them in


def test_vectors_of_rows_are_offered_and_predicted() -> None:
    """Rows of 64 channels: 3930 us on an H200 with 32 rows a block, where the bytes alone take 3600."""

    def scaled(t: Tensors) -> torch.Tensor:
        return t["x"] / torch.sqrt((t["x"] * t["x"]).mean(1, keepdim=True) + 1e-5)

    x = torch.empty(112, 64, 512, 512, device="meta")
    problem = problem_of(scaled, {"x": x}, varying=False)
    kept = (*BUNDLE, ("row_cache", "registers"))
    assert ("vector_width", "4") in settled(problem, (*kept, ("vector_width", "4")))
    assert "vector_width" not in dict(
        settled(problem, (("vector_width", "4"), ("threads_per_row", "thread")))
    )
    assert predicted_factor(problem, kept, (*kept, ("vector_width", "4")), H100) > 1.01
    threads = [(("block_size", n), ("threads_per_row", "thread")) for n in ("256", "512")]
    assert predicted_factor(problem, *threads, H100) > 1.005
    seeds = [dict(seed.vector) for seed in seed_vectors(problem, H100, 5)]
    assert any((s.get("threads_per_row"), s.get("vector_width")) == ("bundle", "4") for s in seeds)
