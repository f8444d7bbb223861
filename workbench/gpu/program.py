"""A plan laid out for one device: one Python function without loops or look-ups, written for that plan.

A call's cost to the host is a launch, an allocation, and what lies between; a loop over closures would double
what lies between. Owns the text of that function, which holds numbers and this module's own names only, and
the packed arguments of every launch. The same text with a check in front is what an applied kernel calls.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.autograd import forward_ad

from workbench.errors import GpuError
from workbench.gpu import driver as cuda
from workbench.gpu.guard import ALIGNMENT_MASK, Likeness
from workbench.gpu.library_calls import library_call
from workbench.gpu.packing import CELL_BYTES, cell_of
from workbench.gpu.swift import MOST_CELLS, SwiftLaunch, template_of
from workbench.model import DTYPE_BYTES, DType, TensorMeta
from workbench.numerics.dtypes import TORCH
from workbench.plan.steps import Allocate, BufferArg, Launch, Library, Plan, View

if TYPE_CHECKING:
    from workbench.gpu.kernels import Kernels
    from workbench.gpu.turn import Turn

Run = Callable[[Sequence[Any]], tuple[Any, ...]]
"""One execution: the plan's tensors in its order of arguments in, its outputs out."""
Guarded = Callable[[Sequence[Any]], tuple[Any, ...] | None]
"""The same for tensors like some earlier ones; None, and nothing done, for others."""
Empty = Callable[[tuple[int, ...], tuple[int, ...], torch.dtype], torch.Tensor]
POISON_BYTE = 0x7F
"""Fills integers with a large number; floats are filled with NaN."""


@dataclass(frozen=True)
class _Place:
    """Where a buffer's first element is: a tensor of the function, and elements from its first."""

    index: int
    dtype: DType
    offset: int = 0

    @property
    def address(self) -> str:
        """The Python that computes it."""
        bytes_ = self.offset * DTYPE_BYTES[self.dtype]
        return f"a{self.index}" + (f" + {bytes_}" if bytes_ else "")


class Laid(NamedTuple):
    """A plan laid out for one device."""

    run: Run
    guarded: Callable[[Likeness], Guarded]
    """The same behind a check; made for one kind of tensors."""


class Ways(NamedTuple):
    """What differs between a plan that is judged and one that is applied."""

    poison: bool = False
    """New buffers begin as NaN, or as large integers."""
    swift: SwiftLaunch | None = None
    """Launches go through it; without it through ctypes."""
    turns: bool = False
    """Calls may come from several streams: kernels that keep counters run in one after the other."""
    mark: Callable[[], None] | None = None
    """Called behind every launch and every library call."""


def program_of(plan: Plan, kernels: Kernels, device: int, ways: Ways) -> Laid:
    """Lay a plan out for a device (-1: the CPU, for tests). Loads code; raises ``GpuError``."""
    layout = _Layout(plan, kernels, device, ways.poison, ways.swift, ways.mark)
    layout.turn = kernels.turn(plan, device) if ways.turns else None
    for step in plan.steps:
        layout.add(step)
    return Laid(layout.function(), layout.guarded)


