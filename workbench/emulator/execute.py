"""Carries out a plan's steps on CPU tensors, one launch after the other.

Owns the buffers' life during one execution and the report about it. Runs in a worker process: it imports
torch, and a kernel that loops forever or crashes takes the process with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from workbench.emulator import buffers, launching, lines
from workbench.emulator.buffers import Buffer
from workbench.emulator.counts import total
from workbench.emulator.findings import Findings, Scene, array_name
from workbench.emulator.hosts import IN_PROCESS, Host, RunnerEnded, Work
from workbench.emulator.result import MOST_PRINTED, LaunchResult
from workbench.emulator.values import Binary, LaunchCounts, Module, Options, RunReport, Unwritten
from workbench.errors import EmulatorLaunchError
from workbench.model import DTYPE_BYTES, AccessSite, Diagnostic, Hazard, Printed, TensorMeta, base_name
from workbench.plan.spectra import in_pairs
from workbench.plan.steps import Allocate, BufferArg, Launch, Library, LibraryArg, Plan, View

_DEFAULTS = Options()


@dataclass(frozen=True)
class Execution:
    """What a plan returned, and all that was seen on the way."""

    outputs: tuple[torch.Tensor, ...]
    """In the reference's order; nobody writes to them any more."""
    report: RunReport


@dataclass(frozen=True)
class _Tensor:
    """A name of the plan: some look at a buffer."""

    buffer: Buffer
    meta: TensorMeta
    offset: int = 0
    """Elements from the start of the buffer."""

    @property
    def values(self) -> torch.Tensor:
        return self.buffer.look(self.meta, self.offset)

    @property
    def address(self) -> int:
        return self.buffer.address + self.offset * DTYPE_BYTES[self.meta.dtype]


def execute(
    plan: Plan,
    built: Module,
    tensors: Mapping[str, torch.Tensor],
    options: Options = _DEFAULTS,
    host: Host = IN_PROCESS,
) -> Execution:
    """Run a plan. ``tensors`` are CPU tensors by argument name with the shapes the plan was made for.

    Launches run where ``host`` says; allocation, library calls and every look at memory stay here.

    Raises ``EmulatorLaunchError`` for a launch a GPU would refuse, ``EmulatorUnsupported`` for what the
    emulator does not cover, ``ValueError`` when a tensor does not fit the plan.
    """
    return _Run(plan, built, tensors, options, host).execute()


@dataclass
class _Seen:
    """What has been reported so far."""

    hazards: list[Hazard] = field(default_factory=list)
    absent_lanes: list[Hazard] = field(default_factory=list)
    contested: list[Hazard] = field(default_factory=list)
    printed: Printed | None = None
    sites: list[AccessSite] = field(default_factory=list)
    launches: list[LaunchCounts] = field(default_factory=list)
    trap: str | None = None
    stopped: bool = False
    converses: bool = False
    used: dict[str, Binary] = field(default_factory=dict)
    seconds: float = 0.0


