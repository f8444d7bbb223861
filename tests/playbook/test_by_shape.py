"""Which shapes take which kernel: conditions that tell cases apart, cards from found and predicted times."""

from collections.abc import Mapping

import pytest
import torch
from torch.nn import functional as F

from tests.playbook.problems import problem_of
from workbench.model import H100, CaseTime, Digest, Evaluation, Passed, Problem, Target, Vector
from workbench.plan.interpret import interpret, refuse_library
from workbench.plan.parse import parse
from workbench.playbook.estimates.estimate import Estimate
from workbench.playbook.files.shape_classes import class_at, classes_of
from workbench.playbook.generate import generate
from workbench.playbook.rules import by_shape
from workbench.playbook.rules.by_shape import Found, from_found, from_prediction, of_case, vector_by_case
from workbench.playbook.rules.moves import parse_vector, seed_vectors
from workbench.playbook.techniques.table import settled

SHAPES = ((4096, 32768), (16, 16384), (4096, 1024), (1, 2**20))
LABELS = ("4096x32768", "16x16384", "4096x1024", "1x1048576")


@pytest.fixture(scope="module")
def problem() -> Problem:
    cases = tuple({"s0": rows, "s1": columns} for rows, columns in SHAPES[1:])
    x = torch.empty(SHAPES[0], device="meta")
    return problem_of(lambda t: torch.softmax(t["x"], 1), {"x": x}, "softmax", cases=cases)


def vectors(problem: Problem) -> list[Vector]:
    words = ("block_size=1024 row_cache=registers", "block_size=256", "threads_per_row=fit vector_width=4")
    return [settled(problem, parse_vector(text)) for text in words]


def evaluation(*times_us: float, source: str = "measured") -> Evaluation:
    times = [
        CaseTime.model_validate({"case": label, "source": source, "time_us": time, "floor_us": 1.0})
        for label, time in zip(LABELS, times_us, strict=True)
    ]
    return Evaluation(kernel=Digest("k"), device="cuda", target="H100", outcome=Passed(), times=tuple(times))


def two_found(problem: Problem) -> list[Found]:
    """The first is faster at the first and third shape, the second at the others."""
    one, two, _ = vectors(problem)
    return [
        Found("b3", one, evaluation(487, 10.4, 14.4, 12.5)),
        Found("b7", two, evaluation(551, 7.8, 15.0, 11.0)),
    ]


def conditions(problem: Problem, wanted: list[int]) -> list[str]:
    known = vectors(problem)
    by_case = {label: known[number] for label, number in zip(LABELS, wanted, strict=True)}
    vector = vector_by_case(problem, by_case, H100)
    assert vector is not None
    return [part.condition.word for part in classes_of(problem, vector)]


def test_boundaries_lie_halfway_between_the_shapes(problem: Problem) -> None:
    assert conditions(problem, [0, 0, 1, 0]) == ["cols<=4096", "else"]
    assert conditions(problem, [0, 1, 0, 0]) == ["4096<cols<=16384", "else"]
    assert conditions(problem, [0, 1, 0, 1]) == ["rows<=256", "else"]
    assert len(conditions(problem, [0, 1, 2, 1])) == 3


def test_a_boundary_is_not_beyond_what_the_kernel_takes(problem: Problem) -> None:
    """A warp keeps 2048 columns in registers: longer rows are left to the other class."""
    warp = parse_vector("threads_per_row=warp row_cache=registers")
    block = settled(problem, parse_vector("threads_per_row=block vector_width=4 grid_split=on"))
    wanted = {label: warp if label == "4096x1024" else block for label in LABELS}
    vector = vector_by_case(problem, wanted, H100)
    assert vector is not None
    program = parse(generate(problem, vector).kernel.source)
    for columns in (1500, 2048, 2049, 4096, 5000):
        metas = problem.metas(problem.cases[0].model_copy(update={"sizes": (("s0", 4096), ("s1", columns))}))
        assert interpret(program, metas, H100, refuse_library).launches, columns


def test_a_fitted_team_stays_what_it_was(problem: Problem) -> None:
    fit, other = vectors(problem)[2], vectors(problem)[1]
    wanted = {label: fit if label == "4096x1024" else other for label in LABELS}
    vector = vector_by_case(problem, wanted, H100)
    assert vector is not None and dict(vector)["threads_per_row"] == "warp|block"


def divergence() -> Problem:
    """Rows of two inputs, and then a sum over the rows, which is a row of another length."""
    shapes = ((4096, 32000), (8192, 1000), (65536, 128))
    x = torch.empty(shapes[0], device="meta")
    cases = tuple({"s0": rows, "s1": columns} for rows, columns in shapes[1:])
    return problem_of(
        lambda t: F.kl_div(F.log_softmax(t["x"], dim=1), F.softmax(t["y"], dim=1), reduction="batchmean"),
        {"x": x, "y": x.clone()},
        "kl_div",
        cases=cases,
    )


