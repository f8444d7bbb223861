"""An applied kernel's calls on a GPU: what was decided for tensors of each kind, and what runs them.

Owns the decisions. The first call with tensors of a kind interprets the plan, compiles and loads; every
later one is a look-up. Imports torch and CUDA; made when the first CUDA tensor arrives.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from workbench.devices.cards import OLDEST
from workbench.errors import DeviceError, GpuError, GpuFault, PlanError
from workbench.gpu.guard import Key, Likeness, likeness
from workbench.gpu.kernels import Kernels, images
from workbench.gpu.program import Guarded, Laid
from workbench.gpu.runner import PlanRunner
from workbench.live.kernel_call import NotRun
from workbench.model import Target, TensorMeta
from workbench.plan.interpret import interpret
from workbench.plan.parse import Program
from workbench.referee.librarymeta import library_meta

if TYPE_CHECKING:
    from workbench.gpu.driver import Driver

MOST_KINDS = 1024
"""Kinds of tensors remembered; with more of them all are forgotten, loaded code is kept."""


class GpuCalls:
    """Decisions of one kernel. ``runs`` is read without a lock by every call."""

    def __init__(self, program: Program, source: str, target: Target, driver: Driver | None = None) -> None:
        self.runs: dict[Key, Laid] = {}
        self.refused: dict[Key, str] = {}
        """Why the original runs instead."""
        self.recorded = driver is not None
        """True in tests: CPU tensors are treated as a GPU's."""
        self._program, self._source, self._target, self._driver = program, source, target, driver
        self._kernels: dict[str, Kernels] = {}
        self._guards: dict[Key, tuple[Likeness, Guarded]] = {}
        self._lock = threading.Lock()

    def decide(self, key: Key, values: Sequence[Any], metas: dict[str, TensorMeta]) -> Laid:
        """What runs tensors of this kind from now on.

        Raises ``NotRun`` or ``PlanError`` with the reason why the original does, and remembers it.
        """
        with self._lock:
            if key in self.runs:
                return self.runs[key]
            self._make_room()
            try:
                self.runs[key] = laid = self._prepared(values[0].get_device(), metas)
            except (PlanError, GpuError, DeviceError) as error:
                self.refused[key] = str(error)
                raise
            return laid

    def refuse(self, key: Key, reason: str) -> None:
        """Tensors of this kind go to the original from now on."""
        with self._lock:
            self._make_room()
            self.refused[key] = reason

    def _make_room(self) -> None:
        if len(self.runs) + len(self.refused) >= MOST_KINDS:
            self.runs.clear()
            self.refused.clear()
            self._guards.clear()

    def guarded(self, key: Key, values: Sequence[Any], laid: Laid) -> Guarded | None:
        """What runs tensors like these without making their key; None where torch offers no such check."""
        known = self._guards.get(key)
        if known is not None and known[0].check(*values):
            return known[1]
        if (like := likeness(values)) is None:
            return None
        made = laid.guarded(like)
        self._guards[key] = (like, made)
        return made

    def preload(self, device: int, cases: Iterable[dict[str, TensorMeta]]) -> None:
        """Load for tensors of some metadata, so that a first call may be one that is captured.

        Cases that the plan turns away are passed over. Raises ``GpuError`` or ``DeviceError``.
        """
        with self._lock:
            for metas in cases:
                try:
                    self._prepared(device, metas)
                except (NotRun, PlanError):
                    continue

    def _prepared(self, device: int, metas: dict[str, TensorMeta]) -> Laid:
        plan = interpret(self._program, metas, self._target, library_meta)
        arch = architecture(device)
        kernels = self._kernels.get(arch)
        if capturing(device) and not (kernels and kernels.ready(plan, device)):
            raise NotRun("the kernel for these shapes is not loaded: call it once before capturing a graph")
        if kernels is None:
            kernels = self._kernels[arch] = Kernels((), self._driver)
        if missing := kernels.missing(plan):
            kernels.add(images(self._source, missing, arch))
        return PlanRunner(plan, kernels, applied=True).prepare(device)

    def failed(self, key: Key, error: GpuError) -> None:
        """The driver refused a launch: tensors of this kind go to the original from now on."""
        if not isinstance(error, GpuFault):
            self.refused[key] = str(error)
        self.runs.pop(key, None)
        self._guards.pop(key, None)


def capturing(device: int) -> bool:
    """True while a graph of the current stream is being captured: nothing may be loaded then."""
    return device >= 0 and torch.cuda.is_current_stream_capturing()


def architecture(device: int) -> str:
    """What NVRTC compiles for on a device: ``sm_90a``. Raises ``DeviceError`` for a GPU that is too old."""
    if device < 0:  # tests only
        return "sm_90a"
    major, minor = torch.cuda.get_device_capability(device)
    if (major, minor) < OLDEST:
        name = torch.cuda.get_device_name(device)
        raise DeviceError(f"{name} has compute capability {major}.{minor}; kernels need 8.0 or newer")
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"
