"""The reference as a graph of functional core-ATen operations, with sizes that may vary.

Runs in a child process that has torch. Owns the export, the decompositions and the translation into
``model.Graph``; never reads the values of a tensor and never knows a person's class or cell.
"""

from __future__ import annotations

import builtins
import inspect
import io
import logging
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim as ExportDim
from torch.export import ExportedProgram, export
from torch.export.graph_signature import OutputKind
from torch.fx.experimental import proxy_tensor
from torch.overrides import TorchFunctionMode

from workbench.errors import ProblemError
from workbench.model import Dim, Graph, OutputSpec, base_name
from workbench.problem.autocast import autocast_that_counts
from workbench.problem.chosen_rows import Masks, without_chosen
from workbench.problem.decompositions import kept_for_the_table
from workbench.problem.layout import Order
from workbench.problem.lines import call_from_persons_frame, line_of_traceback, persons_frame
from workbench.problem.lowering import lowered
from workbench.problem.raising_checks import way_that_goes_on
from workbench.problem.recurrent import whole
from workbench.problem.traced_values import order_of
from workbench.problem.translate import NotSymbolic, Translation
from workbench.problem.unchecked import UNCHECKED, distributions_that_trust

_BY_VALUES = ("GuardOnDataDependentSymNode", "DataDependentOutputException", "DynamicOutputShapeException")
"""Torch's names for: only the values of a tensor tell."""

Call = Callable[[dict[str, Tensor]], Tensor | tuple[Tensor, ...]]


@dataclass(frozen=True)
class Traced:
    """What the export found out about a reference."""

    graph: Graph
    dims: tuple[tuple[str, tuple[Dim, ...]], ...]
    """Sizes of every tensor argument, by name, as numbers or expressions over ``symbols``."""
    symbols: tuple[str, ...]
    """Sizes that may vary, in order of appearance."""
    sizes: tuple[tuple[str, int], ...]
    """The symbols' values in the tensors that were given."""
    ranges: tuple[tuple[str, int, int | None], ...]
    """Smallest and largest value of a symbol that the export vouches for; None is unbounded."""
    outputs: tuple[OutputSpec, ...]
    returns_tuple: bool
    notes: tuple[str, ...]
    """Warnings for the person."""


def trace(
    call: Call,
    tensors: Mapping[str, Tensor],
    varying: bool,
    fixed: Collection[str] = (),
    axes: Collection[tuple[str, int]] = (),
) -> Traced:
    """Export ``call`` (a dict of named tensors in, one tensor or a tuple out) to a graph.

    ``tensors`` may be real, fake or meta tensors: only dtype and shape count. With ``varying`` the
    sizes of every tensor not named in ``fixed`` (parameters, buffers) may vary where the reference
    allows it, but for those of ``axes``, by name and place; where the export with varying sizes fails,
    all sizes are those given and a note says so. Raises ``ProblemError`` with the person's line when the
    reference cannot be exported.
    """
    notes: list[str] = []
    free = {name: set(range(t.ndim)) for name, t in tensors.items() if varying and name not in fixed}
    free = _without(free, axes)
    while any(free.values()):
        try:
            return _traced(call, tensors, free, notes)
        except NotSymbolic as unsupported:
            specialised = _without(free, unsupported.dims)
            notes.append(_specialised_note(unsupported))
            free = specialised if specialised != free else {}
        except Exception as error:
            notes.append(f"sizes are fixed to the ones given: {_reason(error)}")
            free = {}
    try:
        return _traced(call, tensors, {}, notes)
    except ProblemError:
        raise
    except Exception as error:
        raise ProblemError(_explain(error)) from error


class _Lines(TorchFunctionMode):
    """Keeps the person's line on the stack of every torch call, where the exporter looks for it.

    Calls that ask for values are made without where what is computed does not need them.
    """

    def __init__(self, notes: list[str]) -> None:
        super().__init__()
        self._notes, self._masks = notes, Masks()
        self._instead: dict[Callable[..., Any], Callable[..., Any]] = {
            Tensor.__getitem__: self._masks.rows_of,
            Tensor.__setitem__: self._masks.put,
            **dict.fromkeys((torch.masked_select, Tensor.masked_select), self._masks.selected),
            **dict.fromkeys((torch.nonzero, Tensor.nonzero), self._masks.nonzero),
            torch.where: self._masks.where,
            Tensor.item: _number,
            **UNCHECKED,
        }

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func == Tensor.__bool__ and (frame := persons_frame()) is not None:
            way = way_that_goes_on(frame)
            if way is not None:
                note = f"line {frame.f_lineno} raises where values are not as it wants: kernels do not look"
                self._notes += [note] if note not in self._notes else []
                return way
        kwargs = kwargs or {}
        made = call_from_persons_frame(whole(self._instead.get(func, func), args), args, kwargs)
        self._masks.made(func, args, kwargs, made)
        return made


def _number(tensor: Tensor) -> Tensor:
    """``item()``, as a tensor without axes: most of what is done with the number can be done with that."""
    return tensor.reshape(())