@dataclass
class _Layout:
    plan: Plan
    kernels: Kernels
    device: int
    poison: bool
    swift: SwiftLaunch | None = None
    mark: Callable[[], None] | None = None
    turn: Turn | None = None
    lines: list[str] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)
    """What the function's text refers to."""
    places: dict[str, _Place] = field(default_factory=dict)
    count: int = 0
    """Tensors so far: t0, t1 and so on."""
    addressed: set[int] = field(default_factory=set)
    """Those whose address a launch has wanted: a0, a1 and so on."""

    def __post_init__(self) -> None:
        self.names |= {"empty": _empty_on(self.device), "poisoned": poisoned}
        self.names["stream_of"] = torch._C._cuda_getCurrentRawStream if self.device >= 0 else _no_stream
        for name, meta in self.plan.arguments:
            self._next(name, meta)
        self.as_tensors = set(self.plan.outputs)
        for step in self.plan.steps:
            if isinstance(step, Library):
                self.as_tensors |= _buffers_in((step.args, tuple(value for _, value in step.kwargs)))

    def _next(self, name: str, meta: TensorMeta) -> str:
        self.places[name] = _Place(self.count, meta.dtype)
        self.count += 1
        return f"t{self.count - 1}"

    def _tensors(self) -> str:
        return "".join(f"t{index}, " for index in range(self.count))

    def _named(self, **values: Any) -> dict[str, str]:
        """Put objects under names of their own; says which."""
        given = {name: f"{name}{len(self.names)}" for name in values}
        self.names |= {given[name]: value for name, value in values.items()}
        return given

    def add(self, step: Allocate | View | Launch | Library) -> None:
        """Append the lines that carry out one step."""
        match step:
            case Allocate():
                self._allocate(step)
            case View():
                self._view(step)
            case Library():
                call = self._named(library=library_call(step, {n: p.index for n, p in self.places.items()}))
                given = self._tensors()
                pairs = zip(step.results, step.metas, strict=True)
                results = "".join(f"{self._next(name, meta)}, " for name, meta in pairs)
                self.lines.append(f"{results}= {call['library']}(({given}))")
            case Launch():
                self._launch(step)
        if self.mark is not None and isinstance(step, Launch | Library):
            self.lines.append("mark()")

    def _allocate(self, step: Allocate) -> None:
        meta = step.meta
        own = self._named(shape=meta.shape, strides=meta.strides, dtype=TORCH[meta.dtype])
        text = f"empty({own['shape']}, {own['strides']}, {own['dtype']})"
        if step.zero:
            text += ".zero_()"
        elif self.poison:
            text = f"poisoned({text})"
        self.lines.append(f"{self._next(step.buffer, meta)} = {text}")

    def _view(self, step: View) -> None:
        base = self.places[step.of]
        offset = base.offset + step.offset
        if step.buffer not in self.as_tensors:
            # Only kernels look at it: an address is enough, and a tensor would cost a microsecond.
            self.places[step.buffer] = _Place(base.index, step.meta.dtype, offset)
            return
        own, of = self._named(shape=step.meta.shape, strides=step.meta.strides), f"t{base.index}"
        text = f"{of}.as_strided({own['shape']}, {own['strides']}, {of}.storage_offset() + {offset})"
        self.lines.append(f"{self._next(step.buffer, step.meta)} = {text}")

    def _launch(self, step: Launch) -> None:
        passed = [
            (cell, self.places[arg.buffer])
            for cell, arg in enumerate(step.args)
            if isinstance(arg, BufferArg)
        ]
        # An argument's address is taken first of all, where the check in front can look at it too.
        new = {place.index for _, place in passed} - self.addressed
        self.addressed |= new
        self.lines += [f"a{i} = t{i}.data_ptr()" for i in sorted(new) if i not in self._arguments]
        launcher = _Launcher(step, self.kernels, self.device)
        if self.swift is not None and len(step.args) <= MOST_CELLS:
            self._swift_launch(launcher, passed)
        else:
            self._framed_launch(launcher, passed)

    def _swift_launch(self, launcher: _Launcher, passed: Sequence[tuple[int, _Place]]) -> None:
        assert self.swift is not None
        template = launcher.template([cell for cell, _ in passed])
        own = self._named(template=template, failed=launcher.failed, swift=self.swift)
        given = ", ".join([own["template"], "stream", *(place.address for _, place in passed)])
        self.lines += [
            f"code = {own['swift']}({given})",
            f"if code: {own['failed']}(code, {own['swift']}, {given})",
        ]

    def _framed_launch(self, launcher: _Launcher, passed: Sequence[tuple[int, _Place]]) -> None:
        own = self._named(
            frames=launcher.frames,
            fresh=launcher.fresh,
            failed=launcher.failed,
            entry=self.kernels.driver.launch,
        )
        self.lines += [
            # Frames go round: a thread takes one for the length of a launch, or makes one.
            "try:",
            f"    frame = {own['frames']}.pop()",
            "except IndexError:",
            f"    frame = {own['fresh']}()",
            "words, config, function, parameters, _ = frame",
            f"words[{STREAM_WORD}] = stream",
        ]
        self.lines += [f"words[{CONFIG_WORDS + cell}] = {place.address}" for cell, place in passed]
        self.lines += [
            f"code = {own['entry']}(config, function, parameters, None)",
            f"if code: {own['failed']}(code, {own['entry']}, config, function, parameters, None)",
            f"{own['frames']}.append(frame)",
        ]

    def function(self) -> Run:
        """The function that all the lines make."""
        wanted = [f"a{i} = t{i}.data_ptr()" for i in self._arguments if i in self.addressed]
        run: Run = self._made(wanted, {})
        return run

    def guarded(self, like: Likeness) -> Guarded:
        """The same function behind a check that its tensors are like some others, in one."""
        given = "".join(f"t{i}, " for i in self._arguments)
        odd = [f"a{i} & {ALIGNMENT_MASK} != {like.addresses[i]}" for i in self._arguments]
        odd += [f"grad_enabled() is not {like.grad}", "forward_ad._current_level >= 0"]
        lines = [
            f"if not check({given}): return None",
            *(f"a{i} = t{i}.data_ptr()" for i in self._arguments),
            f"if {' or '.join(odd)}: return None",
        ]
        names = {"check": like.check, "grad_enabled": torch.is_grad_enabled, "forward_ad": forward_ad}
        guarded: Guarded = self._made(lines, names)
        return guarded

    def _in_turn(self) -> list[str]:
        """All lines, behind one comparison where the kernels keep something between launches."""
        if self.turn is None:
            return self.lines
        inner = ["if stream != turn.stream: turn.change(stream)", *self.lines]
        return ["with turn.lock:", *(f"    {line}" for line in inner)]

    @property
    def _arguments(self) -> range:
        return range(len(self.plan.arguments))

    def _made(self, first: Sequence[str], names: dict[str, Any]) -> Any:
        """The function of all the lines, some others in front of them."""
        arguments = "".join(f"t{index}, " for index in self._arguments)
        outputs = "".join(f"t{self.places[name].index}, " for name in self.plan.outputs)
        lines = [
            f"{arguments}= values" if arguments else "",
            *first,
            f"stream = stream_of({self.device})",
            *self._in_turn(),
            f"return ({outputs})",
        ]
        text = "def run(values):\n" + "".join(f"    {line}\n" for line in lines if line)
        known = self.names | names | {"turn": self.turn, "mark": self.mark}
        exec(compile(text, "<a plan laid out>", "exec"), known)
        return known["run"]


