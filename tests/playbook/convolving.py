"""Functions around a convolution, of one to three sides, and those that tensor cores are tried with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.problems import Call
from tests.playbook.references import of
from workbench.playbook.analysis.convolutions import convolution_of
from workbench.playbook.estimates import ways as choosing
from workbench.playbook.ir.program import Convolution, LibraryCall, Program, ProgramStep
from workbench.playbook.kernels.made_by_kernels import ways_of
from workbench.playbook.schedules.schedule import Schedule


def have_chosen(
    chosen: Callable[[LibraryCall, list[Convolution]], Convolution | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each convolution is made in the way that is ``chosen`` of those there are; the model is not asked."""

    def way_of(
        program: Program,
        steps: Sequence[ProgramStep],
        call: LibraryCall,
        schedule: Schedule,
        cases: Sequence[Mapping[str, int]],
    ) -> Convolution | None:
        made = convolution_of(program, call)
        assert made is not None
        return chosen(call, list(ways_of(made, schedule, cases)))

    monkeypatch.setattr(choosing, "way_of", way_of)


def ordinary(**settings: Any) -> Call:
    def call(t: dict[str, Tensor]) -> Tensor:
        convolve = (F.conv1d, F.conv2d, F.conv3d)[t["x"].ndim - 3]
        made = convolve(t["x"], t["w"], t.get("b"), **settings)
        return torch.relu(made) * 0.5

    return call


def transposed(**settings: Any) -> Call:
    def call(t: dict[str, Tensor]) -> Tensor:
        made = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[t["x"].ndim - 3]
        return torch.tanh(made(t["x"], t["w"], t.get("b"), **settings))

    return call


def with_one(tensors: dict[str, Tensor], value: float) -> dict[str, Tensor]:
    """The same tensors, but for one element of the input, which is inside and seen by several places."""
    x = tensors["x"].clone()
    x[1, 3, 4, 5] = value
    return {**tensors, "x": x}


def two_results(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """A residual, a value a channel, and the places themselves behind a convolution."""
    made = F.conv2d(t["x"], t["w"], padding=1) + t["b"][:, None, None]
    along = torch.arange(made.shape[-1], device=made.device)
    return made + t["r"], torch.where(along % 2 == 0, made, -made)


def shared(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Results that are wanted as they are, too."""
    made = F.conv2d(t["x"], t["w"])
    return made, torch.sigmoid(made)


ON_TENSOR_CORES: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "plane": (ordinary(padding=1), of(x=(2, 16, 11, 13), w=(33, 16, 3, 3), b=(33,))()),
    "strided": (ordinary(stride=(2, 3), padding=(2, 1)), of(x=(3, 5, 20, 31), w=(40, 5, 3, 5), b=(40,))()),
    "dilated": (ordinary(dilation=(2, 3)), of(x=(2, 8, 14, 21), w=(32, 8, 3, 3), b=(32,))()),
    "in groups": (ordinary(groups=2, padding=1), of(x=(2, 12, 7, 9), w=(70, 6, 3, 3), b=(70,))()),
    "many channels": (ordinary(), of(x=(1, 19, 9, 11), w=(140, 19, 2, 2), b=(140,))()),
    "one by one": (ordinary(), of(x=(2, 36, 7, 9), w=(32, 36, 1, 1), b=(32,))()),
    "volume": (
        ordinary(stride=(1, 2, 1), padding=1),
        of(x=(2, 6, 5, 6, 9), w=(34, 6, 3, 3, 2), b=(34,))(),
    ),
    "line": (ordinary(stride=2, dilation=3, padding=4), of(x=(3, 12, 75), w=(36, 12, 4), b=(36,))()),
    "transposed": (transposed(), of(x=(2, 6, 7, 9), w=(6, 36, 3, 3), b=(36,))()),
    "transposed in groups": (
        transposed(groups=2, padding=(1, 2), dilation=(2, 1)),
        of(x=(2, 12, 8, 9), w=(12, 34, 2, 3), b=(68,))(),
    ),
    "transposed volume": (transposed(padding=1), of(x=(1, 3, 4, 5, 6), w=(3, 130, 3, 3, 2), b=(130,))()),
    "transposed by two": (
        transposed(stride=2, padding=1),
        of(x=(2, 12, 7, 9), w=(12, 36, 4, 4), b=(36,))(),
    ),
    "transposed by two, three taps": (
        transposed(stride=2, padding=1, output_padding=1),
        of(x=(2, 20, 5, 6), w=(20, 34, 3, 3), b=(34,))(),
    ),
    "transposed by two, dilated, in groups": (
        transposed(stride=2, dilation=3, padding=(0, 2), groups=2),
        of(x=(2, 24, 6, 7), w=(24, 33, 3, 4), b=(66,))(),
    ),
    "transposed by steps of each side": (
        transposed(stride=(3, 2), padding=(2, 0), dilation=(2, 1)),
        of(x=(2, 16, 6, 9), w=(16, 40, 4, 3), b=(40,))(),
    ),
    "transposed volume by two": (
        transposed(stride=(1, 2, 2), padding=1),
        of(x=(1, 10, 4, 5, 6), w=(10, 32, 3, 4, 3), b=(32,))(),
    ),
    "transposed line by three": (transposed(stride=3), of(x=(2, 16, 40), w=(16, 33, 7), b=(33,))()),
    "many taps around": (
        ordinary(padding=2),
        of(x=(1, 2, 5, 6, 7), w=(32, 2, 5, 5, 4), b=(32,))(),
    ),
    "two results": (two_results, of(x=(2, 5, 9, 11), w=(32, 5, 3, 3), b=(32,), r=(2, 32, 9, 11))()),
    "results wanted twice": (shared, of(x=(2, 5, 9, 11), w=(32, 5, 3, 3))()),
}