def _traced(
    call: Call, tensors: Mapping[str, Tensor], free: Mapping[str, Collection[int]], notes: list[str]
) -> Traced:
    with warnings.catch_warnings(), _quiet():
        warnings.simplefilter("ignore")
        program, orders = _export(call, tensors, free, notes)
    translation = Translation(program, tuple(tensors), orders)
    graph = translation.graph()
    return Traced(
        graph=graph,
        dims=translation.dims,
        symbols=translation.symbols,
        sizes=translation.sizes(tensors),
        ranges=translation.ranges,
        outputs=translation.outputs,
        returns_tuple=translation.returns_tuple,
        notes=tuple(notes),
    )


def _export(
    call: Call, tensors: Mapping[str, Tensor], free: Mapping[str, Collection[int]], notes: list[str]
) -> tuple[ExportedProgram, tuple[Order, ...]]:
    """The program in core operations, and how its results lay in memory before they were decomposed."""
    names = tuple(tensors)

    class Reference(nn.Module):
        def forward(self, tensors: tuple[Tensor, ...]) -> Tensor | tuple[Tensor, ...]:
            with _Lines(notes), _lengths_that_vary(), autocast_that_counts():
                made: Tensor | tuple[Tensor, ...] = without_chosen(
                    call(dict(zip(names, tensors, strict=True)))
                )
                return made

    dynamic = tuple(dict.fromkeys(free.get(name, ()), ExportDim.AUTO) or None for name in names)
    with kept_for_the_table(), _without_formats(), distributions_that_trust():
        program = export(
            Reference(), (tuple(tensors.values()),), dynamic_shapes={"tensors": dynamic}, strict=False
        )
        made = {node.name: order_of(node.meta.get("val")) for node in program.graph.nodes}
        returned = [s for s in program.graph_signature.output_specs if s.kind is OutputKind.USER_OUTPUT]
        orders = tuple(made.get(spec.arg.name) for spec in returned)
        return lowered(program), orders


@contextmanager
def _lengths_that_vary() -> Iterator[None]:
    """``len`` of a tensor as its first size; Python's own makes a number of it, which fixes the size."""
    ordinary = builtins.len

    def length(of: Any) -> Any:
        return of.shape[0] if isinstance(of, Tensor) and of.ndim else ordinary(of)

    builtins.len = length
    try:
        yield
    finally:
        builtins.len = ordinary


@contextmanager
def _without_formats() -> Iterator[None]:
    """Torch notes beside each value which of three layouts it has: a tenth of an export, and nobody asks.

    What sizes must be for that would be among the export's guards.
    """
    inside: Any = proxy_tensor
    ordinary = getattr(inside, "_extract_tensor_metadata", None)
    if ordinary is None or "include_contiguity" not in inspect.signature(ordinary).parameters:
        yield
        return
    inside._extract_tensor_metadata = partial(ordinary, include_contiguity=False)
    try:
        yield
    finally:
        inside._extract_tensor_metadata = ordinary


@contextmanager
def _quiet() -> Iterator[None]:
    """Torch prints whole graphs when an export fails; the person gets one sentence instead."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def _without(free: Mapping[str, Collection[int]], dims: Collection[tuple[str, int]]) -> dict[str, set[int]]:
    return {name: {axis for axis in axes if (name, axis) not in dims} for name, axes in free.items()}


def _specialised_note(unsupported: NotSymbolic) -> str:
    axes = ", ".join(f"axis {axis} of {name}" for name, axis in unsupported.dims)
    return f"the size of {axes or 'every axis'} is fixed to the one given: {unsupported.why}"


# ------------------------------------------------------------------------------------ errors


def _explain(error: Exception) -> str:
    line = line_of_traceback(error.__traceback__)
    where = f"line {line}: " if line else ""
    return f"{where}the reference cannot be exported: {_reason(error)}"


def _reason(error: Exception) -> str:
    if isinstance(error, ProblemError):
        return str(error).rstrip(".")
    name, text = type(error).__name__, str(error)
    if name == "DynamicOutputShapeException" and text.startswith("aten."):
        return (
            f"what {base_name(text)} makes has a size that depends on values. "
            "Leave it outside: return what it takes."
        )
    if name in _BY_VALUES or "data-dependent" in text:
        return (
            "it branches or computes a size from the values of a tensor. "
            "Use torch.where or a mask in place of the branch."
        )
    if "Constraints violated" in text or name == "UserError":
        return "its sizes are tied to each other in a way torch.export does not support"
    first = next((row.strip() for row in text.splitlines() if row.strip()), "")
    if ".numpy()" in text or "numpy" in first:
        return (
            "it leaves torch for numpy, which hides what is computed. "
            "Use torch's functions: torch.exp for np.exp."
        )
    if "fake tensor in the exported program" in text:
        return (
            "it keeps a tensor that it has computed outside of itself, in a list or a global name. "
            "Return it instead."
        )
    return f"{name}: {first[:200].rstrip('.')}. Write this step with torch operations on whole tensors."