def _no_stream(device: int) -> int:
    return 0


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


# ------------------------------------------------------------------------------------ library calls


def _buffers_in(value: object) -> set[str]:
    if isinstance(value, BufferArg):
        return {value.buffer}
    return set().union(*map(_buffers_in, value)) if isinstance(value, tuple) else set()


# ------------------------------------------------------------------------------------ launches


CONFIG_WORDS = ctypes.sizeof(cuda.LaunchConfig) // CELL_BYTES
STREAM_WORD = cuda.LaunchConfig.stream.offset // CELL_BYTES


class Frame(NamedTuple):
    """Memory of one launch in flight on the host: its configuration and, after it, its arguments."""

    words: memoryview
    """Eight bytes each; a pointer is written with one assignment."""
    config: cuda.Pointer
    function: cuda.Pointer
    parameters: cuda.Pointer
    kept: tuple[Any, ...]
    """What owns the memory."""


def frame_of(step: Launch, cells: Sequence[bytes], address: int) -> Frame:
    """A frame with everything in it but pointers and the stream; ``address`` is the function's."""
    count = max(1, len(cells))
    memory = (ctypes.c_uint64 * (CONFIG_WORDS + count))()
    words = memoryview(memory).cast("B")
    words[CONFIG_WORDS * CELL_BYTES :] = b"".join(cells) or bytes(CELL_BYTES)
    first = ctypes.addressof(memory) + CONFIG_WORDS * CELL_BYTES
    parameters = (ctypes.c_void_p * count)(*(first + CELL_BYTES * i for i in range(count)))
    config = cuda.LaunchConfig.from_buffer(memory)
    config.grid, config.block, config.shared_bytes = step.grid, step.block, step.shared_bytes
    attribute = cuda.Attribute(id=cuda.CLUSTER_DIMENSION)
    if step.cooperative:
        attribute.id, attribute.value[0] = cuda.COOPERATIVE, 1
    else:
        attribute.value[:3] = step.cluster
    if step.cooperative or step.cluster != (1, 1, 1):
        config.attributes, config.attribute_count = ctypes.pointer(attribute), 1
    kept = (memory, config, parameters, attribute)
    pointers = (cuda.pointer_to(ctypes.addressof(memory)), cuda.pointer_to(address))
    return Frame(words.cast("Q"), *pointers, cuda.pointer_to(ctypes.addressof(parameters)), kept)


class _Launcher:
    """One launch step on one device: its frames, and what is done when the driver refuses."""

    def __init__(self, step: Launch, kernels: Kernels, device: int) -> None:
        function = kernels.function(step, device)
        self._address = function.address
        self._step, self._device, self._driver = step, device, kernels.driver
        self._cells = cells_of(step, function.parameters)
        self.frames = [self.fresh()]

    def fresh(self) -> Frame:
        """One more frame."""
        return frame_of(self._step, self._cells, self._address)

    def template(self, pointers: Sequence[int]) -> bytes:
        """What a launch is copied from; ``pointers`` are the arguments that change."""
        words = self.frames[0].words
        config = bytes(words[:CONFIG_WORDS].cast("B"))
        return template_of(self._driver.launch, self._address, config, self._cells, pointers)

    def failed(self, code: int, launch: Callable[..., int], *given: Any) -> None:
        """Launch again in a thread that has no context yet. Raises ``GpuError`` with the plan's line."""
        if code == cuda.INVALID_CONTEXT:
            self._driver.make_current(self._device)
            code = launch(*given)
        if code:
            error = cuda.refusal(code, self._step.kernel)
            raise type(error)(str(error), self._step.line)


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
