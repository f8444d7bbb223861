"""One file for short, long and few rows: the plan chooses the kernel from the shape."""

import pytest
import torch

from tests.playbook.problems import problem_of
from tests.playbook.running import check, plan_of
from workbench.model import Problem, Vector
from workbench.playbook.generate import generate
from workbench.playbook.techniques.table import settled

ADAPTIVE: Vector = (
    ("block_size", "fit"),
    ("grid_split", "on"),
    ("row_cache", "registers"),
    ("threads_per_row", "fit"),
    ("vector_width", "4"),
)


def softmax(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.softmax(t["x"], 1)


@pytest.fixture(scope="module")
def problem() -> Problem:
    cases = ({"s0": 5000, "s1": 96}, {"s0": 2, "s1": 2**20}, {"s0": 5000, "s1": 16384})
    return problem_of(softmax, {"x": torch.randn(3, 5)}, "softmax", cases=cases)


@pytest.mark.parametrize(
    ("rows", "columns", "kernels"),
    [
        (700, 96, ("softmax_short<4>",)),
        (3, 1023, ("softmax_short<4>",)),  # rows that begin between two vectors are peeled
        (2000, 1032, ("softmax<4>",)),
        (2, 9001, ("softmax<4>",)),
        (2, 40001, ("softmax_partial<4>", "softmax_partial_2<4>", "softmax_finish<4>")),
    ],
)
def test_the_plan_chooses_by_shape(
    problem: Problem, rows: int, columns: int, kernels: tuple[str, ...]
) -> None:
    assert dict(settled(problem, ADAPTIVE)) | dict(ADAPTIVE) == dict(settled(problem, ADAPTIVE))
    source = generate(problem, ADAPTIVE).kernel.source
    tensors = {"x": torch.empty(rows, columns, device="meta")}
    assert tuple(launch.kernel for launch in plan_of(source, tensors).launches) == kernels


def test_rows_too_long_for_the_chip_do_not_take_the_others_with_them() -> None:
    cases = ({"s0": 4096, "s1": 393216}, {"s0": 4096, "s1": 4096}, {"s0": 1, "s1": 2**20})
    mixed = problem_of(softmax, {"x": torch.randn(3, 5)}, "softmax", cases=cases)
    source = generate(mixed, (*ADAPTIVE, ("single_pass", "on"))).kernel.source
    for columns, kernel in (
        (4096, "softmax<4>"),
        (32769, "softmax_reread<4>"),
        (393216, "softmax_reread<4>"),
    ):
        plan = plan_of(source, {"x": torch.empty(4096, columns, device="meta")})
        assert [launch.kernel for launch in plan.launches] == [kernel]
    whole, again = source.index("void softmax("), source.index("void softmax_reread(")
    assert "take_vector<OnlineSoftmax>" not in source[whole:again]
    assert "take_vector<OnlineSoftmax>" in source[again:]


def test_a_pass_less_is_not_offered_where_rows_wait_on_the_chip() -> None:
    alone = problem_of(softmax, {"x": torch.randn(5000, 4096)}, "softmax")
    assert "single_pass" not in dict(settled(alone, (("row_cache", "registers"),)))
    assert "single_pass" in dict(settled(alone, ()))


def test_blocks_are_as_long_as_their_rows(problem: Problem) -> None:
    source = generate(problem, ADAPTIVE).kernel.source
    blocks = []
    for columns in (1100, 5000, 16384):
        plan = plan_of(source, {"x": torch.empty(5000, columns, device="meta")})
        blocks.append(plan.launches[0].block[0])
        assert dict(plan.launches[0].consts)["THREADS"] == str(blocks[-1])
    assert blocks == [128, 512, 1024]


@pytest.mark.sweep
@pytest.mark.parametrize("shape", [(9, 40), (2, 3000), (600, 1030), (2, 33000), (530, 1025)])
def test_each_choice_is_right(problem: Problem, shape: tuple[int, int]) -> None:
    check(softmax, generate(problem, ADAPTIVE).kernel.source, {"x": torch.randn(shape)})
