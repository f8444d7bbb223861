"""Carries out one plan on a GPU: torch allocates, the kernels run on torch's current stream.

Owns the work of one call. All that the plan decides (geometry, scalars, order of arguments, where each
pointer goes) is laid out when a runner meets a device, so that a call fills in pointers and launches.
Never checks the tensors against the plan: whoever has them does that once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from workbench.gpu.program import Laid, Ways, program_of
from workbench.gpu.swift import swift_launch

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.gpu.kernels import Kernels
    from workbench.plan.steps import Plan


T = TypeVar("T")


class PlanRunner:
    """``runner(tensors)`` is one execution of the plan; safe to call from many threads at once."""

    def __init__(self, plan: Plan, kernels: Kernels, applied: bool = False) -> None:
        """``applied``: for calls from any stream, by a way that is built for it where this machine can."""
        self.plan = plan
        self._ways = Ways(swift=swift_launch(), turns=True) if applied else Ways()
        self._kernels = kernels
        self._names = tuple(name for name, _ in plan.arguments)
        self._laid: dict[tuple[int, bool], Laid] = {}
        self._lock = threading.Lock()

    def __call__(self, tensors: Mapping[str, Tensor], poison: bool = False) -> tuple[Tensor, ...]:
        """The plan's outputs for tensors of the metadata it was made for, all on one device.

        Queued on torch's current stream of that device, never waited for. With ``poison`` new buffers
        begin as NaN, or as large integers. Raises ``GpuError`` for a launch the driver refuses, and what
        torch raises.
        """
        values = [tensors[name] for name in self._names]
        device = values[0].get_device() if values else torch.cuda.current_device()
        laid = self._laid.get((device, poison)) or self.prepare(device, poison)
        return laid.run(values)

    def marked(
        self, mark: Callable[[], None], device: int
    ) -> Callable[[Mapping[str, Tensor]], tuple[Tensor, ...]]:
        """The same for a device, its current one; ``mark`` is called behind every launch and library call."""
        laid = program_of(self.plan, self._kernels, device, self._ways._replace(mark=mark))
        return lambda tensors: laid.run([tensors[name] for name in self._names])

    def prepare(self, device: int, poison: bool = False) -> Laid:
        """Load and lay out everything for a device; returns what one execution calls.

        It takes the tensors in the plan's order of arguments. Never call this while a graph
        is captured: code is loaded here. Raises ``GpuError``.
        """
        with self._lock:
            known = self._laid.get((device, poison))
            if known is None:
                known = program_of(self.plan, self._kernels, device, self._ways._replace(poison=poison))
                if device >= 0 and torch.cuda.device_count() > 1:
                    known = _on_device(known, device)
                self._laid[device, poison] = known
            return known


def _on_device(laid: Laid, device: int) -> Laid:
    """A launch goes to the thread's current device: change it for the call where it is another."""
    return Laid(_moving(laid.run, device), lambda like: _moving(laid.guarded(like), device))


def _moving(call: Callable[[Sequence[Any]], T], device: int) -> Callable[[Sequence[Any]], T]:
    current, here = torch._C._cuda_getDevice, nullcontext()

    def call_there(values: Sequence[Any]) -> T:
        with here if current() == device else torch.cuda.device(device):
            return call(values)

    return call_there
