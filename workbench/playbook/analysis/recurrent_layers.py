"""Recurrent layers of float32 that a kernel can go through step by step.

Owns which library calls those are. Writes no text; recurrent_kernel.py does.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.model import base_name
from workbench.playbook.analysis.matrix_products import as_it_lies
from workbench.playbook.ir.program import (
    CELL_GATES,
    LibraryArgument,
    LibraryCall,
    Program,
    RecurrentLayers,
)
from workbench.playbook.ir.sizes import Size
from workbench.playbook.ir.views import strides_in

_ARGUMENTS = 9


def layers_in(program: Program) -> tuple[RecurrentLayers, ...]:
    """All of a program."""
    calls = [step for step in program.steps if isinstance(step, LibraryCall)]
    return tuple(made for made in (layers_of(program, call) for call in calls) if made is not None)


def layers_of(program: Program, call: LibraryCall) -> RecurrentLayers | None:
    """The layers of a call; None where they are left to the library.

    The library has those with states of another width than their units' (``proj_size``), with dropout between
    layers, and those whose numbers do not lie row by row.
    """
    name = base_name(call.op)
    if name not in CELL_GATES or len(call.args) != _ARGUMENTS or call.kwargs:
        return None
    given, hx, params, biased, layers, dropout, train, both_ways, batch_first = call.args
    states = _names(program, hx if isinstance(hx, tuple) else (hx,))
    found = _names(program, params)
    lying = as_it_lies(program, given)
    if states is None or found is None or lying is None or (dropout and train) or any(call.orders):
        return None
    assert isinstance(layers, int)
    each, ways = 4 if biased else 2, 2 if both_ways else 1
    if len(found) != each * layers * ways:
        return None
    stages = [found[at : at + each] for at in range(0, len(found), each)]
    source, offset, shape, steps = lying
    hidden, inputs = program.buffers[states[0]].shape[-1].number, shape[-1].number
    if hidden is None or inputs is None or not steps[-1].is_one:
        return None
    out = program.buffers[call.results[0]].shape
    time, rows = (1, 0) if batch_first else (0, 1)
    made = (out[2], out[1] * out[2]) if batch_first else (out[1] * out[2], out[2])
    return RecurrentLayers(
        cell=name,
        source=source,
        offset=offset,
        steps=(steps[time], steps[rows]),
        states=states,
        weights=tuple((one[0], one[1]) for one in stages),
        biases=tuple((one[2], one[3]) for one in stages) if biased else (),
        length=shape[time],
        batch=shape[rows],
        inputs=inputs,
        hidden=hidden,
        ways=ways,
        results=call.results,
        made_steps=made,
    )


def _names(program: Program, args: object) -> tuple[str, ...] | None:
    """Buffers of arguments that are whole buffers of float32, row by row; None if one is not."""
    assert isinstance(args, Sequence)
    found = []
    for arg in args:
        lying = as_it_lies(program, arg)
        assert isinstance(arg, LibraryArgument)
        if lying is None or not lying[1].is_zero or not _is_whole(lying[2], lying[3]):
            return None
        found.append(arg.buffer)
    return tuple(found)


def _is_whole(shape: Sequence[Size], steps: Sequence[Size]) -> bool:
    """True where rows lie one behind the other."""
    return tuple(steps) == tuple(strides_in(shape, range(len(shape))))
