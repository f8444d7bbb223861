"""``library(...)``: a call of a functional ATen operation, counted and shown as such.

Owns which operations may be called. What they return, torch's metadata kernels say: they are given
to the interpreter as ``library_meta``, so that no torch is needed here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from workbench.model import TensorMeta, base_name
from workbench.plan.build import Build
from workbench.plan.limits import LIBRARY_RESULTS
from workbench.plan.overlap import span_of
from workbench.plan.refusal import Refused
from workbench.plan.steps import BufferArg, Library, LibraryArg
from workbench.plan.values import DTypeName, Tensor, describe

_OP = re.compile(r"aten\.([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?\Z", re.ASCII)

_VIEWS = """
    alias as_strided chunk contiguous detach diagonal expand expand_as flatten movedim narrow permute
    ravel reshape reshape_as select slice split split_with_sizes squeeze swapaxes swapdims t to transpose
    unbind unflatten unfold unsafe_chunk unsafe_split unsqueeze view view_as _reshape_alias _unsafe_view
    adjoint mT mH numpy_T matrix_H lift lift_fresh positive real imag broadcast_to atleast_1d atleast_2d
    atleast_3d moveaxis
"""
VIEW_OPS = frozenset(_VIEWS.split())
"""Operations whose result is, or may be, the memory of their first tensor."""

_UNWRITTEN = ("empty", "new_empty", "resize")
"""Beginnings of the names of operations that return memory with undefined contents."""
_REFUSALS = (
    ValueError, TypeError, RuntimeError, LookupError, ArithmeticError, AttributeError, AssertionError,
)  # fmt: skip
"""What metadata kernels raise for arguments they do not take."""
_OUTSIDE = ("from_file", "_print", "save", "load", "set_", "data_ptr", "record_stream", "_assert_async")


def refuse_library(op: str, args: tuple[object, ...], kwargs: Mapping[str, object]) -> tuple[TensorMeta, ...]:
    """A ``LibraryMeta`` for places without torch: turns every call away."""
    raise ValueError("library calls are not interpreted here")


def library(build: Build, op: object, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
    """``library("aten.op[.overload]", *args, **kwargs)`` -> a tensor, or a tuple of several."""
    name = _checked_name(op)
    if "out" in kwargs:
        raise Refused("a library call makes its own output: leave out= away", ("out",))
    step_args = tuple(_step_argument(a) for a in args)
    step_kwargs = tuple((k, _step_argument(v)) for k, v in kwargs.items())
    try:
        metas = build.library_meta(
            name, tuple(_meta_argument(a) for a in args), {k: _meta_argument(v) for k, v in kwargs.items()}
        )
    except _REFUSALS as error:
        reason = str(error).strip().partition("\n")[0][:200]
        raise Refused(f"{name}: {reason or type(error).__name__}") from None
    if not 1 <= len(metas) <= LIBRARY_RESULTS:
        raise Refused(f"{name} returns {len(metas)} tensors: 1 to {LIBRARY_RESULTS} are allowed")
    source = _aliased(name, (*args, *kwargs.values()))
    results = tuple(_result(build, meta, source) for meta in metas)
    build.add(
        Library(
            op=name,
            args=step_args,
            kwargs=step_kwargs,
            results=tuple(t.buffer for t in results),
            metas=metas,
            line=build.line,
        )
    )
    return results[0] if len(results) == 1 else results


def _checked_name(op: object) -> str:
    match = _OP.match(op) if isinstance(op, str) else None
    if match is None:
        raise Refused(f'the operation must be a string such as "aten.mm", not {describe(op)}', ("op",))
    base, overload = match[1], match[2] or ""
    in_place = base.startswith("__i") or (base.endswith("_") and not base.startswith("__"))
    if in_place or overload == "out" or overload.endswith("_out"):
        raise Refused(
            f"{match[0]} writes into its argument: use the operation that returns a new one", ("op",)
        )
    if base.startswith(_UNWRITTEN):
        raise Refused(f"{match[0]} returns memory that nobody wrote: use empty(shape, dtype)", ("op",))
    if base.startswith(_OUTSIDE):
        raise Refused(f"{match[0]} is not an operation on tensors alone", ("op",))
    return match[0]


def _step_argument(value: object) -> LibraryArg:
    match value:
        case Tensor(buffer=buffer):
            return BufferArg(buffer=buffer)
        case DTypeName(name=name):
            return name
        case None | bool() | int() | float() | str():
            return value
        case tuple() | list():
            return tuple(_step_argument(v) for v in value)
    raise Refused(f"a library call cannot be given {describe(value)}")


def _meta_argument(value: object) -> object:
    match value:
        case Tensor(meta=meta):
            return meta
        case DTypeName(name=name):
            return name
        case tuple() | list():
            return tuple(_meta_argument(v) for v in value)
    return value


def _aliased(op: str, values: tuple[object, ...]) -> Tensor | None:
    """The tensor whose memory the result may be."""
    if base_name(op) not in VIEW_OPS:
        return None
    return next((v for v in values if isinstance(v, Tensor)), None)


def _result(build: Build, meta: TensorMeta, source: Tensor | None) -> Tensor:
    name = build.name_buffer()
    if source is not None:
        return Tensor(name, meta, name, 0, span_of(meta), source.origin, source.borrowed)
    build.reserve(meta)
    build.written.add(name)
    return Tensor(name, meta, name, 0, span_of(meta), name, False)