class _Run:
    def __init__(
        self,
        plan: Plan,
        built: Module,
        tensors: Mapping[str, torch.Tensor],
        options: Options,
        host: Host,
    ) -> None:
        self.plan, self.built, self.options, self.host = plan, built, options, host
        host.begin()
        self.given = dict(tensors)
        self.checked = built.mode == "checked"
        self.seen = _Seen()
        self.names: dict[str, _Tensor] = {}
        self.buffers: list[Buffer] = []

    def execute(self) -> Execution:
        for name, meta in self.plan.arguments:
            self._add(name, self._holding(name, meta, self._given(name, meta), read_only=True))
        for step in self.plan.steps:
            self._carry_out(step)
            if self.seen.stopped:
                break
        self._inspect_memory()
        return Execution(self._outputs(), self._report())

    def _outputs(self) -> tuple[torch.Tensor, ...]:
        """Copied out of memory that the kernel's process may still write to."""
        if self.seen.stopped:
            return ()
        values = tuple(self.names[name].values for name in self.plan.outputs)
        return tuple(map(_private, values)) if self.host.shared else values

    def _given(self, name: str, meta: TensorMeta) -> torch.Tensor:
        tensor = self.given[name]
        wanted = buffers.TORCH_DTYPES[meta.dtype]
        if tuple(tensor.shape) != meta.shape or tensor.dtype != wanted:
            raise ValueError(
                f"{name}: the plan was made for {wanted} {meta.shape}, "
                f"given {tensor.dtype} {tuple(tensor.shape)}"
            )
        return tensor.detach()

    def _holding(self, label: str, meta: TensorMeta, values: torch.Tensor, *, read_only: bool) -> Buffer:
        buffer = buffers.allocate(label, meta, self.host.storage, read_only=read_only)
        buffer.look(meta).copy_(values)
        return buffer

    def _add(self, name: str, buffer: Buffer) -> None:
        self.buffers.append(buffer)
        self.names[name] = _Tensor(buffer, buffer.meta)

    def _label(self, name: str) -> str:
        """Call a buffer by the output it, or a view of it, is returned as."""
        views = {step.buffer for step in self.plan.steps if isinstance(step, View) and step.of == name}
        for number, output in enumerate(self.plan.outputs):
            if output == name or output in views:
                return "output" if len(self.plan.outputs) == 1 else f"output {number}"
        return f"workspace {name}"

    def _carry_out(self, step: Allocate | View | Launch | Library) -> None:
        match step:
            case Allocate(buffer=name, meta=meta, zero=zero):
                mark = self.checked and self.options.initialised and not zero
                self._add(name, buffers.allocate(self._label(name), meta, self.host.storage, mark=mark))
                if zero:
                    self.names[name].values.zero_()
            case View(buffer=name, of=of, meta=meta, offset=offset):
                base = self.names[of]
                self.names[name] = _Tensor(base.buffer, meta, base.offset + offset)
            case Library():
                self._call_library(step)
            case Launch():
                self._launch(step)

    # ---- launches

    def _launch(self, step: Launch) -> None:
        binary, entry = self.built.find((step.kernel, step.consts))
        self.seen.used[binary.path] = binary
        addresses = {name: tensor.address for name, tensor in self.names.items()}
        cells = launching.cells(step, self.host.signature(binary, entry), addresses)
        geometry = launching.geometry(step, self.options, checked=self.checked)
        arguments = [self.names[arg.buffer] for arg in step.args if isinstance(arg, BufferArg)]
        used = list({id(tensor.buffer): tensor.buffer for tensor in arguments}.values())
        started = time.perf_counter()
        memory = tuple(buffer.memory() for buffer in used)
        scene = Scene(step, binary, [(buffer.label, buffer.meta) for buffer in used], self.options.case)
        try:
            result = self.host.launch(Work(binary, entry, geometry, tuple(cells), memory))
        except RunnerEnded as ended:
            self._last_words(ended, scene)
            raise
        self.seen.seconds += time.perf_counter() - started
        self._print(result)
        findings = Findings(scene, result)
        self.seen.hazards += findings.hazards()
        self.seen.absent_lanes += findings.absent_lanes()
        self.seen.contested += findings.contested()
        self.seen.trap = self.seen.trap or findings.trap()
        self.seen.stopped = bool(result["stopped"])
        self.seen.converses |= bool(result["converses"])
        self.seen.launches.append(findings.counts())
        self.seen.sites += findings.sites()

    def _last_words(self, ended: RunnerEnded, scene: Scene) -> None:
        """Where the threads of a launch were that had to be stopped, and what it had printed."""
        if ended.result is not None:
            self._print(ended.result)
        ended.printed = self.seen.printed
        if 0 < ended.pc < scene.binary.text_bytes:
            ended.line = lines.source_lines(scene.binary.path, [ended.pc])[ended.pc]

    def _print(self, result: LaunchResult) -> None:
        """Keep what a launch printed, up to what is kept of one."""
        if not result["print_calls"]:
            return
        before = self.seen.printed or Printed(text="", calls=0, case=self.options.case)
        text = (before.text + result["printed"])[:MOST_PRINTED]
        calls = before.calls + result["print_calls"]
        self.seen.printed = before.model_copy(update={"text": text, "calls": calls})

    # ---- library calls

    def _call_library(self, step: Library) -> None:
        args = [self._library_value(value) for value in step.args]
        kwargs = {name: self._library_value(value) for name, value in step.kwargs}
        try:
            results = _operation(step.op)(*args, **kwargs)
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
            if "allocate memory" in str(error):
                raise
            first = str(error).strip().partition("\n")[0][:200]
            said = Diagnostic(line=step.line, message=f"{step.op}: {first or type(error).__name__}")
            raise EmulatorLaunchError((said,)) from None
        made = (results,) if isinstance(results, torch.Tensor) else tuple(results)
        for name, meta, values in zip(step.results, step.metas, made, strict=True):
            if tuple(values.shape) != meta.shape:
                raise ValueError(f"{step.op} gave {tuple(values.shape)}, the plan expects {meta.shape}")
            self._add(name, self._holding(self._label(name), meta, values, read_only=False))

    def _library_value(self, value: LibraryArg) -> object:
        match value:
            case BufferArg(buffer=name):
                return buffers.alone(self.names[name].values)
            case tuple():
                return [self._library_value(item) for item in value]
            case str() if value in buffers.TORCH_DTYPES:
                return buffers.TORCH_DTYPES[value]
            case _:
                return value

    # ---- afterwards

    def _inspect_memory(self) -> None:
        """Look for stray writes that no hook saw: the only way in plain mode."""
        told = {hazard.hazard for hazard in self.seen.hazards}
        for buffer in self.buffers:
            outside = buffer.broken_guard()
            if outside and "out_of_bounds" not in told:
                self._note("out_of_bounds", f"a launch wrote {outside} of {buffer.label}")
        for name, meta in self.plan.arguments:
            now, before = buffers.bits(self.names[name].values), buffers.bits(self._given(name, meta))
            if "input_written" not in told and not torch.equal(now, before):
                where = (now.reshape(meta.shape) != before.reshape(meta.shape)).nonzero()[0].tolist()
                self._note("input_written", f"a launch changed {name}{where}, an input")

    def _note(self, hazard: str, message: str) -> None:
        self.seen.hazards.append(
            Hazard.model_validate(
                {"hazard": hazard, "case": self.options.case, "line": None, "message": message}
            )
        )

    def _unwritten(self) -> Iterable[Unwritten]:
        for number, name in enumerate(self.plan.outputs):
            tensor = self.names[name]
            missing = buffers.unwritten(tensor.buffer, tensor.meta, tensor.offset)
            if len(missing):
                yield Unwritten(output=number, elements=len(missing), first=tuple(missing[0].tolist()))

    def _kept(self) -> tuple[str, ...]:
        names = [
            name for binary in self.seen.used.values() if binary.variables for name in self.host.kept(binary)
        ]
        return tuple(dict.fromkeys(array_name(name.partition(".")[0]) for name in names))

    def _report(self) -> RunReport:
        seen = self.seen
        return RunReport(
            case=self.options.case,
            mode=self.built.mode,
            hazards=tuple(seen.hazards),
            trap=seen.trap,
            stopped=seen.stopped,
            counts=total(self.options.case, seen.launches, seen.sites) if self.checked else None,
            launches=tuple(seen.launches) if self.checked else (),
            absent_lanes=tuple(seen.absent_lanes),
            contested=tuple(seen.contested),
            printed=seen.printed,
            remarks=tuple(remark for binary in seen.used.values() for remark in binary.remarks),
            unwritten=() if seen.stopped else tuple(self._unwritten()),
            converses=seen.converses,
            kept=() if seen.stopped else self._kept(),
            seconds=seen.seconds,
        )


