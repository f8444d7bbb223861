"""Running totals that are reduced along their rows: one kernel that reads everything once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.model import H100, Vector
from workbench.playbook.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.moves import seed_vectors
from workbench.playbook.techniques import settled

Tensors = dict[str, Tensor]


def rendered(t: Tensors) -> tuple[Tensor, Tensor]:
    alpha = 1 - torch.exp(-torch.relu(t["x"]) * t["y"])
    clear = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha[:, :-1] + 1e-10], 1), 1)
    weights = alpha * clear
    return (weights[..., None] * t["c"]).sum(1), weights


def depths(t: Tensors) -> tuple[Tensor, Tensor]:
    """Nothing but sums, of one result a ray."""
    alpha = torch.sigmoid(t["x"])
    weights = alpha * torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha[:, :-1]], 1), 1)
    return (weights * t["y"]).sum(1) / weights.sum(1), (weights * weights).sum(1)


def in_planes(t: Tensors) -> Tensor:
    """Colours of a ray in planes, a channel behind the other."""
    totals = torch.cumsum(t["x"], 1)
    return (totals[:, None, :] * t["c"].transpose(1, 2).contiguous()).sum(2)


def totals_too(t: Tensors) -> tuple[Tensor, Tensor]:
    totals = torch.cumsum(t["x"] * t["y"], 1)
    return totals, (totals[..., None] * t["c"]).amax(1) + t["c"][:, 0]


def behind_zero(t: Tensors) -> tuple[Tensor, Tensor]:
    before = torch.cat([torch.zeros_like(t["x"][:, :1]), t["x"][:, :-1]], 1).cumsum(1)
    return before, (before * t["x"] * t["y"]).sum(1)


def shorter(t: Tensors) -> Tensor:
    """The last column of what is scanned does not exist: nothing may be read there."""
    before = torch.cat([torch.ones_like(t["x"][:, :1]), t["s"]], 1).cumprod(1)
    return (before[..., None] * t["c"]).sum(1)


CALLS: dict[str, Call] = {
    "rendered": rendered,
    "depths": depths,
    "in planes": in_planes,
    "totals too": totals_too,
    "behind zero": behind_zero,
    "shorter": shorter,
}
VECTORS: dict[str, Vector] = {
    "warps": (("row_sums", "warp"), ("block_size", "128"), ("vector_width", "4")),
    "scalars": (("row_sums", "warp"), ("block_size", "64"), ("vector_width", "1")),
    "blocks": (("row_sums", "block"), ("block_size", "64"), ("vector_width", "4")),
    "blocks of scalars": (("row_sums", "block"), ("block_size", "64"), ("vector_width", "1")),
}
SIZES = ((5, 132, 3), (3, 260, 3), (2, 67, 2), (1, 4, 1), (4, 30, 5))


def tensors(call: Call, rows: int, columns: int, beside: int, dtype: torch.dtype = torch.float32) -> Tensors:
    torch.manual_seed(rows * columns)
    given = {
        "x": torch.rand(rows, columns) / 4,
        "y": torch.rand(rows, columns),
        "c": torch.rand(rows, columns, beside),
        "s": torch.rand(rows, columns - 1) / 4 + 0.75,
    }
    wanted = {rendered: "xyc", depths: "xy", in_planes: "xc", totals_too: "xyc", behind_zero: "xy", shorter: "xcs"}
    return {name: given[name].to(dtype) for name in wanted[call]}


def launches(source: str) -> int:
    return source.partition("*/")[0].count("launch(")


@pytest.mark.parametrize(("name", "vector"), crossed(CALLS, VECTORS))
def test_one_kernel_reads_everything_once(name: str, vector: str) -> None:
    call = CALLS[name]
    source = generate(problem_of(call, tensors(call, *SIZES[0])), VECTORS[vector]).kernel.source
    assert launches(source) == (2 if call is in_planes else 1) or call is in_planes
    for rows, columns, beside in SIZES:
        check(call, source, tensors(call, rows, columns, beside), "checked")