def launches(problem: Problem, vector: Vector, label: str) -> list[tuple[object, ...]]:
    """Grids and blocks at a declared case."""
    case = next(case for case in problem.cases if case.label == label)
    program = parse(generate(problem, vector).kernel.source)
    steps = interpret(program, problem.metas(case), H100, refuse_library).launches
    return [(step.grid, step.block, step.cluster, step.cooperative) for step in steps]


@pytest.mark.many(3)
@pytest.mark.parametrize("cache", ["shared", "registers", "reread"])
def test_a_class_of_short_rows_launches_what_was_measured(cache: str) -> None:
    """Measured on an H100: 33 us for 65536x128 alone, 174 us in a class whose team had become a block."""
    problem = divergence()
    common = f"row_cache={cache} vector_width=4 single_pass=on threads_per_row=fit"
    fit = settled(problem, parse_vector(f"{common} split_join=last grid_split=on"))
    long = settled(problem, parse_vector(f"{common} block_size=1024"))
    labels = ["4096x32000", "8192x1000", "65536x128"]
    vector = vector_by_case(problem, dict(zip(labels, (long, fit, fit), strict=True)), H100)
    assert vector is not None and dict(vector)["threads_per_row"] == "warp|block"
    for label, wanted in zip(labels, (long, fit, fit), strict=True):
        assert launches(problem, vector, label) == launches(problem, wanted, label), label


