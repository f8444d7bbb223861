"""The calls that make buffers: ``empty``, ``empty_like``, ``zeros``, ``view``, ``tensor_map``.

Owns the rules for shapes, strides and dtypes. Never counts memory: build.py does.
"""

from __future__ import annotations

from typing import cast

from workbench.model import DType, contiguous_strides
from workbench.plan.build import Build, integer, sizes
from workbench.plan.overlap import overlaps_itself, span_of
from workbench.plan.refusal import Refused
from workbench.plan.values import DTypeName, Tensor, describe
from workbench.plan.vocabulary import DTYPES

Bound = dict[str, object]
_MOST_BACK = -(2**62)


def empty(build: Build, given: Bound) -> Tensor:
    """``empty(shape, dtype)``: a row-major buffer with undefined contents."""
    return build.allocate(sizes(given["shape"], "shape"), dtype_of(given["dtype"]))


def zeros(build: Build, given: Bound) -> Tensor:
    """``zeros(shape, dtype)``: a row-major buffer set to zero."""
    return build.allocate(sizes(given["shape"], "shape"), dtype_of(given["dtype"]), zero=True)


def empty_like(build: Build, given: Bound) -> Tensor:
    """``empty_like(x, dtype=None)``: the shape of x; its strides too where x is dense, as torch does it."""
    meta = tensor_of(given["x"], "x").meta
    dtype = meta.dtype if given["dtype"] is None else dtype_of(given["dtype"])
    dense = span_of(meta) == meta.numel and not overlaps_itself(meta)
    strides = meta.strides if dense and not meta.is_contiguous else contiguous_strides(meta.shape)
    layout = {"dtype": dtype, "strides": strides, "alignment": 256}
    return build.allocate_as(meta.model_copy(update=layout))


def view(build: Build, given: Bound) -> Tensor:
    """``view(x, shape, strides=None, offset=0)``: x's memory under another shape; strides in elements."""
    of = tensor_of(given["x"], "x")
    shape = sizes(given["shape"], "shape")
    offset = integer(given["offset"], "offset", low=_MOST_BACK)
    if given["strides"] is None:
        if not of.meta.is_contiguous:
            raise Refused("x is not contiguous, so a view of it needs strides=", ("x",))
        return build.view(of, shape, contiguous_strides(shape), offset)
    strides = sizes(given["strides"], "strides")
    if len(strides) != len(shape):
        raise Refused(f"shape has {len(shape)} axes, strides has {len(strides)}", ("strides",))
    return build.view(of, shape, strides, offset)


def tensor_map(build: Build, given: Bound) -> object:
    """``tensor_map(...)``: a TMA descriptor, part of the language but not carried out yet."""
    raise Refused("tensor_map is not supported yet: pass the tensor and use cp.async or plain loads")


def tensor_of(value: object, name: str) -> Tensor:
    """The tensor itself."""
    if isinstance(value, Tensor):
        return value
    raise Refused(f"{name} must be a tensor, not {describe(value)}", (name,))


def dtype_of(value: object) -> DType:
    """The name of a dtype."""
    if isinstance(value, DTypeName):
        return cast(DType, value.name)
    raise Refused(f"dtype must be one of {', '.join(DTYPES)}, not {describe(value)}", ("dtype",))
