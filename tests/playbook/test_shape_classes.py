"""Vectors that differ by shape: how they are spelt, and the one file that comes of them."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import problem_of
from tests.playbook.running import check, plan_of
from workbench.errors import UsageError
from workbench.model import H100, Problem
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.files.shape_classes import classes_of
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import cross, moves, parse_vector
from workbench.playbook.techniques.table import settled

TWO = (
    "by_shape=cols<=512|else threads_per_row=warp|block block_size=128|512 row_cache=registers vector_width=4"
)
THREE = (
    "by_shape=rows<=8|cols<=512|else grid_split=on|off|off threads_per_row=block|warp|block "
    "row_cache=reread|registers|shared vector_width=1|4|4"
)


def softmax(t: dict[str, Tensor]) -> Tensor:
    return torch.softmax(t["x"], 1)


def scaled_norm(t: dict[str, Tensor]) -> Tensor:
    x = t["x"] + t["skip"]
    return x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6)


@pytest.fixture(scope="module")
def rows() -> Problem:
    cases = ({"s0": 4000, "s1": 16384}, {"s0": 2, "s1": 2**20})
    return problem_of(softmax, {"x": torch.empty(4000, 96, device="meta")}, "softmax", cases=cases)


@pytest.fixture(scope="module")
def two_inputs() -> Problem:
    tensors = {"x": torch.empty(3000, 128, device="meta"), "skip": torch.empty(3000, 128, device="meta")}
    return problem_of(scaled_norm, tensors, "norm", cases=({"s0": 3000, "s1": 8192}, {"s0": 1, "s1": 2**18}))


def test_a_class_sees_its_own_cases(rows: Problem) -> None:
    vector = settled(rows, parse_vector(TWO))
    assert dict(vector)["by_shape"] == "cols<=512|else" and dict(vector)["block_size"] == "128|512"
    assert dict(vector)["vector_width"] == "4", "what all classes share is said once"
    short, rest = classes_of(rows, vector)
    assert [case.label for case in short.problem.cases] == ["4000x96"]
    assert [case.label for case in rest.problem.cases] == ["4000x16384", "2x1048576"]
    assert dict(short.vector)["threads_per_row"] == "warp"
    assert settled(rows, vector) == vector


def test_classes_that_agree_are_one(rows: Problem) -> None:
    same = settled(rows, parse_vector("by_shape=cols<=512|else vector_width=4|4"))
    assert "by_shape" not in dict(same) and same == settled(rows, parse_vector("vector_width=4"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("by_shape=cols<=512|rows<=2", "the last of them else"),
        ("by_shape=colls<=512|else", "Did you mean 'cols'"),
        ("by_shape=cols|else", "not a condition"),
        ("by_shape=cols<=8|else", "No declared shape is left for cols<=8"),
        ("by_shape=cols<=512|else vector_width=1|2|4", "lists 3 values for 2 classes"),
        ("by_shape=cols<=512|else vector_width=1|3", "vector_width cannot be '3'"),
        ("vector_width=1|2", "vector_width cannot be"),
    ],
)
def test_what_cannot_be_read_is_refused(rows: Problem, words: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        settled(rows, parse_vector(words))


@pytest.mark.parametrize(
    ("shape", "kernels"),
    [
        ((700, 96), ["softmax_cols_to_512<4>"]),
        ((3, 511), ["softmax_cols_to_512<1>"]),
        ((3000, 1032), ["softmax_rest<4>"]),
    ],
)
def test_the_plan_branches(rows: Problem, shape: tuple[int, int], kernels: list[str]) -> None:
    source = generate(rows, parse_vector(TWO)).kernel.source
    plan = plan_of(source, {"x": torch.empty(shape, device="meta")})
    assert [launch.kernel for launch in plan.launches] == kernels
    number = dict(plan.launches[0].consts)["SHAPE_CLASS"]
    assert f"#if SHAPE_CLASS == {number}  //" in source


def test_functions_that_classes_share_stand_once(rows: Problem) -> None:
    source = generate(rows, parse_vector(THREE)).kernel.source
    assert source.count("T warp_reduce(T value)") == 1 and source.count("struct alignas") == 1
    assert source.count("__global__") == 6, "three launches of a split with its plain kernel, and two more"
    assert "2: cols <= 512 (4000x96)" in source and "one warp a row" in source


@pytest.mark.many(6)
@pytest.mark.parametrize("shape", [(9, 40), (5, 3000), (12, 600)])
@pytest.mark.parametrize("words", [TWO, THREE])
def test_each_class_is_right(rows: Problem, words: str, shape: tuple[int, int]) -> None:
    check(softmax, generate(rows, parse_vector(words)).kernel.source, {"x": torch.randn(shape)}, "checked")


@pytest.mark.parametrize("shape", [(9, 40), (2, 3000)])
def test_two_inputs(two_inputs: Problem, shape: tuple[int, int]) -> None:
    tensors = {"x": torch.randn(shape), "skip": torch.randn(shape)}
    check(scaled_norm, generate(two_inputs, parse_vector(THREE)).kernel.source, tensors, "checked")


def test_the_model_of_time_takes_the_class(rows: Problem) -> None:
    vector = settled(rows, parse_vector(TWO))
    for case in rows.cases:
        part = next(p for p in classes_of(rows, vector) if case in p.problem.cases)
        alone = estimate(part.problem, part.vector, H100, case.size_map)
        assert estimate(rows, vector, H100, case.size_map) == alone


def test_a_move_changes_one_class(rows: Problem) -> None:
    vector = settled(rows, parse_vector(TWO))
    cards = moves(rows, vector, None, H100, "refine")
    assert any(card.title.endswith(", for cols <= 512") for card in cards)
    for card in cards:
        parts = [classes_of(rows, changed) for changed in (vector, card.vector)]
        before, after = ([settled(part.problem, part.vector) for part in classes] for classes in parts)
        changed = [b != a for b, a in zip(before, after, strict=True)]
        assert sum(changed) == 1, card.title
    assert cross(rows, vector, settled(rows, ()), H100) == ()


def test_what_holds_at_the_sizes_of_one_class_alone_is_not_taken_for_a_rule() -> None:
    """All declared heights above 128 are even: planes of two rows of windows still have odd ones."""

    def call(t: dict[str, Tensor]) -> Tensor:
        return torch.nn.functional.avg_pool2d(t["x"], 2)

    tensors = {"x": torch.randn(2, 3, 57, 57)}
    problem = problem_of(call, tensors, cases=({"s0": 1, "s1": 2, "s2": 224, "s3": 224},))
    source = generate(problem, parse_vector("by_shape=width<=128|else vector_width=1|2")).kernel.source
    check(call, source, {"x": torch.randn(1, 3, 3, 223)})
    check(call, source, tensors)
