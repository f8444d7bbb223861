"""The model of time for library calls.

Owns how bytes and operations follow one another; library_work.py counts them.
"""

from __future__ import annotations

from workbench.model import base_name
from workbench.model.aten_names import RECURRENT
from workbench.model.systems import MATRIX_AT
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.estimates.library_work import alone_bytes_of, asked_of
from workbench.playbook.estimates.scatter_estimate import A_CLOCK, served_us
from workbench.playbook.ir.program import LibraryArgument, LibraryCall
from workbench.playbook.ir.sizes import product
from workbench.problem.slow_calls import (
    ORDERED,
    SOLVING,
    ordered_rows,
    ordering_us,
    recurrent_steps,
    recurrent_us,
    solving_us,
)

_SORTED_US, _SORTED_BYTES = 80.0, 128
"""Of a library that sorts its indices before it adds, and what it moves for each: fitted to one number, the
155.8 us that a gather and ``index_put`` of 131,072 rows of 512 bytes take on an H200."""
_PUT_US = 13.0
"""Of a library that puts values in place of others, beyond the bytes of the copy that it begins with: fitted
to one number, the 41.4 us that a gather and ``scatter`` of 65,536 into 64 rows of 128,256 take on an H100."""


def library_time(asked: Asked, call: LibraryCall) -> Estimate:
    """Time of one call."""
    moved, operations = asked_of(asked.program, call, asked.sizes)
    alone = alone_bytes_of(asked.program, call, asked.sizes)
    through = (moved - alone) / asked.target.dram_bytes_per_s
    us = 1e6 * max(through, operations / asked.target.fp32_flops_per_s)
    us += 1e6 * alone / asked.target.dram_bytes_per_s
    us += asked.target.launch_us + _beyond_bytes_us(asked, call)
    return Estimate(us, moved, 1, us, 1.0)


def _beyond_bytes_us(asked: Asked, call: LibraryCall) -> float:
    """What such a call of the library takes beyond its bytes: to sort first, or for an atomic an element."""
    name = base_name(call.op)
    if name in SOLVING:
        matrix = call.args[MATRIX_AT.get(name, 0)]
        assert isinstance(matrix, LibraryArgument)
        order = asked.at((matrix.shape or asked.program.buffers[matrix.buffer].shape)[-1])
        return solving_us(name, _elements(asked, matrix) / order**2, order)
    if name in RECURRENT:
        given = call.args[0]
        assert isinstance(given, LibraryArgument)
        shape = [asked.at(size) for size in given.shape or asked.program.buffers[given.buffer].shape]
        return recurrent_us(recurrent_steps(name, shape, call.args))
    match call:
        case LibraryCall(op="aten.index_put.default", args=(_, tuple() as given, _, True)):
            indices = [_elements(asked, one) for one in given if isinstance(one, LibraryArgument)]
            return _SORTED_US + 1e6 * _SORTED_BYTES * max(indices, default=0) / asked.target.dram_bytes_per_s
        case LibraryCall(op="aten.scatter.src" | "aten.scatter.value"):
            return _PUT_US
        case LibraryCall(args=(LibraryArgument() as x, *_)) if name in ORDERED:
            shape = [asked.at(size) for size in x.shape or asked.program.buffers[x.buffer].shape]
            return ordering_us(name, *ordered_rows(call.op, shape, call.args, dict(call.kwargs)))
        case LibraryCall(
            op="aten.scatter_add.default" | "aten.scatter_reduce.two",
            args=(LibraryArgument() as into, _, LibraryArgument() as index, *_),
        ):
            places = _elements(asked, into) * asked.element_of(into.buffer)
            return served_us(places, float(A_CLOCK * _elements(asked, index)))
    return 0.0


def _elements(asked: Asked, given: LibraryArgument) -> int:
    return asked.at(product(given.shape or asked.program.buffers[given.buffer].shape))
