"""Losses in one launch: rows, and the sum of what they come to."""

from __future__ import annotations

import pytest
import torch

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, plan_of, reference
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import H100, Vector
from workbench.plan.facts import facts
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors

LAST, TOLD = ("row_totals", "last"), ("row_totals", "told")


def _cross_entropy(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(t["x"], t["labels"])


def _divergence(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.nn.functional.kl_div(t["x"].log_softmax(1), t["y"].softmax(1), reduction="batchmean")


def _farthest(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return (t["x"] - t["y"]).square().sum(1).sqrt().amax()


def _tensors(rows: int, columns: int) -> dict[str, torch.Tensor]:
    labels = torch.randint(columns, (rows,))
    labels[::3] = -100
    return {"x": torch.randn(rows, columns), "y": torch.randn(rows, columns), "labels": labels}


_CALLS = {
    "cross_entropy": (_cross_entropy, "x labels"),
    "kl_div": (_divergence, "x y"),
    "far": (_farthest, "x y"),
}


_ROWS: list[tuple[int, int, Vector]] = [
    (301, 37, (("threads_per_row", "warp"), ("vector_width", "4"), ("block_size", "64"))),
    (40, 260, (("threads_per_row", "block"), ("vector_width", "4"), ("single_pass", "on"))),
    (300, 5, (("threads_per_row", "thread"), ("block_size", "64"))),
    (7, 1300, (("row_cache", "registers"), ("block_size", "fit"), ("vector_width", "2"))),
]


@pytest.mark.many(11)
@pytest.mark.parametrize(("name", "case"), crossed(_CALLS, _ROWS))
@pytest.mark.parametrize("join", [LAST, TOLD], ids=["last", "told"])
def test_rows_and_their_sum_are_one_launch(
    name: str, case: tuple[int, int, Vector], join: tuple[str, str]
) -> None:
    """With fewer rows than teams, and with many more; each result is as right as that of two launches."""
    rows, columns, vector = case
    call, words = _CALLS[name]
    tensors = {word: _tensors(rows, columns)[word] for word in words.split()}
    source = generate(problem_of(call, tensors), (*vector, join)).kernel.source
    assert ("hear(" in source) == (join == TOLD)
    assert facts(plan_of(source, tensors), "loss").launches == 1
    check(call, source, tensors)


def test_a_block_strides_over_many_rows() -> None:
    """More rows than the card has teams at once: nothing a row is left in memory, a number a block is."""
    tensors = {"x": torch.randn(40000, 4), "y": torch.randn(40000, 4)}
    vector = (LAST, ("threads_per_row", "warp"))
    source = generate(problem_of(_farthest, tensors), vector).kernel.source
    known = facts(plan_of(source, tensors), "loss")
    assert (known.launches, known.workspace_bytes) == (1, 132 * 4 * 4)


def test_blocks_that_tell_their_part_do_not_stay() -> None:
    """A block for every eight rows, up to as many as have words; the plan needs no scratch."""
    grids = []
    for rows in (20000, 80000):
        tensors = {"x": torch.randn(rows, 4), "y": torch.randn(rows, 4)}
        source = generate(problem_of(_farthest, tensors), (TOLD, ("threads_per_row", "warp"))).kernel.source
        plan = plan_of(source, tensors)
        grids.append(plan.launches[0].grid[0])
        assert facts(plan, "loss").workspace_bytes == 0
    assert grids == [2500, 4096]
    constant = problem_of(_farthest, {name: torch.empty(40960, 4) for name in "xy"}, varying=False)
    source = generate(constant, (TOLD, ("few_terms", "off"), ("threads_per_row", "thread"))).kernel.source
    assert "most_blocks = 4096" in source and "grid=min(cdiv(40960, 256), most_blocks)" in source


@pytest.mark.parametrize(
    "call",
    [
        lambda t: (t["x"].sum(1), t["x"].sum(1).mean()),  # the values a row are wanted themselves
        lambda t: t["x"].sum(1).softmax(0),  # more than one pass over them
        lambda t: t["x"].sum(1).cumsum(0),
    ],
)
def test_values_a_row_that_somebody_else_needs_are_written(call: Call) -> None:
    """Then the technique does not apply."""
    tensors = {"x": torch.randn(12, 20)}
    problem = problem_of(call, tensors)
    draft = generate(problem, (LAST,))
    assert "row_totals" not in dict(draft.vector)
    check(call, draft.kernel.source, tensors)


def test_four_rows_a_warp_are_added_up_in_the_same_launch() -> None:
    """All lanes come to each shuffle, also those whose row is behind the last."""
    tensors = {word: _tensors(35, 60)[word] for word in "xy"}
    vector = (
        ("threads_per_row", "eight"),
        ("vector_width", "4"),
        ("block_size", "64"),
        ("single_pass", "on"),
    )
    source = generate(problem_of(_divergence, tensors), (*vector, LAST)).kernel.source
    assert "threadIdx.x % 8" in source
    assert facts(plan_of(source, tensors), "loss").launches == 1
    check(_divergence, source, tensors, "checked")


@pytest.mark.parametrize("team", ["warp", "block"])
def test_what_a_row_needs_beside_its_sums_is_asked_for_before_they_are_joined(team: str) -> None:
    tensors = {word: _tensors(9, 264)[word] for word in ("x", "labels")}
    vector = (("threads_per_row", team), ("vector_width", "4"), ("single_pass", "on"), LAST)
    source = generate(problem_of(_cross_entropy, tensors), vector).kernel.source
    source = source[source.index("__global__") :]
    label, walk, element, join = map(
        source.index, ("= labels[row]", "_pack", "= x_row[", f"{team}_reduce<OnlineSoftmax>")
    )
    assert label < walk < join and element < join
    assert (element < walk) is (team == "warp"), "the warps of a block would wait for the label first"


_TEAMS: dict[str, Vector] = {
    "block": (("threads_per_row", "block"),),
    "warp": (("threads_per_row", "warp"),),
    "half": (("threads_per_row", "warp"), ("rows_a_warp", "2")),
    "eight": (("threads_per_row", "eight"),),
    "thread": (("threads_per_row", "thread"), ("vector_width", "1")),
    "tree": (("threads_per_row", "warp"), ("block_reduction", "tree")),
    "more teams than lanes": (("threads_per_row", "eight"), ("block_size", "512")),
}


@pytest.mark.many(17)
@pytest.mark.parametrize("team", _TEAMS)
@pytest.mark.parametrize("join", [LAST, TOLD], ids=["last", "told"])
def test_launches_one_after_the_other_give_the_same(team: str, join: tuple[str, str]) -> None:
    """In either order of blocks: what they count or tell is zero again, and sums have one order."""
    torch.manual_seed(3)
    tensors = {word: _tensors(203, 68)[word] for word in ("x", "labels")}
    vector = (("block_size", "64"), ("single_pass", "on"), ("vector_width", "4"), *_TEAMS[team], join)
    source = generate(problem_of(_cross_entropy, tensors), tuple(dict(vector).items())).kernel.source
    plan = plan_of(source, tensors)
    built = build(source, plan.instances, "checked")
    found = []
    for order in ("races", "reverse", "races"):
        wanted = Options(case=order, races=order == "races", reverse=order == "reverse")
        done = execute(plan, built, tensors, wanted)
        assert not done.report.hazards, done.report.hazards[0].message
        found.append(done.outputs[0])
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])
    assert torch.allclose(found[0].double(), reference(_cross_entropy, tensors)[0], rtol=1e-5)


@pytest.mark.parametrize("join", [LAST, TOLD], ids=["last", "told"])
def test_what_teams_carry_meets_once(join: tuple[str, str]) -> None:
    """A block's one carrier has all that its block came to; warps leave all their values at one barrier."""
    tensors = {word: _tensors(40, 260)[word] for word in ("x", "labels")}
    for team, barriers in (("block", 0), ("warp", 1)):
        vector = (("threads_per_row", team), ("vector_width", "4"), ("single_pass", "on"), join)
        source = generate(problem_of(_cross_entropy, tensors), vector).kernel.source
        rows = source.index("for (int row =")
        end = source.index("\n    }\n", rows)
        left = source.index("tell(" if join == TOLD else "_parts[blockIdx.x] =", end)
        carried = source[end:left]
        assert "block_reduce" not in carried and carried.count("__syncthreads") == barriers
        assert source[left:].count("block_reduce_both<Sum, Sum>(") == 1


def test_a_sum_and_a_count_are_one_word() -> None:
    """Also where both are zero, which a word says in its own way; and where the sum is not finite."""
    tensors = {word: _tensors(40, 36)[word] for word in ("x", "labels")}
    vector = (TOLD, ("block_size", "64"), ("threads_per_row", "warp"), ("vector_width", "4"))
    source = generate(problem_of(_cross_entropy, tensors), vector).kernel.source
    assert "_told[4096]" in source and "whole(" not in source
    check(_cross_entropy, source, tensors, "checked")
    check(_cross_entropy, source, {**tensors, "labels": torch.full((40,), -100)}, "checked")
    for value in (torch.inf, -torch.inf, torch.nan):
        x = tensors["x"].clone()
        x[7, 5] = value
        check(_cross_entropy, source, {**tensors, "x": x}, "checked")


@pytest.mark.slow
def test_a_block_with_many_rows_has_the_next_label_a_row_ahead() -> None:
    """The logit is then on its way with the walk; a block of few rows would wait for its first label."""
    vector = (("block_size", "1024"), ("vector_width", "4"), ("single_pass", "on"), LAST)
    for rows, ahead in ((1064, True), (300, False)):
        tensors = {word: _tensors(rows, 36)[word] for word in ("x", "labels")}
        source = generate(problem_of(_cross_entropy, tensors), vector).kernel.source
        assert ("labels_next = labels[next_row];" in source) == ahead
        kernel = source[source.index("__global__") :]
        element, walk = kernel.index("= x_row["), kernel.index("for (int col")
        assert (element < walk) == ahead
        check(_cross_entropy, source, tensors, "checked")


@pytest.mark.many(3)
@pytest.mark.parametrize("columns", [1027, 1536, 255])
def test_a_logit_is_asked_for_with_the_last_step(columns: int) -> None:
    """Its index has come by then, if there is a step before; results are right where there is none."""
    tensors = {word: _tensors(5, 1027)[word] for word in ("x", "labels")}
    settings = {"block_size": "64", "vector_width": "4", "single_pass": "on", "loads_in_flight": "2"}
    source = generate(problem_of(_cross_entropy, tensors), (*settings.items(), LAST)).kernel.source
    kernel = source[source.index("__global__") :]
    whole, element, last = map(kernel.index, ("take(from, 2);", "= x_row[labels", "take(whole"))
    assert whole < element < last
    other = {word: _tensors(5, columns)[word] for word in ("x", "labels")}
    check(_cross_entropy, source, other, "checked")


@pytest.mark.parametrize(("join", "parts"), [(LAST, "row_where_sum_part["), (TOLD, "said[")])
def test_few_parts_are_joined_by_little_code(join: tuple[str, str], parts: str) -> None:
    """A part a thread where few rows are declared, four where many are; other calls may have more."""
    few, many = ({k: v for k, v in _tensors(rows, 8).items() if k != "y"} for rows in (48, 700))
    vector = (("block_size", "64"), ("threads_per_row", "block"), join)
    source = generate(problem_of(_cross_entropy, few), vector).kernel.source
    assert parts not in source
    for tensors in (few, many):
        check(_cross_entropy, source, tensors)
    assert f"{parts}4]" in generate(problem_of(_cross_entropy, many), vector).kernel.source


@pytest.mark.slow
def test_few_rows_begin_with_every_way_to_add_them_up() -> None:
    def ways(rows: int) -> set[str | None]:
        problem = problem_of(_cross_entropy, {k: v for k, v in _tensors(rows, 64).items() if k != "y"})
        seeds = seed_vectors(problem, H100, 5)[-3:]
        return {dict(seed.vector or ()).get("row_totals") for seed in seeds}

    assert ways(256) == {"told", "last", "launch"}
    assert "told" not in ways(4096)
