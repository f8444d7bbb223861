"""A plan laid out for one device: a list of closures that a call runs one after the other.

Owns the order of buffers (arguments first, then what steps make) and the packed arguments of every launch.
Each closure takes the call's list of tensors, to which it may append, and the stream's address.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from workbench.errors import GpuError
from workbench.gpu import driver as cuda
from workbench.gpu.packing import CELL_BYTES, cell_of
from workbench.model import DTYPE_BYTES, DType, TensorMeta
from workbench.numerics.dtypes import TORCH
from workbench.numerics.running import DTYPES, operator
from workbench.plan.steps import Allocate, BufferArg, Launch, Library, Plan, View

if TYPE_CHECKING:
    from workbench.gpu.kernels import Kernels

Step = Callable[[list[Any], int], object]
Empty = Callable[[tuple[int, ...], tuple[int, ...], torch.dtype], torch.Tensor]
POISON_BYTE = 0x7F
"""Fills integers with a large number; floats are filled with NaN."""


@dataclass(frozen=True)
class Program:
    """What one call does, in order."""

    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    """Places of the returned tensors in the call's list."""


@dataclass(frozen=True)
class _Place:
    """Where a buffer's first element is: a tensor of the call's list, and elements from its first."""

    index: int
    dtype: DType
    offset: int = 0

    @property
    def offset_bytes(self) -> int:
        return self.offset * DTYPE_BYTES[self.dtype]


def program_of(plan: Plan, kernels: Kernels, device: int, poison: bool) -> Program:
    """Lay a plan out for a device (-1: the CPU, for tests). Loads code; raises ``GpuError``."""
    layout = _Layout(plan, kernels, device, poison)
    for step in plan.steps:
        layout.add(step)
    return Program(tuple(layout.steps), tuple(layout.places[name].index for name in plan.outputs))


@dataclass
class _Layout:
    plan: Plan
    kernels: Kernels
    device: int
    poison: bool
    steps: list[Step] = field(default_factory=list)
    places: dict[str, _Place] = field(default_factory=dict)
    count: int = 0
    """Tensors in the call's list so far."""

    def __post_init__(self) -> None:
        self.empty = _empty_on(self.device)
        for name, meta in self.plan.arguments:
            self._next(name, meta)
        self.as_tensors = set(self.plan.outputs)
        for step in self.plan.steps:
            if isinstance(step, Library):
                self.as_tensors |= _buffers_in((step.args, tuple(value for _, value in step.kwargs)))

    def _next(self, name: str, meta: TensorMeta) -> None:
        self.places[name] = _Place(self.count, meta.dtype)
        self.count += 1

    def add(self, step: Allocate | View | Launch | Library) -> None:
        """Append what carries out one step."""
        match step:
            case Allocate():
                self.steps.append(_allocation(step, self.empty, self.poison))
                self._next(step.buffer, step.meta)
            case View():
                self._view(step)
            case Library():
                self.steps.append(_library_call(step, {n: p.index for n, p in self.places.items()}))
                for name, meta in zip(step.results, step.metas, strict=True):
                    self._next(name, meta)
            case Launch():
                self.steps.append(_launch(step, self.kernels, self.device, self.places))

    def _view(self, step: View) -> None:
        base = self.places[step.of]
        if step.buffer not in self.as_tensors:
            # Only kernels look at it: an address is enough, and a tensor would cost a microsecond.
            self.places[step.buffer] = _Place(base.index, step.meta.dtype, base.offset + step.offset)
            return
        self.steps.append(_view(step, base))
        self._next(step.buffer, step.meta)


# ------------------------------------------------------------------------------------ buffers


def _empty_on(device: int) -> Empty:
    if device < 0:
        return partial(_empty_strided, torch.device("cpu"))
    # What compiled code of torch itself calls: the allocator without the argument parser in front.
    fast: Empty | None = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None)
    return fast or partial(_empty_strided, torch.device("cuda", device))


def _empty_strided(
    device: torch.device, shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype
) -> torch.Tensor:
    return torch.empty_strided(shape, strides, dtype=dtype, device=device)


def _allocation(step: Allocate, empty: Empty, poison: bool) -> Step:
    shape, strides, dtype = step.meta.shape, step.meta.strides, TORCH[step.meta.dtype]

    def allocate(values: list[Any], stream: int) -> None:
        values.append(empty(shape, strides, dtype))

    def allocate_zeros(values: list[Any], stream: int) -> None:
        values.append(empty(shape, strides, dtype).zero_())

    def allocate_poisoned(values: list[Any], stream: int) -> None:
        values.append(poisoned(empty(shape, strides, dtype)))

    return allocate_zeros if step.zero else allocate_poisoned if poison else allocate


