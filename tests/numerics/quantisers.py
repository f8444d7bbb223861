"""Quantisers and other operations that jump: references, graphs, honest kernels and wrong ones.

The kernels are written as a GPU's would be: float32 inside, whatever the tensors are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from known_ops import Op, make, node, ref
from torch import Tensor

from workbench.model import DType, Sampler

SHAPES = ((8, 300), (1, 4096), (33, 64))
FLOATS: tuple[DType, ...] = ("f16", "bf16", "f32")
Kernel = Callable[..., Tensor]
Rounding = Callable[[Tensor], Tensor]


def contract_of(dtype: DType) -> Any:
    return "ieee-fp32" if dtype == "f32" else "16-bit io, fp32 accumulate"


def by_scale(shape: tuple[int, int], dtype: DType) -> Op:
    """``clamp(round(x / s), -128, 127)`` as int8, a scale for each row given."""
    return make(
        lambda x, s: torch.clamp(torch.round(x / s), -128, 127).to(torch.int8),
        {"x": shape, "s": (shape[0], 1)},
        (
            node("v", "aten.div.Tensor", ref("x"), ref("s"), dtype=dtype),
            node("r", "aten.round.default", ref("v"), dtype=dtype),
            node("c", "aten.clamp.default", ref("r"), -128, 127, dtype=dtype),
            node("y", "aten._to_copy.default", ref("c"), dtype="i8"),
        ),
        dtype=dtype,
        out="i8",
        contract=contract_of(dtype),
        s=Sampler(kind="uniform", low=0.01, high=1.01, scalable=False),
    )


def _row_quantised(dtype: DType) -> tuple[Any, ...]:
    return (
        node("a", "aten.abs.default", ref("x"), dtype=dtype),
        node("m", "aten.amax.default", ref("a"), (-1,), True, dtype=dtype),
        node("s", "aten.div.Tensor", ref("m"), 127.0, dtype=dtype),
        node("v", "aten.div.Tensor", ref("x"), ref("s"), dtype=dtype),
        node("r", "aten.round.default", ref("v"), dtype=dtype),
        node("c", "aten.clamp.default", ref("r"), -128, 127, dtype=dtype),
        node("q", "aten._to_copy.default", ref("c"), dtype="i8"),
    )


def by_row(shape: tuple[int, int], dtype: DType) -> Op:
    """The same with the scale ``amax(|x|) / 127``."""

    def call(x: Tensor) -> Tensor:
        s = x.abs().amax(-1, keepdim=True) / 127.0
        return torch.clamp(torch.round(x / s), -128, 127).to(torch.int8)

    return make(call, {"x": shape}, _row_quantised(dtype), dtype=dtype, out="i8", contract=contract_of(dtype))


def there_and_back(shape: tuple[int, int], dtype: DType) -> Op:
    """Quantised by row and multiplied by the scale again: what such a tensor is taken for."""

    def call(x: Tensor) -> Tensor:
        s = x.abs().amax(-1, keepdim=True) / 127.0
        return torch.clamp(torch.round(x / s), -128, 127).to(torch.int8).to(x.dtype) * s

    nodes = (
        *_row_quantised(dtype),
        node("w", "aten._to_copy.default", ref("q"), dtype=dtype),
        node("y", "aten.mul.Tensor", ref("w"), ref("s"), dtype=dtype),
    )
    return make(call, {"x": shape}, nodes, dtype=dtype, contract=contract_of(dtype))


def over_threshold(shape: tuple[int, int], dtype: DType) -> Op:
    """``where(tanh(x) * 2 > 0.5, x, 0)``: a threshold on what was rounded."""

    def call(x: Tensor) -> Tensor:
        return torch.where(torch.tanh(x) * 2 > 0.5, x, torch.zeros_like(x))

    nodes = (
        node("t", "aten.tanh.default", ref("x"), dtype=dtype),
        node("d", "aten.mul.Tensor", ref("t"), 2, dtype=dtype),
        node("g", "aten.gt.Scalar", ref("d"), 0.5, dtype="bool"),
        node("z", "aten.zeros_like.default", ref("x"), dtype=dtype),
        node("y", "aten.where.self", ref("g"), ref("x"), ref("z"), dtype=dtype),
    )
    return make(call, {"x": shape}, nodes, dtype=dtype, contract=contract_of(dtype))


def binned(shape: tuple[int, int], dtype: DType) -> Op:
    """``floor(x * 0.3)`` as int32."""
    nodes = (
        node("v", "aten.mul.Tensor", ref("x"), 0.3, dtype=dtype),
        node("f", "aten.floor.default", ref("v"), dtype=dtype),
        node("y", "aten._to_copy.default", ref("f"), dtype="i32"),
    )
    return make(
        lambda x: torch.floor(x * 0.3).to(torch.int32),
        {"x": shape},
        nodes,
        dtype=dtype,
        out="i32",
        contract=contract_of(dtype),
    )


OPS: dict[str, Callable[[tuple[int, int], DType], Op]] = {
    "by_scale": by_scale,
    "by_row": by_row,
    "there_and_back": there_and_back,
    "over_threshold": over_threshold,
    "binned": binned,
}


# ------------------------------------------------------------------------------------ kernels


def whole(values: Tensor, rounding: Rounding) -> Tensor:
    """In an int8's range, NaN as the reference casts it."""
    return rounding(values).clamp(-128, 127)


