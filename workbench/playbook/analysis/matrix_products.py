"""Products of float32 matrices that a kernel can make on tensor cores.

Owns which library calls those are. Writes no text; product_kernel.py does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from workbench.model import base_name
from workbench.playbook.analysis.in_place_of_calls import in_place_of_calls
from workbench.playbook.analysis.placement import identity
from workbench.playbook.analysis.places import met_taps_of, places_of
from workbench.playbook.ir.expr import Expr
from workbench.playbook.ir.program import (
    Convolution,
    LibraryArgument,
    LibraryCall,
    Matrix,
    MatrixProduct,
    Program,
    Store,
)
from workbench.playbook.ir.sizes import ONE, ZERO, Size, product
from workbench.playbook.ir.views import strided, strides_in

LEAST = 64
"""Rows, and columns, from which half a tile is of use."""
MOST_PADDED_TAPS = 128
"""A bit each says which of a place's taps meet an element, where zeros lie around the input."""
LEAST_TERMS = 32
"""Of few terms, multiprocessors would mostly wait for tiles to come and to go."""
LEAST_CHANNELS, LEAST_OF_PATCHES = 8, 24
"""Channels, and terms of each, from which places may be rows of a product and channels its columns."""
_COUNTED = 2**31
"""Places, and elements of an image, that a whole number of 32 bits can count."""

_ARGUMENTS = {"mm": 2, "bmm": 2, "addmm": 3}
_WITH_ADDEND = 3


def products_in(program: Program) -> tuple[MatrixProduct, ...]:
    """All of a program that a kernel can make."""
    found = in_place_of_calls(program, program.steps, lambda call: product_of(program, call))
    return tuple(step for step in found if isinstance(step, MatrixProduct))


def worth_multiplying(made: MatrixProduct, cases: Iterable[Mapping[str, int]]) -> bool:
    """True where tiles have something to do at all of the sizes."""
    return all(
        min(made.rows.at(case), made.columns.at(case)) >= LEAST and made.terms.at(case) >= LEAST_TERMS
        for case in cases
    )


def worth_a_product(made: Convolution, cases: Sequence[Mapping[str, int]]) -> bool:
    """True where a convolution of float32 fills half a tile and more, and can be a product of matrices."""
    return (
        made.dtype == "f32"
        and _is_product(made, cases)
        and all(
            made.made.at(case) >= LEAST // 2 and made.read.at(case) * met_taps_of(made) >= LEAST_TERMS
            for case in cases
        )
    )


def worth_patches(made: Convolution, cases: Sequence[Mapping[str, int]]) -> bool:
    """True where a convolution can be a product whose rows are places, and whose columns are channels."""
    return _is_product(made, cases) and all(
        made.made.at(case) >= LEAST_CHANNELS and made.read.at(case) * met_taps_of(made) >= LEAST_OF_PATCHES
        for case in cases
    )


def _is_product(made: Convolution, cases: Iterable[Mapping[str, int]]) -> bool:
    """True where a bit each says which taps a place meets, and places and elements can be counted.

    Of a transposed one whose step and dilation have a divisor in common, some places meet no tap at all.
    """
    if made.transposed and any(math.gcd(side.stride, side.dilation) > 1 for side in made.sides):
        return False
    if made.transposed and any(side.padding > side.dilation * (side.taps - 1) for side in made.sides):
        return False
    taps = met_taps_of(made)
    if taps > MOST_PADDED_TAPS and any(places_of(made, side).may_miss for side in made.sides):
        return False
    return all(
        LEAST <= made.batch.at(case) * math.prod(side.made.at(case) for side in made.sides) < _COUNTED
        and made.read.at(case) * math.prod(side.read.at(case) for side in made.sides) < _COUNTED
        for case in cases
    )


def product_of(program: Program, call: LibraryCall) -> MatrixProduct | None:
    """The product of a call, whose results are stored as they are; None where it is left to the library.

    Only of float32: the library multiplies 16-bit numbers with tensor cores itself.
    """
    name = base_name(call.op)
    count = _ARGUMENTS.get(name)
    if call.orders != (None,) or len(call.args) != count or call.kwargs:
        return None
    out = program.buffers[call.results[0]]
    left, right = (as_it_lies(program, arg) for arg in call.args[-2:])
    if left is None or right is None or out.dtype != "f32":
        return None
    (a_buffer, a_offset, a_shape, a_steps), (b_buffer, b_offset, b_shape, b_steps) = left, right
    batched = name == "bmm"
    first = Matrix(a_buffer, a_offset, a_steps[0] if batched else ZERO, a_steps[-2], a_steps[-1])
    second = Matrix(b_buffer, b_offset, b_steps[0] if batched else ZERO, b_steps[-1], b_steps[-2])
    if not all(one.terms.is_one or one.across.is_one for one in (first, second)):
        return None
    line = identity(product(out.shape))
    value: Expr = program.pool.load(out.name, out.dtype, line)
    if count == _WITH_ADDEND:
        added = _addend(program, call.args[0], out.shape)
        if added is None:
            return None
        value = program.pool.apply("add", out.dtype, (value, added))
    return MatrixProduct(
        first,
        second,
        a_shape[0] if batched else ONE,
        a_shape[-2],
        b_shape[-1],
        a_shape[-1],
        out.name,
        (Store(out.name, value, line, ONE, line.size, "flat"),),
    )


def _addend(program: Program, arg: object, shape: Sequence[Size]) -> Expr | None:
    """What is added to the results: a matrix, or a row or column that all have in common."""
    seen = as_it_lies(program, arg)
    if seen is None:
        return None
    name, offset, own, steps = seen
    if len(own) > len(shape):
        return None
    wide = [ZERO] * (len(shape) - len(own))
    wide += [
        ZERO if size.is_one and not whole.is_one else step
        for size, step, whole in zip(own, steps, shape[len(wide) :], strict=True)
    ]
    return program.pool.load(name, "f32", strided(shape, wide, offset))


_Lying = tuple[str, Size, Sequence[Size], Sequence[Size]]


def as_it_lies(program: Program, arg: object) -> _Lying | None:
    """Buffer, offset, shape and steps of an argument of float32."""
    if not isinstance(arg, LibraryArgument):
        return None
    buffer = program.buffers[arg.buffer]
    if buffer.dtype != "f32":
        return None
    shape = arg.shape or buffer.shape
    if arg.strides:
        return arg.buffer, arg.offset or ZERO, shape, arg.strides
    if buffer.strides is not None:
        return (arg.buffer, ZERO, shape, buffer.strides) if arg.shape is None else None
    return arg.buffer, ZERO, shape, strides_in(shape, range(len(shape)))
