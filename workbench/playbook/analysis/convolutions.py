"""Convolutions that a kernel can make, and the pointwise work behind them that goes into the same kernel.

Owns which library calls those are, and which kernels behind them need a result and nothing beside it. Writes
no text; convolution_kernel.py does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from workbench.playbook.analysis.placement import identity
from workbench.playbook.analysis.row_totals import buffers_read
from workbench.playbook.ir.expr import Expr, Load, loads_below
from workbench.playbook.ir.program import (
    Convolution,
    Kernel,
    LibraryArgument,
    LibraryCall,
    Program,
    ProgramStep,
    Side,
    Store,
)
from workbench.playbook.ir.sizes import ONE, ZERO, Size, number, product
from workbench.playbook.ir.views import Axis, View

SIDES = (1, 2, 3)
"""Of lines, planes and volumes."""
MOST_TAPS = 125
"""Weights of a window up to which they wait in shared memory together: 5 x 5 x 5."""


def with_convolutions(
    program: Program, steps: Sequence[ProgramStep], able: Callable[[Convolution], bool]
) -> list[ProgramStep]:
    """The steps with kernels in place of the calls that one is ``able`` to make, tails and all."""
    found = list(steps)
    for call in [step for step in steps if isinstance(step, LibraryCall)]:
        made = convolution_of(program, call)
        if made is None or not able(made):
            continue
        readers = [step for step in found if step is not call and made.buffer in buffers_read(step)]
        is_output = any(output.buffer == made.buffer for output in program.outputs)
        if len(readers) == 1 and not is_output and _is_tail(made, readers[0]):
            (tail,) = readers
            assert isinstance(tail, Kernel)
            found[_place(found, tail)] = replace(made, stores=tuple(tail.stores))
            del found[_place(found, call)]
        else:
            found[_place(found, call)] = made
    return found


def convolutions_in(program: Program) -> tuple[Convolution, ...]:
    """All of a program that a kernel can make."""
    found = with_convolutions(program, program.steps, lambda made: True)
    return tuple(step for step in found if isinstance(step, Convolution))


def convolution_of(program: Program, call: LibraryCall) -> Convolution | None:
    """The convolution of a call, whose results are stored as they are; None where it is left to the library.

    Only of float32: the library multiplies 16-bit numbers with tensor cores.
    """
    if call.op != "aten.convolution.default" or call.orders != (None,):
        return None
    x, weight, bias, strides, paddings, dilations, transposed, _, groups = call.args
    source, taps, out = _whole(program, x), _whole(program, weight), program.buffers[call.results[0]]
    if source is None or taps is None or out.dtype != "f32" or not isinstance(groups, int):
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
    added = _bias(program, bias, out.shape)
    if added is None and bias is not None:
        return None
    assert isinstance(x, LibraryArgument) and isinstance(weight, LibraryArgument)
    line = identity(product(out.shape))
    result = program.pool.load(out.name, out.dtype, line)
    value = result if added is None else program.pool.apply("add", out.dtype, (result, added))
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
    )


def _whole(program: Program, arg: object) -> tuple[Size, ...] | None:
    """The shape of an argument of float32 that lies in memory row by row."""
    if not isinstance(arg, LibraryArgument) or arg.strides or arg.offset is not None:
        return None
    buffer = program.buffers[arg.buffer]
    if buffer.dtype != "f32" or buffer.strides is not None:
        return None
    return arg.shape or buffer.shape


def _are_numbers(values: object, count: int) -> bool:
    found = values if isinstance(values, tuple) else ()
    return len(found) in (1, count) and all(isinstance(value, int) for value in found)


def _each(values: object, count: int) -> tuple[int, ...]:
    """A number for every side; one may stand for all."""
    assert isinstance(values, tuple)
    return values * count if len(values) == 1 else values


def _bias(program: Program, bias: object, shape: Sequence[Size]) -> Expr | None:
    """What the call adds to every result of a channel, over the line of results."""
    if _whole(program, bias) is None:
        return None
    assert isinstance(bias, LibraryArgument)
    axes = (Axis(shape[0], ZERO), Axis(shape[1], ONE), Axis(product(shape[2:]), ZERO))
    return program.pool.load(bias.buffer, "f32", View(axes))


# ------------------------------------------------------------------------------------ what is behind one


def _is_tail(made: Convolution, step: ProgramStep) -> bool:
    """True for a kernel without rows whose every value needs the one result at its own place."""
    if not isinstance(step, Kernel) or step.tail or step.ahead or step.steps or step.parts or step.tables:
        return False
    line = made.stores[0].view
    if any(store.level != "flat" or store.columns != line.size for store in step.stores):
        return False
    return all(load.view == line and not load.lookups for load in _read(made, step))


def _read(made: Convolution, kernel: Kernel) -> Iterator[Load]:
    loads = loads_below(store.value for store in kernel.stores)
    return (load for load in loads if load.buffer == made.buffer)


def _place(steps: Sequence[ProgramStep], wanted: ProgramStep) -> int:
    return next(at for at, step in enumerate(steps) if step is wanted)
