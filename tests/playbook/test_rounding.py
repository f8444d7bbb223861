"""Rounding to 16 bits: once where it is stored, at full speed where it is computed with."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check
from workbench.playbook.generate import generate

bf16, half = torch.bfloat16, torch.float16


def norm(t: dict[str, Tensor]) -> Tensor:
    wide = t["x"].float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(t["x"].dtype)


def weighted(t: dict[str, Tensor]) -> Tensor:
    """As models write it: rounded, then multiplied by a weight of 16 bits."""
    return norm(t) * t["w"]


def kept_in_float(t: dict[str, Tensor]) -> Tensor:
    return (t["x"] * 3.1).to(bf16).float() - t["x"]


CALLS: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "norm, bf16": (norm, of(x=((5, 48), bf16))()),
    "norm, half": (norm, of(x=((5, 48), half))()),
    "weighted, bf16": (weighted, of(x=((5, 48), bf16), w=((48,), bf16))()),
    "weighted, half": (weighted, of(x=((5, 48), half), w=((48,), half))()),
}


@pytest.mark.many(9)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("width", ["1", "8"])
def test_right(name: str, width: str) -> None:
    call, tensors = CALLS[name]
    source = generate(problem_of(call, tensors, "norm"), (("vector_width", width),)).kernel.source
    check(call, source, tensors)


def test_what_is_stored_is_rounded_once() -> None:
    call, tensors = CALLS["norm, bf16"]
    source = generate(problem_of(call, tensors, "norm"), ()).kernel.source
    assert "nearest_bf16" not in source
    assert source.count("__float2bfloat16(") == 1


def test_what_is_computed_with_is_rounded_too() -> None:
    call, tensors = CALLS["weighted, bf16"]
    source = generate(problem_of(call, tensors, "norm"), ()).kernel.source
    assert "nearest_bf16(" in source.split("__global__")[1]


def test_between_tensors_of_32_bits() -> None:
    """The header comes along although no tensor has the type; a difference of rounding is the result."""
    tensors = of(x=(4, 33))()
    source = generate(problem_of(kept_in_float, tensors, "rounded"), ()).kernel.source
    assert "#include <cuda_bf16.h>" in source
    check(kept_in_float, source, tensors)


def to_bytes(t: dict[str, Tensor]) -> Tensor:
    return (t["x"] * 8.0).round().clamp(-128, 127).to(torch.int8)


def to_integers(t: dict[str, Tensor]) -> Tensor:
    return torch.clamp_max(torch.round(t["x"] * 8.0), 20.0).clamp_min(-7.0).to(torch.int32) + 1


def between_halves(t: dict[str, Tensor]) -> Tensor:
    return (t["x"] * 8.0).round().clamp(-7.5, 20.0).to(torch.int32)


def beyond_a_byte(t: dict[str, Tensor]) -> Tensor:
    return (t["x"] * 8.0).round().clamp(-300.0, 20.0).to(torch.int16)


def without_a_bound(t: dict[str, Tensor]) -> Tensor:
    return (t["x"] * 8.0).round().clamp(max=20.0).to(torch.int8)


@pytest.mark.parametrize(
    ("call", "at_once"),
    [
        (to_bytes, True),
        (to_integers, True),
        (between_halves, False),
        (beyond_a_byte, True),
        (without_a_bound, False),
    ],
)
def test_whole_bounds_come_before_a_conversion_that_rounds(call: Call, at_once: bool) -> None:
    halves = torch.arange(-40, 40) / 16.0
    tensors = {"x": torch.cat([halves, 5 * torch.randn(80)]).reshape(16, 10)}
    source = generate(problem_of(call, tensors), (("vector_width", "2"),)).kernel.source
    assert ("__float2int_rn(" in source, "rintf(" in source) == (at_once, not at_once)
    check(call, source, tensors)
