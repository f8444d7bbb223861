"""The plan under construction: steps so far, memory taken, work left.

Owns the one mutable object of an interpretation. Never evaluates an expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd

from workbench.model import DTYPE_BYTES, DType, Target, TensorMeta, contiguous_strides
from workbench.plan.limits import NDIM, STEPS, WORK
from workbench.plan.overlap import span_of
from workbench.plan.refusal import Refused
from workbench.plan.signature import KernelTable
from workbench.plan.steps import Allocate, Launch, Library, View
from workbench.plan.values import Tensor, describe

LibraryMeta = Callable[[str, tuple[object, ...], Mapping[str, object]], tuple[TensorMeta, ...]]
"""Metadata of what an ATen operation returns. Tensors among the arguments are given as ``TensorMeta``,
dtypes by their name. Raises ``ValueError`` or what torch raises for a bad call."""

Turn = tuple[int, int, bool]
"""Line and column of a condition or comparison of a plan, and how it came out."""

_LARGEST_SIZE = 2**62
_ALIGNMENT = 256


class Build:
    """What the calls of a plan add to."""

    def __init__(self, kernels: KernelTable, target: Target, library_meta: LibraryMeta) -> None:
        self.kernels = kernels
        self.target = target
        self.library_meta = library_meta
        self.steps: list[Allocate | View | Launch | Library] = []
        self.line = 0
        """Line of the call being made."""
        self.written: set[str] = set()
        """Origins of buffers that some step writes, or may write."""
        self.turns: dict[Turn, None] = {}
        """Conditions met so far and how they came out."""
        self._work = WORK
        self._bytes = 0
        self._buffers = 0

    def charge(self, work: int = 1) -> None:
        """Count work; what never ends runs out of it."""
        self._work -= work
        if self._work < 0:
            raise Refused("the plan does not come to an end: too many rounds of its loops")

    def add(self, step: Allocate | View | Launch | Library) -> None:
        """Append a step."""
        if len(self.steps) >= STEPS:
            raise Refused(f"more than {STEPS} steps: do more in one kernel")
        self.steps.append(step)

    def argument(self, name: str, meta: TensorMeta) -> Tensor:
        """A tensor of the problem."""
        self._bytes += span_of(meta) * DTYPE_BYTES[meta.dtype]
        self.written.add(name)
        return Tensor(name, meta, name, 0, span_of(meta), name, True)

    def allocate(self, shape: tuple[int, ...], dtype: DType, zero: bool = False) -> Tensor:
        """A new row-major buffer."""
        meta = TensorMeta(dtype=dtype, shape=shape, strides=contiguous_strides(shape), alignment=_ALIGNMENT)
        return self.allocate_as(meta, zero)

    def allocate_as(self, meta: TensorMeta, zero: bool = False) -> Tensor:
        """A new buffer of the given layout."""
        self.reserve(meta)
        name = self.name_buffer()
        self.add(Allocate(buffer=name, meta=meta, zero=zero, line=self.line))
        if zero:
            self.written.add(name)
        return Tensor(name, meta, name, 0, span_of(meta), name, False)

    def reserve(self, meta: TensorMeta) -> None:
        """Count the memory of a new buffer; all buffers live until the plan ends."""
        self._bytes += span_of(meta) * DTYPE_BYTES[meta.dtype]
        if self._bytes > self.target.dram_bytes:
            need, have = self._bytes / 1e9, self.target.dram_bytes / 1e9
            message = f"inputs and buffers need {need:.4g} GB by now, the card has {have:.4g} GB"
            raise Refused(message)

    def name_buffer(self) -> str:
        """The next of ``%0``, ``%1``, ..."""
        self._buffers += 1
        return f"%{self._buffers - 1}"

    def view(self, of: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Tensor:
        """Another look at a buffer; ``offset`` counts from the first element of ``of``."""
        start = of.offset + offset
        plain = TensorMeta(dtype=of.meta.dtype, shape=shape, strides=strides)
        end = start + span_of(plain)
        if start < 0 or end > of.span:
            message = f"the view covers elements {start} to {end - 1}; the buffer has {of.span}"
            raise Refused(message, ("offset",) if offset else ("shape",))
        alignment = gcd(of.meta.alignment, offset * DTYPE_BYTES[of.meta.dtype]) if offset else 0
        meta = plain.model_copy(update={"alignment": alignment or of.meta.alignment})
        name = self.name_buffer()
        self.add(View(buffer=name, of=of.base, meta=meta, offset=start, line=self.line))
        return Tensor(name, meta, of.base, start, of.span, of.origin, of.borrowed)


def integer(value: object, name: str, low: int = 0, high: int = _LARGEST_SIZE) -> int:
    """A whole number of a call's argument, within bounds."""
    if isinstance(value, bool) or not isinstance(value, int):
        hint = ": use // for whole numbers" if isinstance(value, float) else ""
        raise Refused(f"{name} must be a whole number, not {describe(value)}{hint}", (name,))
    if not low <= value <= high:
        raise Refused(f"{name} must be from {low} to {high}, not {value}", (name,))
    return value


def sizes(value: object, name: str) -> tuple[int, ...]:
    """A shape or strides: a whole number or a tuple of them, none negative."""
    items = value if isinstance(value, tuple | list) else (value,)
    if len(items) > NDIM:
        raise Refused(f"{name} has {len(items)} axes; {NDIM} are allowed", (name,))
    for i, item in enumerate(items):
        if isinstance(item, bool) or not isinstance(item, int):
            hint = ": use // for whole numbers" if isinstance(item, float) else ""
            raise Refused(f"{name} must hold whole numbers, not {describe(item)}{hint}", (name, i))
        if item < 0:
            raise Refused(f"{name} cannot be negative: {tuple(items)}", (name, i))
        if item > _LARGEST_SIZE:
            raise Refused(f"{item} is too large for {name}", (name, i))
    return tuple(items)
