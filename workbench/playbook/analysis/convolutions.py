"""Convolutions that a kernel can make.

Owns which library calls those are. Writes no text; convolution_kernel.py does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from workbench.model import DType
from workbench.playbook.analysis.in_place_of_calls import in_place_of_calls
from workbench.playbook.analysis.placement import identity
from workbench.playbook.ir.expr import Expr
from workbench.playbook.ir.program import (
    Convolution,
    LibraryArgument,
    LibraryCall,
    Program,
    Side,
    Store,
)
from workbench.playbook.ir.sizes import ONE, ZERO, Size, number, product
from workbench.playbook.ir.views import Axis, View

_DTYPES: tuple[DType, ...] = ("f32", "f16", "bf16")
SIDES = (1, 2, 3)
"""Of lines, planes and volumes."""
MOST_TAPS = 125
"""Weights of a window up to which they wait in shared memory together: 5 x 5 x 5."""


def convolutions_in(program: Program) -> tuple[Convolution, ...]:
    """All of a program that a kernel can make."""
    found = in_place_of_calls(program, program.steps, lambda call: convolution_of(program, call))
    return tuple(step for step in found if isinstance(step, Convolution))


def convolution_of(program: Program, call: LibraryCall) -> Convolution | None:
    """The convolution of a call, whose results are stored as they are; None where it is left to the library.

    Input, weights, bias and results are of one type: float32, or 16 bits wide.
    """
    if call.op != "aten.convolution.default" or call.orders != (None,):
        return None
    x, weight, bias, strides, paddings, dilations, transposed, _, groups = call.args
    out = program.buffers[call.results[0]]
    source, taps = _whole(program, x, out.dtype), _whole(program, weight, out.dtype)
    if source is None or taps is None or out.dtype not in _DTYPES or not isinstance(groups, int):
        return None
    counts = [size.number or 0 for size in taps[2:]]
    told = (strides, paddings, dilations)
    if len(counts) not in SIDES or 0 in counts or math.prod(counts) > MOST_TAPS:
        return None
    if any(not _are_numbers(values, len(counts)) for values in told):
        return None
    parts = number(groups)
    if not parts.divides(source[1]) or not parts.divides(out.shape[1]):
        return None
    sides = tuple(
        Side(read, made, *numbers)
        for read, made, *numbers in zip(
            source[2:], out.shape[2:], counts, *(_each(values, len(counts)) for values in told), strict=True
        )
    )
    added = _bias(program, bias, out.shape, out.dtype)
    if added is None and bias is not None:
        return None
    assert isinstance(x, LibraryArgument) and isinstance(weight, LibraryArgument)
    line = identity(product(out.shape))
    result = program.pool.load(out.name, "f32", line)
    value = result if added is None else program.pool.apply("add", "f32", (result, added))
    return Convolution(
        x.buffer,
        weight.buffer,
        out.shape[0],
        parts,
        source[1] // parts,
        out.shape[1] // parts,
        sides,
        bool(transposed),
        out.name,
        (Store(out.name, value, line, ONE, line.size, "flat"),),
        dtype=out.dtype,
    )


def _whole(program: Program, arg: object, dtype: DType) -> tuple[Size, ...] | None:
    """The shape of an argument of such elements that lies in memory row by row."""
    if not isinstance(arg, LibraryArgument) or arg.strides or arg.offset is not None:
        return None
    buffer = program.buffers[arg.buffer]
    if buffer.dtype != dtype or buffer.strides is not None:
        return None
    return arg.shape or buffer.shape


def _are_numbers(values: object, count: int) -> bool:
    found = values if isinstance(values, tuple) else ()
    return len(found) in (1, count) and all(isinstance(value, int) for value in found)


def _each(values: object, count: int) -> tuple[int, ...]:
    """A number for every side; one may stand for all."""
    assert isinstance(values, tuple)
    return values * count if len(values) == 1 else values


def _bias(program: Program, bias: object, shape: Sequence[Size], dtype: DType) -> Expr | None:
    """What the call adds to every result of a channel, over the line of results."""
    if _whole(program, bias, dtype) is None:
        return None
    assert isinstance(bias, LibraryArgument)
    axes = (Axis(shape[0], ZERO), Axis(shape[1], ONE), Axis(product(shape[2:]), ZERO))
    return program.pool.load(bias.buffer, "f32", View(axes))
