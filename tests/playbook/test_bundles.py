"""Columns of a matrix by bundles: right at awkward sizes and in any order, offered where neighbours lie."""

import pytest
import torch

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import plan_of, reference
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import H100, Vector
from workbench.playbook.estimates.estimate import estimate, predicted_factor
from workbench.playbook.generate import generate
from workbench.playbook.techniques.table import settled

BUNDLE: Vector = (
    ("block_size", "128"), ("columns_by", "bundle"), ("grid_split", "on"), ("single_pass", "on"),
    ("split_join", "last"), ("vector_width", "4"),
)  # fmt: skip
TURNS = (Options(case="races", races=True), Options(case="reverse", reverse=True))


def scaled(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return (t["x"] * t["w"]).amax(0)


def finished(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.relu(t["x"].sum(0) * t["w"]) + t["w"]


def middle(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return t["x"].view(4, -1, 60).sum(1)


def taken(t: dict[str, torch.Tensor]) -> torch.Tensor:
    """What each of 40 experts gets of the tokens that name it, group by group."""
    own = t["label"][..., None] == torch.arange(40)
    return (own * t["x"].view(4, -1, 40)).sum(1)


CALLS: dict[str, tuple[Call, tuple[int, int], torch.dtype]] = {
    "mean": (lambda t: t["x"].mean(0), (400, 64), torch.float32),
    "odd": (lambda t: t["x"].mean(0), (333, 37), torch.float32),
    "wide": (lambda t: t["x"].sum(0) + 1, (150, 300), torch.float32),
    "half": (lambda t: t["x"].sum(0), (400, 72), torch.float16),
    "variance": (lambda t: t["x"].var(0), (400, 140), torch.float32),
    "places": (lambda t: t["x"].argmax(0), (400, 36), torch.float32),
    "shared_factor": (scaled, (300, 40), torch.float32),
    "finished_with_a_vector": (finished, (300, 37), torch.float32),
    "taken_by_label": (taken, (800, 40), torch.float32),
    "middle": (middle, (800, 60), torch.float32),
}
NARROW = [
    ("variance", "8"),
    ("variance", "16"),
    ("variance", "32"),
    ("half", "8"),
    ("odd", "8"),
    ("places", "16"),
]
"""Bundles of so many lanes, where columns would have wider ones or narrower."""


@pytest.mark.many(12)
@pytest.mark.parametrize(("name", "lanes"), [*((name, "most") for name in CALLS), *NARROW])
def test_right_at_awkward_sizes(name: str, lanes: str) -> None:
    call, shape, dtype = CALLS[name]
    torch.manual_seed(1)
    tensors = {"x": torch.randn(shape).to(dtype)}
    if name in ("shared_factor", "finished_with_a_vector"):
        tensors["w"] = torch.randn(shape[1])
    if name == "taken_by_label":
        tensors["label"] = torch.randint(0, 40, (4, 200))
    vector = (*BUNDLE, ("bundle_lanes", lanes))
    source = generate(problem_of(call, tensors, varying=False), vector).kernel.source
    assert ("across_groups" if lanes == "most" else "across_lines") in source
    plan = plan_of(source, tensors)
    (launch,) = plan.launches
    assert launch.grid[1] > 1, "split into pieces"
    built = build(source, plan.instances, "checked")
    for options in TURNS:
        done = execute(plan, built, tensors, options)
        assert not done.report.hazards, done.report.hazards[0].message
        (want,) = reference(call, tensors)
        loose = 2e-3 if dtype == torch.float16 else 1e-4
        assert torch.allclose(done.outputs[0].double(), want.double(), rtol=loose, atol=loose)


@pytest.mark.parametrize(
    ("call", "shape", "offered"),
    [
        (lambda t: t["x"].mean(0), (2**16, 64), True),
        (lambda t: t["x"].mean(1), (64, 2**16), False),
        (lambda t: t["x"].softmax(0), (2**16, 64), True),  # its statistics are by themselves
        (lambda t: t["x"].softmax(0), (2**9, 64), False),
        (lambda t: t["x"].mean(), (2**16, 64), False),
    ],
)
def test_offered_for_columns_in_one_pass(call: Call, shape: tuple[int, ...], offered: bool) -> None:
    problem = problem_of(call, {"x": torch.empty(shape)}, varying=False)
    assert (dict(settled(problem, BUNDLE)).get("columns_by") == "bundle") == offered


def test_predicted_to_pay_for_few_columns() -> None:
    problem = problem_of(lambda t: t["x"].mean(0), {"x": torch.empty(2**20, 64)}, varying=False)
    thread = tuple((name, "thread" if name == "columns_by" else value) for name, value in BUNDLE)
    assert predicted_factor(problem, thread, BUNDLE, H100) > 1.3


@pytest.mark.many(5)
@pytest.mark.parametrize("lanes", ["most", "32", "16", "8"])
def test_groups_are_joined_without_bank_conflicts(lanes: str) -> None:
    """Eight neighbours a thread, side by side, are written to four banks of 32: eight times as slowly."""
    tensors = {"x": torch.randn(400, 256).half()}
    vector = (*BUNDLE, ("block_size", "256"), ("bundle_lanes", lanes), ("vector_width", "8"))
    source = generate(problem_of(CALLS["half"][0], tensors, varying=False), vector).kernel.source
    plan = plan_of(source, tensors)
    report = execute(plan, build(source, plan.instances, "checked"), tensors, Options(case="half")).report
    assert report.counts is not None
    shared = [site for site in report.counts.sites if site.space == "shared"]
    over = {site.kind: site.transactions / site.ideal_transactions for site in shared if site.requests > 256}
    assert over == {"store": 8.0 if lanes == "most" else 1.0, "load": 1.0}


def test_narrow_bundles_are_joined_by_more_blocks() -> None:
    problem = problem_of(CALLS["variance"][0], {"x": torch.empty(2**15, 1024).half()}, varying=False)
    wide = (*BUNDLE, ("block_size", "256"), ("vector_width", "8"))
    sources = {
        lanes: generate(problem, (*wide, ("bundle_lanes", lanes))).kernel.source for lanes in ("most", "8")
    }
    tensors = {"x": torch.empty(2**15, 1024).half()}
    grids = {lanes: plan_of(source, tensors).launches[0].grid[:2] for lanes, source in sources.items()}
    assert grids == {"most": (4, 132), "8": (16, 33)}
    assert predicted_factor(problem, wide, (*wide, ("bundle_lanes", "8")), H100) > 1.1


@pytest.mark.parametrize(("items", "ahead"), [("1", 4), ("4", 16)])
def test_streamed_loads_of_several_turns_come_before_the_first_is_used(items: str, ahead: int) -> None:
    """Where they are written one behind the other, each waits for the one before it."""
    problem = problem_of(CALLS["mean"][0], {"x": torch.randn(400, 64)}, varying=False)
    vector = (*BUNDLE, ("loads_in_flight", items), ("stream_hints", "on"))
    source = generate(problem, vector).kernel.source
    load, use = source.index("x_pack[i] = load_once<VEC>"), source.index("x_sum_each[k] += x_pack[i].at[k]")
    assert f"Pack<float, VEC> x_pack[{ahead}];" in source and load < use
    assert source[load:use].count(f"for (int i = 0; i < {ahead}; ++i)") == 1, "a loop each"


def test_a_bundle_of_many_columns_has_one_block() -> None:
    """A bundle more than blocks that the card is to hold: none is left to threads with a column each."""
    tensors = {"x": torch.randn(2, 70, 4240)}

    def summed(t: dict[str, torch.Tensor]) -> torch.Tensor:
        return t["x"].sum(1)

    vector = (*BUNDLE, ("block_size", "512"), ("bundle_lanes", "8"))
    source = generate(problem_of(summed, tensors), vector).kernel.source
    plan = plan_of(source, tensors)
    (launch,) = plan.launches
    assert launch.kernel.startswith("op_pieces") and launch.grid[:2] == (265, 1)
    built = build(source, plan.instances, "checked")
    for options in TURNS:
        done = execute(plan, built, tensors, options)
        assert not done.report.hazards, done.report.hazards[0].message
        assert torch.allclose(done.outputs[0], summed(tensors), rtol=1e-4, atol=1e-4)
    # Columns that are few elements long, or that fill the card with a thread each, have no block.
    for shape in ((2, 64, 4240), (2, 70, 32 * 4096)):
        (launch,) = plan_of(source, {"x": torch.empty(shape, device="meta")}).launches
        assert launch.kernel == "op"


def test_predicted_to_pay_where_threads_a_column_leave_most_of_the_card_idle() -> None:
    """Channels of 32 images of 28 x 28, 768 channels last: 48 blocks of 512 threads."""
    problem = problem_of(lambda t: t["x"].sum(1), {"x": torch.empty(32, 784, 768)}, varying=False)
    bundle = (*BUNDLE, ("block_size", "512"), ("bundle_lanes", "8"))
    thread = tuple((name, "thread" if name == "columns_by" else value) for name, value in bundle)
    apart = tuple((name, "off" if name == "grid_split" else value) for name, value in thread)
    assert predicted_factor(problem, apart, bundle, H100) > 1.4
    (case,) = problem.cases
    bytes_us = 1e6 * 4 * 32 * 784 * 768 / H100.dram_bytes_per_s
    assert bytes_us < estimate(problem, bundle, H100, case.size_map).us < 1.3 * bytes_us