def scaled(divide: Callable[[Tensor, Tensor], Tensor], rounding: Rounding = torch.round) -> Kernel:
    return lambda x, s: whole(divide(x.float(), s.float()), rounding).to(torch.int8)


def rows(
    divide: Callable[[Tensor, Tensor], Tensor],
    rounding: Rounding = torch.round,
    back: bool = False,
    stored: bool = False,
) -> Kernel:
    """One kernel for a row; ``stored`` rounds the scale as a reference that stores it does."""

    def kernel(x: Tensor) -> Tensor:
        s = divide(x.float().abs().amax(-1, keepdim=True), torch.tensor(127.0))
        s = s.to(x.dtype).float() if stored else s
        q = whole(divide(x.float(), s), rounding).to(torch.int8)
        return (q.float() * s).to(x.dtype) if back else q

    return kernel


def divided(a: Tensor, b: Tensor) -> Tensor:
    return a / b


def by_reciprocal(a: Tensor, b: Tensor) -> Tensor:
    """One reciprocal, then products: what a compiler makes of a division by the same number."""
    return a * (1 / b)


def loosely(a: Tensor, b: Tensor) -> Tensor:
    """``__fdividef``: two units in the last place."""
    return (a / b) * (1 + 2 * 2.0**-23 * torch.sin(1e4 * a.clamp(-1e3, 1e3)))


def away(v: Tensor) -> Tensor:
    """Halves away from zero, as ``roundf`` has it: another answer at ties alone."""
    return torch.sign(v) * torch.floor(v.abs() + 0.5)


def thresholded(limit: float) -> Kernel:
    return lambda x: torch.where(torch.tanh(x.float()) * 2 > limit, x, torch.zeros_like(x))


def cut(rounding: Rounding, factor: float = 0.3) -> Kernel:
    return lambda x: rounding(x.float() * factor).to(torch.int32)


DIVISIONS = {"divided": divided, "reciprocal": by_reciprocal, "loosely": loosely}
HONEST: dict[str, dict[str, Kernel]] = {
    "by_scale": {name: scaled(one) for name, one in DIVISIONS.items()},
    "by_row": {
        f"{name}{', stored scale' * stored}": rows(one, stored=stored)
        for name, one in DIVISIONS.items()
        for stored in (False, True)
    },
    "there_and_back": {
        f"{name}{', stored scale' * stored}": rows(one, back=True, stored=stored)
        for name, one in DIVISIONS.items()
        for stored in (False, True)
    },
    "over_threshold": {"in float32": thresholded(0.5)},
    "binned": {"in float32": cut(torch.floor)},
}
BAD_ROUNDINGS: dict[str, Rounding] = {
    "truncated": torch.trunc,
    "floor for round": torch.floor,
    "ceil for round": torch.ceil,
    "one more": lambda v: torch.round(v) + 1,
    "one less": lambda v: torch.round(v) - 1,
    "half a step off": lambda v: torch.round(v + 0.25),
    "even numbers": lambda v: 2 * torch.round(v / 2),
}
WRONG: dict[str, dict[str, Kernel]] = {
    "by_scale": {name: scaled(divided, bad) for name, bad in BAD_ROUNDINGS.items()},
    "by_row": {name: rows(divided, bad) for name, bad in BAD_ROUNDINGS.items()},
    "there_and_back": {name: rows(divided, bad, back=True) for name, bad in BAD_ROUNDINGS.items()}
    | {"not quantised": lambda x: x},
    "over_threshold": {"0.55": thresholded(0.55), "0.45": thresholded(0.45)},
    "binned": {
        "rounded": cut(torch.round),
        "truncated": cut(torch.trunc),
        "wrong width": cut(torch.floor, 0.31),
    },
}
