"""Rows of results that are made in parts: whole in shared memory, then stored as vectors side by side."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate

Tensors = dict[str, Tensor]
ON = ("staged_rows", "on")


def nine(t: Tensors) -> Tensor:
    w, x, y, z = (t["q"] / t["q"].norm(dim=-1, keepdim=True)).unbind(-1)
    first = (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y), 2 * (x * y + w * z))
    rest = (1 - 2 * (x * x + z * z), 2 * (y * z - w * x), 2 * (x * z - w * y), 2 * (y * z + w * x))
    return torch.stack((*first, *rest, 1 - 2 * (x * x + y * y)), -1)


def twelve(t: Tensors) -> Tensor:
    w, x, y, z = t["q"].unbind(-1)
    return torch.stack([a * b for a in (w, x, y) for b in (w - x, y, z, w + z)], -1)


def features(t: Tensors) -> Tensor:
    scaled = t["p"][..., None, :] * torch.arange(1, 5)[:, None]
    return torch.cat([t["p"], torch.sin(scaled).flatten(-2), torch.cos(scaled).flatten(-2)], -1)


def both(t: Tensors) -> tuple[Tensor, ...]:
    crossed = torch.cross(t["p"], t["r"], dim=-1)
    return F.normalize(crossed, dim=-1), t["p"] - crossed


def woven(t: Tensors) -> Tensor:
    return torch.stack((t["p"], t["r"] * 2, t["p"] - t["r"]), -1).flatten(-2)


def mixed(t: Tensors) -> Tensor:
    q = t["q"]
    return torch.cat([q[:, :1] + 1, q.exp(), q[:, 1:] * 3, q[:, :2], q[:, 3:] - q[:, :1]], -1)


ALL: tuple[Call, ...] = (nine, twelve, features, both, woven, mixed)
NAMES = {nine: "q", twelve: "q", features: "p", both: "pr", woven: "pr", mixed: "q"}
APART = {both: ("axis_a_thread", "on"), woven: ("axis_a_thread", "on")}


def tensors_of(call: Call, rows: int, dtype: torch.dtype = torch.float32, width: int = 3) -> Tensors:
    shapes = {"q": (rows, 4), "p": (rows, width), "r": (rows, width)}
    return {name: torch.randn(*shapes[name]).to(dtype) for name in NAMES[call]}


def source_of(call: Call, tensors: Tensors, *more: tuple[str, str]) -> str:
    apart = [APART[call]] if call in APART else []
    vector = (("staged_rows", "on"), ("block_size", "64"), *apart, *more)
    source = generate(problem_of(call, tensors), vector).kernel.source
    assert "_tile" in source and source.count("__global__") == 1
    return source


@pytest.mark.parametrize("more", [(), (("index_width", "32"), ("stores", "streamed"))])
@pytest.mark.parametrize("call", ALL)
def test_rows_are_whole_before_they_are_stored(call: Call, more: tuple[tuple[str, str], ...]) -> None:
    source = source_of(call, tensors_of(call, 70), *more)
    for rows in (1, 127, 129):
        check(call, source, tensors_of(call, rows), "checked")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("call", ALL)
def test_of_any_type(call: Call, dtype: torch.dtype) -> None:
    tensors = tensors_of(call, 70, dtype)
    check(call, source_of(call, tensors), tensors, "checked")
