"""Problems made from plain functions, for the tests of the playbook.

An export takes torch a third of a second: the same function over the same shapes is exported once a process.
"""

from collections.abc import Callable, Hashable, Mapping
from types import FunctionType

import torch
from torch import Tensor

from workbench.model import Case, Dim, Problem, Sampler, TensorSpec
from workbench.problem.layout import strides_of
from workbench.problem.trace import Traced, trace
from workbench.problem.translate import DTYPES

Call = Callable[[dict[str, Tensor]], Tensor | tuple[Tensor, ...]]
NORMAL = Sampler(kind="normal")


def problem_of(
    call: Call,
    tensors: Mapping[str, Tensor],
    name: str = "op",
    varying: bool = True,
    cases: tuple[Mapping[str, int], ...] = (),
) -> Problem:
    """A problem as the intake would make it; cases give sizes of symbols, the traced sizes come first."""
    traced = _traced(call, tensors, varying)
    specs = tuple(_spec(n, tensors[n], dims) for n, dims in traced.dims)
    return Problem(
        name=name,
        source="",
        entry=name,
        kind="function",
        tensors=specs,
        symbols=traced.symbols,
        outputs=traced.outputs,
        returns_tuple=len(traced.outputs) > 1,
        cases=tuple(_case(sizes) for sizes in (dict(traced.sizes), *cases)),
        graph=traced.graph,
    )


def _spec(name: str, tensor: Tensor, dims: tuple[Dim, ...]) -> TensorSpec:
    strides = strides_of(tensor.shape, tensor.stride(), dims)
    return TensorSpec(
        name=name, role="input", dtype=DTYPES[tensor.dtype], dims=dims, strides=strides, sampler=NORMAL
    )


_KNOWN: dict[Hashable, Traced] = {}


def _traced(call: Call, tensors: Mapping[str, Tensor], varying: bool) -> Traced:
    key = (_identity(call), tuple((n, t.dtype, t.shape, t.stride()) for n, t in tensors.items()), varying)
    try:
        if key not in _KNOWN:
            _KNOWN[key] = _fresh(call, tensors, varying)
        return _KNOWN[key]
    except TypeError:  # it closes over a list, say, which may be another the next time
        return _fresh(call, tensors, varying)


def _fresh(call: Call, tensors: Mapping[str, Tensor], varying: bool) -> Traced:
    with torch.no_grad():
        return trace(call, tensors, varying)


def _identity(value: object) -> Hashable:
    """What a function does: its code, and the values that it closes over. 1 and 1.0 are two values."""
    if not isinstance(value, FunctionType):
        return type(value), value
    cells = tuple(_identity(cell.cell_contents) for cell in value.__closure__ or ())
    return value.__code__, cells, tuple(map(_identity, value.__defaults__ or ()))


def _case(sizes: Mapping[str, int]) -> Case:
    return Case(label="x".join(map(str, sizes.values())) or "static", sizes=tuple(sizes.items()))
