"""Problems made from plain functions, for the tests of the playbook.

An export takes torch a third of a second: a function is exported once a process for all shapes that it
is right for. Torch notes down which these are: its guards, what it has asked of the sizes that were given.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.export import ExportedProgram

from workbench.model import Case, Dim, Problem, Sampler, TensorSpec
from workbench.model.value import size_of
from workbench.problem import trace as tracing
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


@dataclass(frozen=True)
class _Export:
    traced: Traced
    guards: tuple[str, ...]
    """Python over ``L["tensors"]``; each was true of the tensors that were given."""

    def at(self, tensors: Mapping[str, Tensor]) -> Traced | None:
        """What an export of these tensors would have found; None where it may have found something else."""
        sizes = self._sizes(tensors)
        names = {"L": {"tensors": list(tensors.values())}, "max": max, "min": min, "__builtins__": {}}
        try:
            held = sizes is not None and all(eval(guard, dict(names)) for guard in self.guards)
        except (NameError, AttributeError, TypeError, ZeroDivisionError):
            return None  # it says more than sizes, or is not of this kind of tensor
        return replace(self.traced, sizes=tuple(sizes.items())) if sizes is not None and held else None

    def _sizes(self, tensors: Mapping[str, Tensor]) -> dict[str, int] | None:
        """The symbols' values, where all dimensions and ranges agree with the tensors."""
        pairs = [
            pair for name, dims in self.traced.dims for pair in zip(dims, tensors[name].shape, strict=True)
        ]
        found = {dim: size for dim, size in pairs if dim in self.traced.symbols}
        if any(name not in found for name in self.traced.symbols):
            return None
        sizes = {name: found[name] for name in self.traced.symbols}
        within = all(low <= sizes[name] <= (high or sizes[name]) for name, low, high in self.traced.ranges)
        return sizes if within and all(size_of(dim, sizes) == size for dim, size in pairs) else None


_KNOWN: dict[Hashable, list[_Export]] = {}


def _traced(call: Call, tensors: Mapping[str, Tensor], varying: bool) -> Traced:
    key = (_identity(call), tuple((n, t.dtype, _layout(t)) for n, t in tensors.items()), varying)
    try:
        known = _KNOWN.setdefault(key, [])
    except TypeError:  # it closes over a list, say, which may be another the next time
        return _fresh(call, tensors, varying).traced
    found = next((traced for one in known if (traced := one.at(tensors))), None)
    if found is None:
        known.append(_fresh(call, tensors, varying))
        found = known[-1].traced
    return found


def _layout(tensor: Tensor) -> Hashable:
    """What tensors must share for one export: the number of axes, and strides that sizes do not tell."""
    return tensor.ndim if tensor.is_contiguous() else (tensor.shape, tensor.stride())


def _fresh(call: Call, tensors: Mapping[str, Tensor], varying: bool) -> _Export:
    programs: list[ExportedProgram] = []

    def lowered(program: ExportedProgram) -> ExportedProgram:
        programs.append(ordinary(program))
        return programs[-1]

    ordinary = tracing.lowered
    with torch.no_grad(), mock.patch.object(tracing, "lowered", lowered):
        traced = trace(call, tensors, varying)
    # A version of torch that keeps no such list: this export is for these sizes.
    sizes = [f"L['tensors'][{i}].shape == {tuple(t.shape)}" for i, t in enumerate(tensors.values())]
    guards: Any = getattr(programs[-1], "_guards_code", sizes)
    return _Export(traced, tuple(guards))


def _identity(value: object) -> Hashable:
    """What a function does: its code, and the values that it closes over. 1 and 1.0 are two values."""
    if not isinstance(value, FunctionType):
        return type(value), value
    cells = tuple(_identity(cell.cell_contents) for cell in value.__closure__ or ())
    return value.__code__, cells, tuple(map(_identity, value.__defaults__ or ()))


def _case(sizes: Mapping[str, int]) -> Case:
    return Case(label="x".join(map(str, sizes.values())) or "static", sizes=tuple(sizes.items()))
