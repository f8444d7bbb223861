"""What a library's convolution takes: the referee and the playbook go by the same figures."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.problems import Call, problem_of
from workbench.model import H100, Convolved, ConvolvedSide, cudnn_operations
from workbench.playbook.analysis.convolutions import convolution_of
from workbench.playbook.estimates.library_work import library_operations
from workbench.playbook.ir.program import LibraryCall
from workbench.playbook.techniques.traits import program_of
from workbench.referee.baselines import compile_us
from workbench.referee.work import LIBRARY_EFFICIENCY, sized


def plane(t: dict[str, Tensor]) -> Tensor:
    return F.conv2d(t["x"], t["w"], stride=2, padding=1)


def in_groups(t: dict[str, Tensor]) -> Tensor:
    return F.conv1d(t["x"], t["w"], groups=3)


def by_channel(t: dict[str, Tensor]) -> Tensor:
    return F.conv2d(t["x"], t["w"], padding=1, groups=48)


def transposed(t: dict[str, Tensor]) -> Tensor:
    return F.conv_transpose2d(t["x"], t["w"], stride=2, padding=1)


CALLS: dict[str, tuple[Call, tuple[int, ...], tuple[int, ...]]] = {
    "plane": (plane, (8, 24, 40, 40), (64, 24, 3, 3)),
    "in groups": (in_groups, (64, 147, 32), (147, 49, 1)),
    "depthwise": (by_channel, (4, 48, 56, 56), (48, 1, 3, 3)),
    "transposed": (transposed, (4, 32, 20, 20), (32, 64, 4, 4)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", CALLS)
def test_referee_and_playbook_agree(name: str, dtype: torch.dtype) -> None:
    call, x, w = CALLS[name]
    tensors = {"x": torch.zeros(x, dtype=dtype), "w": torch.zeros(w, dtype=dtype)}
    problem = problem_of(call, tensors, "convolved", varying=False)
    program = program_of(problem, True, frozenset(["depthwise"]))
    (found,) = (step for step in program.steps if isinstance(step, LibraryCall))
    made = convolution_of(program, found)
    assert made is not None
    (node,) = (one for one in sized(problem, problem.cases[0]) if one.name == "convolution")
    asked = node.library_operations("ieee-fp32")
    assert asked == pytest.approx(LIBRARY_EFFICIENCY * library_operations(made, {}))
    if dtype == torch.float32:
        assert node.library_operations("tf32") < asked  # not fitted: a share of tensor cores' peak


def test_groups_cost_the_library_more_than_their_arithmetic() -> None:
    side = ConvolvedSide(32, 32, 1)
    whole = Convolved(640, 1, 147, 147, (side,))
    groups = Convolved(640, 3, 49, 49, (side,))
    assert groups.multiply_adds == pytest.approx(whole.multiply_adds / 3)
    assert cudnn_operations(groups) > 10 * cudnn_operations(whole)


def test_nothing_takes_no_operations() -> None:
    assert cudnn_operations(Convolved(0, 1, 8, 8, (ConvolvedSide(4, 4, 3),))) == 0


def test_a_compiled_model_waits_for_its_convolutions() -> None:
    """640 x 147 x 32 in three groups take cuDNN 490 us on an H100; the bytes alone would take 8."""
    call, _, w = CALLS["in groups"]
    tensors = {"x": torch.zeros(640, 147, 32), "w": torch.zeros(w)}
    problem = problem_of(call, tensors, "convolved", varying=False)
    assert 300 < compile_us(H100, problem, problem.cases[0]) < 700