def test_a_class_that_the_model_calls_slower_is_parted_or_not_joined(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = two_found(problem)
    always = False

    def model(_: Problem, vector: Vector, target: Target, sizes: Mapping[str, int]) -> Estimate:
        classes = classes_of(problem, vector)
        at = class_at(classes, problem, sizes).problem.cases if classes else ()
        lost = classes and sizes["s1"] == 2**20 and (always or len(at) > 1)
        return Estimate(120.0 if lost else 100.0, 0.0, 1, 0.0, 1.0)

    plain = from_found(problem, kernels, H100)
    assert plain is not None and len(classes_of(problem, plain.vector)) == 2
    monkeypatch.setattr(by_shape, "estimate", model)
    parted = from_found(problem, kernels, H100)
    assert parted is not None
    alone = [[case.label for case in part.problem.cases] for part in classes_of(problem, parted.vector)]
    assert len(alone) == 3 and ["1x1048576"] in alone
    always = True
    assert from_found(problem, kernels, H100) is None


def test_a_shape_that_cannot_have_its_fastest_kernel_takes_the_next(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = two_found(problem)

    def model(_: Problem, vector: Vector, target: Target, sizes: Mapping[str, int]) -> Estimate:
        classes = classes_of(problem, vector)
        taken = dict(class_at(classes, problem, sizes).vector) if classes else {}
        lost = sizes["s1"] == 2**20 and taken.get("block_size") == "256"
        return Estimate(120.0 if lost else 100.0, 0.0, 1, 0.0, 1.0)

    monkeypatch.setattr(by_shape, "estimate", model)
    card = from_found(problem, kernels, H100)
    assert card is not None and "b7 at 16x16384." in card.cause
    assert card.predicted_factor == pytest.approx(((551 * 15.0 * 11.0) / (487 * 14.4 * 12.5)) ** 0.25)


def test_a_shape_that_lost_in_a_joined_kernel_gets_a_class_of_its_own(problem: Problem) -> None:
    kernels = two_found(problem)
    first = from_found(problem, kernels, H100)
    assert first is not None and first.vector is not None
    kernels.append(Found("b9", first.vector, evaluation(487, 7.8, 14.4, 20.0)))
    second = from_found(problem, kernels, H100)
    assert (
        second is not None and "1x1048576: 20 us in the joined b9, 11 us by b7 (measured)" in second.evidence
    )
    parts = classes_of(problem, second.vector)
    own = next(part for part in parts if "1x1048576" in [case.label for case in part.problem.cases])
    assert len(own.problem.cases) == 1 and dict(own.vector)["block_size"] == "256"


def test_the_card_takes_the_fastest_of_each_shape(problem: Problem) -> None:
    one, two, _ = vectors(problem)
    kernels = [
        Found("b3", one, evaluation(487, 10.4, 14.4, 12.5)),
        Found("b7", two, evaluation(551, 7.8, 15.0, 13.0)),
    ]
    card = from_found(problem, kernels, H100)
    assert card is not None and card.technique == "by_shape"
    assert card.predicted_factor == pytest.approx(((551 / 487) * (15.0 / 14.4) * (13.0 / 12.5)) ** 0.25)
    assert card.evidence[1] == "16x16384: 7.8 us by b7, 10.4 us by b3 (measured)"
    assert "b3 at 4096x32768, 4096x1024, 1x1048576; b7 at 16x16384" in card.cause
    assert "4096 < cols <= 16384 (16x16384)" in card.fix
    assert [dict(part.vector)["block_size"] for part in classes_of(problem, card.vector)] == ["256", "1024"]


def test_what_is_joined_can_be_joined_again(problem: Problem) -> None:
    one, two, three = vectors(problem)
    first = from_found(
        problem,
        [Found("b1", one, evaluation(487, 10, 14, 12)), Found("b2", two, evaluation(551, 8, 14, 12))],
        H100,
    )
    assert first is not None
    kernels = [
        Found("b3", first.vector, evaluation(487, 8, 14, 12)),
        Found("b4", three, evaluation(600, 9, 10, 14)),
    ]
    second = from_found(problem, kernels, H100)
    assert second is not None
    taken = {
        case.label: part.vector for part in classes_of(problem, second.vector) for case in part.problem.cases
    }
    assert len(set(taken.values())) == 3
    assert dict(taken["4096x1024"])["threads_per_row"] == "warp", "fitted to its short row"


def test_no_card_where_one_kernel_is_best(problem: Problem) -> None:
    one, two, _ = vectors(problem)
    best = Found("b1", one, evaluation(487, 8, 14, 12))
    assert from_found(problem, [best, Found("b2", two, evaluation(551, 9, 14, 12))], H100) is None
    modelled = Found("b2", two, evaluation(400, 9, 9, 12, source="model"))
    assert from_found(problem, [best, modelled], H100) is None, "a model's time is not held against a clock's"
    assert from_found(problem, [Found("b1", one, None)], H100) is None


def test_a_seed_is_joined_where_the_model_promises_enough(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, _ = vectors(problem)
    slow_rows = {one: 1.0, two: 1.0}

    def model(_: Problem, vector: Vector, target: Target, sizes: Mapping[str, int]) -> Estimate:
        block = vector_at(problem, vector, sizes)["block_size"]
        long = sizes["s1"] > 30000
        us = 100.0 * (slow_rows[one] if (block == "1024") != long else 1.0)
        return Estimate(us, 0.0, 1, 0.0, 1.0)

    monkeypatch.setattr(by_shape, "estimate", model)
    assert from_prediction(problem, [one, two], H100) is None
    slow_rows[one] = 1.08
    assert from_prediction(problem, [one, two], H100) is None, "4% over the best one are not enough"
    slow_rows[one] = 1.2
    card = from_prediction(problem, [one, two], H100)
    assert card is not None and card.predicted_factor == pytest.approx(1.2**0.5)
    assert [part.condition.word for part in classes_of(problem, card.vector)] == ["cols<=16384", "else"]
    assert "gain 1.10x" in card.cause and "1x1048576: about 100 us (playbook's model)" in card.evidence
    single = problem.model_copy(update={"cases": problem.cases[:1]})
    assert from_prediction(single, [one, two], H100) is None


def vector_at(problem: Problem, vector: Vector, sizes: Mapping[str, int]) -> dict[str, str]:
    classes = classes_of(problem, vector)
    return dict(class_at(classes, problem, sizes).vector if classes else vector)


def test_short_rows_beside_long_ones_are_scanned_as_if_they_were_alone() -> None:
    """What declared shapes allow together is a block a row: the long one has no lanes."""
    long, short = {"s0": 16, "s1": 2**18}, {"s0": 2**16, "s1": 256}
    x = torch.empty(16, 2**18, device="meta")
    problem = problem_of(lambda t: t["x"].cumsum(1), {"x": x}, "cumsum", cases=(short,))
    wide = H100.model_copy(update={"dram_bytes_per_s": 4.1e12})  # memory that no longer hides the barriers
    cards = [card for card in seed_vectors(problem, wide, count=6) if card.technique == "by_shape"]
    assert len(cards) == 1
    assert vector_at(problem, cards[0].vector, long)["look_back"] == "on"
    assert vector_at(problem, cards[0].vector, short)["scan_lanes"] == "fit"
    only_long = seed_vectors(of_case(problem, "16x262144"), wide, count=6)
    assert not [card for card in only_long if card.technique == "by_shape"]
    others = [card.predicted_factor for card in seed_vectors(problem, wide, count=6) if card != cards[0]]
    assert cards[0].predicted_factor > max(others), "of the same naive chain"