def poisoned(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself, filled with NaN, or with large integers."""
    if tensor.is_floating_point():
        return tensor.fill_(math.nan)
    size = tensor.element_size()
    number = int.from_bytes(bytes([POISON_BYTE]) * size, "little")
    if tensor.dtype == torch.bool:
        tensor.view(torch.uint8).fill_(number)
        return tensor
    return tensor.fill_(number)


def _view(step: View, base: _Place) -> Step:
    index, offset = base.index, base.offset + step.offset
    shape, strides = step.meta.shape, step.meta.strides

    def view(values: list[Any], stream: int) -> None:
        of = values[index]
        values.append(of.as_strided(shape, strides, of.storage_offset() + offset))

    return view


# ------------------------------------------------------------------------------------ library calls


def _buffers_in(value: object) -> set[str]:
    if isinstance(value, BufferArg):
        return {value.buffer}
    return set().union(*map(_buffers_in, value)) if isinstance(value, tuple) else set()


def _library_call(step: Library, indices: dict[str, int]) -> Step:
    function = operator(step.op)

    def found(value: Any) -> Callable[[list[Any]], Any]:
        if isinstance(value, BufferArg):
            index = indices[value.buffer]
            return lambda values: values[index]
        if isinstance(value, tuple):
            parts = [found(part) for part in value]
            return lambda values: [part(values) for part in parts]
        constant = DTYPES.get(value, value) if isinstance(value, str) else value
        return lambda values: constant

    args = [found(value) for value in step.args]
    kwargs = {name: found(value) for name, value in step.kwargs}

    def call(values: list[Any], stream: int) -> None:
        result = function(*[a(values) for a in args], **{name: a(values) for name, a in kwargs.items()})
        results = result if isinstance(result, tuple | list) else (result,)
        for tensor, meta in zip(results, step.metas, strict=True):
            # Later steps were laid out for these strides: a kernel must not read past them.
            if tensor.shape != meta.shape or tensor.stride() != meta.strides:
                raise GpuError(
                    f"{step.op} returned {tuple(tensor.shape)} with strides {tensor.stride()} where the plan "
                    f"expects {meta.shape} with {meta.strides}",
                    step.line,
                )
        values.extend(results)

    return call


# ------------------------------------------------------------------------------------ launches


class Frame:
    """Memory of one launch in flight on the host: configuration, cells of arguments, their addresses."""

    __slots__ = ("attribute", "cells", "config", "config_at", "parameters", "parameters_at")

    def __init__(self, step: Launch, cells: list[bytes]) -> None:
        count = max(1, len(cells))
        self.cells = (ctypes.c_uint64 * count).from_buffer_copy(b"".join(cells) or bytes(CELL_BYTES))
        first = ctypes.addressof(self.cells)
        self.parameters = (ctypes.c_void_p * count)(*(first + CELL_BYTES * i for i in range(count)))
        self.attribute = cuda.Attribute(id=cuda.CLUSTER_DIMENSION)
        self.attribute.value[:3] = step.cluster
        clustered = step.cluster != (1, 1, 1)
        self.config = cuda.LaunchConfig(
            grid=step.grid,
            block=step.block,
            shared_bytes=step.shared_bytes,
            attributes=ctypes.pointer(self.attribute) if clustered else None,
            attribute_count=int(clustered),
        )
        self.config_at = ctypes.addressof(self.config)
        self.parameters_at = ctypes.addressof(self.parameters)


def _launch(step: Launch, kernels: Kernels, device: int, places: dict[str, _Place]) -> Step:
    function = kernels.function(step, device)
    address, entry, driver = function.address, kernels.driver.launch, kernels.driver
    cells = cells_of(step, function.parameters)
    pointers = tuple(
        (cell, places[arg.buffer].index, places[arg.buffer].offset_bytes)
        for cell, arg in enumerate(step.args)
        if isinstance(arg, BufferArg)
    )
    # Frames go round: a thread takes one for the length of a launch, or makes one where all are taken.
    frames = [Frame(step, cells)]

    def launch(values: list[Any], stream: int) -> None:
        try:
            frame = frames.pop()
        except IndexError:
            frame = Frame(step, cells)
        slots = frame.cells
        for cell, index, offset in pointers:
            slots[cell] = values[index].data_ptr() + offset
        frame.config.stream = stream
        code = entry(frame.config_at, address, frame.parameters_at, None)
        if code == cuda.INVALID_CONTEXT:
            driver.make_current(device)
            code = entry(frame.config_at, address, frame.parameters_at, None)
        frames.append(frame)
        if code:
            error = cuda.refusal(code, step.kernel)
            raise type(error)(str(error), step.line)

    return launch


def cells_of(step: Launch, sizes: tuple[int, ...]) -> list[bytes]:
    """Bytes of every argument, zeros where pointers go."""
    if len(sizes) != len(step.args):
        raise GpuError(f"{step.kernel} takes {len(sizes)} arguments, {len(step.args)} given", step.line)
    cells = []
    for number, (arg, size) in enumerate(zip(step.args, sizes, strict=True), 1):
        if isinstance(arg, BufferArg):
            if size != CELL_BYTES:
                message = f"argument {number} of {step.kernel} is a tensor, the parameter has {size} bytes"
                raise GpuError(message, step.line)
            cells.append(bytes(CELL_BYTES))
            continue
        try:
            cells.append(cell_of(arg, size))
        except ValueError as error:
            raise GpuError(f"argument {number} of {step.kernel}: {error}", step.line) from None
    return cells