def _private(values: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides."""
    copied = torch.empty_strided(values.shape, values.stride(), dtype=values.dtype)
    return copied.copy_(values)


def _product_first(
    base: torch.Tensor, left: torch.Tensor, right: torch.Tensor, *, beta: float = 1, alpha: float = 1
) -> torch.Tensor:
    """``beta * base + alpha * left @ right``, added at the end, as a GPU's library does.

    Some processors' libraries add the products to ``base`` one by one: 18 roundings instead of one.
    """
    return torch.add(base if beta == 1 else beta * base, left @ right, alpha=alpha)


def _attended(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Attention as its formula says: the CPU's fused kernel gives zeros where scores are NaN, a GPU's NaN.

    What a causal call hides is not seen at all, as on a GPU: torch's formula adds -inf, which leaves NaN NaN.
    """
    if enable_gqa:
        times = query.shape[-3] // key.shape[-3]
        key, value = (one.repeat_interleave(times, -3) for one in (key, value))
    if not causal:
        with sdpa_kernel(SDPBackend.MATH):
            attended: torch.Tensor = torch.ops.aten.scaled_dot_product_attention.default(
                query, key, value, mask, dropout, scale=scale
            )
        return attended
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    hidden = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).triu(1)
    scores = (query.float() @ key.float().mT * factor).masked_fill(hidden, -torch.inf)
    return (scores.softmax(-1) @ value.float()).to(query.dtype)


def _activated(
    bias: torch.Tensor, left: torch.Tensor, right: torch.Tensor, *, use_gelu: bool = False
) -> torch.Tensor:
    """A product with bias and ReLU, or GELU by a tanh, rounded once, as a GPU's library leaves it."""
    sums = left.float() @ right.float() + bias.float()
    made = torch.nn.functional.gelu(sums, approximate="tanh") if use_gelu else sums.relu()
    return made.to(left.dtype)


_FUNCTIONS: dict[str, Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]] = {
    "addmm": _product_first, "baddbmm": _product_first, "_addmm_activation": _activated,
    "scaled_dot_product_attention": _attended,
}  # fmt: skip
_AS_ON_A_GPU = {
    f"aten.{op}{end}": function for op, function in _FUNCTIONS.items() for end in ("", ".default")
}


def _operation(op: str) -> Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]:
    if op in _AS_ON_A_GPU:
        return _AS_ON_A_GPU[op]
    found: object = torch.ops
    for part in op.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{op} cannot be called")
    return in_pairs(base_name(op), found)
