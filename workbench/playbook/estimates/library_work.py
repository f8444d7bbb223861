"""What a library call asks of the card: bytes through memory, and operations of products.

Owns the counts; estimate.py makes a time of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from workbench.model import (
    DTYPE_BYTES,
    H100,
    Convolved,
    ConvolvedSide,
    base_name,
    cudnn_operations,
    over_fp32,
)
from workbench.playbook.analysis.convolutions import convolution_of
from workbench.playbook.ir.program import Convolution, LibraryArgument, LibraryCall, Program
from workbench.playbook.ir.sizes import product
from workbench.problem.slow_calls import batched_us, of_few_rows

_PRODUCTS = ("mm", "bmm", "addmm", "_addmm_activation")
_OF_FP32 = 0.87
"""Part of float32's peak that cuBLAS draws in products of matrices: 4096 cubed take 2660 us of an H100, and
32768 x 32768 results of 32 and of 64 terms 2595 and 4063 us, of which 1430 are for writing them."""

_BEGUN, _OF_SMALL = 1e9, 0.4
"""More operations, for a product to begin and to end: 11 to 31 us more than its arithmetic takes in nine of
0.5 to 35 billion multiply-adds, 17 in the middle (1024 cubed 60 us), at most so much of its own."""
_EDGE = 64
"""Of cuBLAS's tiles: 8192 x 100 results take as long as 8192 x 128."""


def asked_of(program: Program, call: LibraryCall, sizes: Mapping[str, int]) -> tuple[float, float]:
    """Bytes moved and operations of one call, as many as float32's units do in its time."""
    moved = 0.0
    shapes = []
    widths = []
    for arg in call.given:
        if isinstance(arg, LibraryArgument):
            buffer = program.buffers[arg.buffer]
            shapes.append([size.at(sizes) for size in arg.shape or buffer.shape])
            widths.append(DTYPE_BYTES[buffer.dtype])
            moved += math.prod(shapes[-1]) * widths[-1]
    for name in call.results:
        moved += _bytes_of(program, name, sizes)
    moved += _bias_bytes(program, call, sizes)
    if (made := convolution_of(program, call)) is not None:
        return moved, library_operations(made, sizes)
    if call.op == "aten.scaled_dot_product_attention.default":
        query, key, value = shapes[:3]
        pairs = math.prod(query[:-1]) * key[-2] / (2 if call.args[5] else 1)  # the causal half
        return moved, 2.0 * pairs * (key[-1] + value[-1]) / over_fp32("ieee-fp32", max(widths[:3]))
    if base_name(call.op) in _PRODUCTS and len(shapes) > 1:
        faster = over_fp32("ieee-fp32", max(widths[-2:]))
        (*batch, rows, terms), columns = shapes[-2], shapes[-1][-1]
        waited = 0.0
        if batch:
            us = batched_us(batch[0], rows, columns, terms, max(widths[-2:]))
            waited = 1e-6 * us * H100.fp32_flops_per_s
        asked = 2.0 * math.prod(shapes[-2]) * columns
        if faster > 1.0:
            return moved, max(asked / faster, waited)
        if (more := of_few_rows(rows, bool(batch))) > 1.0:
            return moved, max(asked * more, waited)
        asked *= _edge(rows) * _edge(columns) / _OF_FP32
        return moved, max(asked + min(_BEGUN, _OF_SMALL * asked), waited)
    return moved, 0.0


def library_operations(made: Convolution, sizes: Mapping[str, int]) -> float:
    """Operations of float32 that take as long as cuDNN does."""
    sides = tuple(
        ConvolvedSide(side.read.at(sizes), side.made.at(sizes), side.taps, side.stride, side.dilation)
        for side in made.sides
    )
    return cudnn_operations(
        Convolved(
            batch=made.batch.at(sizes),
            groups=made.groups.at(sizes),
            reads=made.read.at(sizes),
            makes=made.made.at(sizes),
            sides=sides,
            transposed=made.transposed,
            element_bytes=DTYPE_BYTES[made.dtype],
        )
    )


def _edge(size: int) -> float:
    """What tiles make of rows or columns, by what is asked; of few there are other kernels."""
    return math.ceil(size / _EDGE) * _EDGE / size if size > _EDGE else 1.0


def alone_bytes_of(program: Program, call: LibraryCall, sizes: Mapping[str, int]) -> float:
    """Bytes that move while there is no arithmetic: a convolution's bias is added in a pass of its own, and a
    product of matrices is written when its sums are done."""
    if base_name(call.op) in _PRODUCTS:
        return _bytes_of(program, call.results[0], sizes)
    return _bias_bytes(program, call, sizes)


def _bias_bytes(program: Program, call: LibraryCall, sizes: Mapping[str, int]) -> float:
    if call.op != "aten.convolution.default" or call.args[2] is None:
        return 0.0
    return 2 * _bytes_of(program, call.results[0], sizes)


def _bytes_of(program: Program, name: str, sizes: Mapping[str, int]) -> float:
    buffer = program.buffers[name]
    return float(product(buffer.shape).at(sizes) * DTYPE_BYTES[buffer.dtype])
