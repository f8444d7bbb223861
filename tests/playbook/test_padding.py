"""Padding by as much as one size is more than another, which cuts where it is less."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.playbook.problems import problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate


def as_wide(t: dict[str, Tensor]) -> Tensor:
    more = t["y"].shape[-1] - t["x"].shape[-1]
    return torch.cat([t["y"], F.pad(t["x"], [more // 2, more - more // 2])], 1)


def tensors(narrow: int, wide: int) -> dict[str, Tensor]:
    return {"x": torch.randn(3, 5, narrow), "y": torch.randn(3, 5, wide)}


@pytest.mark.parametrize("width", ["32", "64"])
def test_what_is_padded_to_another_width_is_cut_where_it_is_wider(width: str) -> None:
    given = tensors(24, 33)
    source = generate(
        problem_of(as_wide, given), (("index_width", width), ("vector_width", "4"))
    ).kernel.source
    for here in (given, tensors(33, 24), tensors(9, 2)):
        check(as_wide, source, here)
