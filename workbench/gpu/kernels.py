"""Compiled kernels of one candidate, loaded into each device they are launched on.

Owns handles and what the driver reports of them; turns its refusals into messages with the plan's line.
Launches nothing. Imports CUDA when something is loaded.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from workbench.compile import load_cubin
from workbench.errors import GpuError, PlanError
from workbench.gpu import driver as cuda
from workbench.gpu.turn import Turn
from workbench.gpu.variables import Section, Watched, sections_of
from workbench.model import CompileFailed
from workbench.plan.steps import Launch, Plan

if TYPE_CHECKING:
    from workbench.gpu.driver import Driver, Function

Consts = tuple[tuple[str, str], ...]
Instance = tuple[str, Consts]


@dataclass(frozen=True)
class Image:
    """Machine code of every kernel wanted under one set of consts."""

    consts: Consts
    cubin: bytes
    names: tuple[tuple[str, str], ...]
    """Name expression and mangled name."""


def images(source: str, instances: Iterable[Instance], arch: str) -> tuple[Image, ...]:
    """Machine code for some instances; compiled now, or remembered.

    Raises ``PlanError`` with the compiler's diagnostics, ``DeviceError`` for a broken toolchain.
    """
    wanted: dict[Consts, dict[str, None]] = {}
    for kernel, consts in instances:
        wanted.setdefault(consts, {})[kernel] = None
    found = []
    for consts, kernels in wanted.items():
        answer = load_cubin(source, consts, kernels, arch)
        if isinstance(answer, CompileFailed):
            raise PlanError(answer.diagnostics)
        cubin, mangled = answer
        found.append(Image(consts, cubin, tuple((name, mangled[name]) for name in kernels)))
    return tuple(found)


def load(source: str, plans: Iterable[Plan], arch: str = "sm_90a", driver: Driver | None = None) -> Kernels:
    """Compile (or remember) and load all that ``plans`` launch; ready for any device of this process.

    ``arch`` is the architecture NVRTC compiles for. Raises ``PlanError`` with the compiler's diagnostics,
    ``GpuError`` when the driver refuses the code, ``DeviceError`` without a driver or a toolchain.
    """
    instances = dict.fromkeys(instance for plan in plans for instance in plan.instances)
    return Kernels(images(source, instances, arch), driver)


class Kernels:
    """Handles of loaded kernels. Safe to use from many threads."""

    def __init__(self, images: Iterable[Image], driver: Driver | None = None) -> None:
        self.driver = driver or cuda.driver()
        self._handles: dict[Instance, Any] = {}
        self._variables: list[tuple[Section, Any]] = []
        self._keeping: set[Consts] = set()
        """Consts under which the code has variables of its own."""
        self._turns: dict[int, Turn] = {}
        self.add(images)
        self._functions: dict[tuple[Instance, int], tuple[int, Function]] = {}
        self._lock = threading.Lock()

    def add(self, images: Iterable[Image]) -> None:
        """Take in more machine code. Raises ``GpuError``."""
        for image in images:
            handles = self.driver.kernels_of(image.cubin, image.names)
            for name, handle in handles.items():
                self._handles.setdefault((name, image.consts), handle)
            for section in sections_of(image.cubin):
                self._variables.append((section, next(iter(handles.values()))))
                self._keeping.add(image.consts)

    def watched(self, device: int) -> Watched:
        """Every ``__device__`` variable as it is now. Raises ``GpuError``."""
        return Watched(
            (section, partial(self.driver.section, handle, device)) for section, handle in self._variables
        )

    def turn(self, plan: Plan, device: int) -> Turn | None:
        """Who may launch this plan next; None where its kernels keep nothing between launches."""
        if not any(consts in self._keeping for _, consts in plan.instances):
            return None
        with self._lock:
            return self._turns.setdefault(device, Turn(self.driver, device))

    def missing(self, plan: Plan) -> tuple[Instance, ...]:
        """What a plan launches and is not here yet."""
        return tuple(instance for instance in plan.instances if instance not in self._handles)

    def ready(self, plan: Plan, device: int) -> bool:
        """True when nothing has to be loaded before the plan runs on a device."""
        with self._lock:
            return all(
                self._functions.get(((step.kernel, step.consts), device), (-1, None))[0] >= step.shared_bytes
                for step in plan.launches
            )

    def function(self, step: Launch, device: int) -> Function:
        """The kernel of a launch on a device, allowed the shared memory that the launch asks for.

        Raises ``GpuError`` for a launch that the device cannot make.
        """
        key = ((step.kernel, step.consts), device)
        with self._lock:
            allowed, function = self._functions.get(key, (-1, None))
            if function is None or step.shared_bytes > allowed:
                function = self._loaded(step, device)
                self._functions[key] = (step.shared_bytes, function)
        self._check(step, function, device)
        return function

    def _loaded(self, step: Launch, device: int) -> Function:
        handle = self._handles.get((step.kernel, step.consts))
        if handle is None:
            raise GpuError(f"{step.kernel} was not loaded with these consts", step.line)
        try:
            return self.driver.function(handle, device, step.shared_bytes, prod(step.cluster))
        except GpuError as error:
            raise type(error)(f"{step.kernel}: {error}", step.line) from error

    def _check(self, step: Launch, function: Function, device: int) -> None:
        threads = prod(step.block)
        if threads > function.most_threads:
            raise GpuError(
                f"{step.kernel} needs {function.registers} registers a thread: a block may have "
                f"{function.most_threads} threads, not {threads}. Use smaller blocks or __launch_bounds__",
                step.line,
            )
        shared = function.static_shared_bytes + step.shared_bytes
        if shared > 48 * 1024 and shared > (most := self.driver.most_shared_bytes(device)):
            raise GpuError(
                f"{step.kernel} asks for {shared:,} bytes of shared memory, "
                f"{function.static_shared_bytes:,} of them static; a block of this GPU has {most:,}",
                step.line,
            )
        if step.cooperative:
            most = self.driver.most_together(function, device, threads, step.shared_bytes)
            if prod(step.grid) > most:
                raise GpuError(
                    f"{step.kernel} is launched with {prod(step.grid)} blocks, cooperative=True; with its "
                    f"{function.registers} registers a thread {most} are on this GPU at the same time",
                    step.line,
                )
