"""A small problem and a team that follows a script, for tests of what runs around a search."""

from __future__ import annotations

import asyncio
import threading

from workbench.agents.base import Team
from workbench.agents.scripted import Script, scripted_team
from workbench.devices.base import OnStage
from workbench.devices.null import NullDevice
from workbench.errors import DeviceError
from workbench.model import (
    Case,
    Evaluation,
    Graph,
    Kernel,
    OutputSpec,
    Problem,
    Ref,
    Sampler,
    TensorSpec,
)

SOURCE = "import torch\n\ndef double(x):\n    return x * 2\n\ninputs = [torch.randn(8, 16)]\n"


def problem() -> Problem:
    """``y = 2 x`` at one shape."""
    return Problem(
        name="double",
        source=SOURCE,
        entry="double",
        kind="function",
        tensors=(
            TensorSpec(
                name="x", role="input", dtype="f32", dims=("s0", "s1"), sampler=Sampler(kind="normal")
            ),
        ),
        signature=("x",),
        symbols=("s0", "s1"),
        outputs=(OutputSpec(dtype="f32", dims=("s0", "s1")),),
        cases=(Case(label="8x16", sizes=(("s0", 8), ("s1", 16))),),
        graph=Graph(nodes=(), outputs=(Ref(ref="mul"),)),
    )


def team(kernels: int = 30) -> Team:
    """Kernels that get faster, with one of each kind of failure among them."""
    words = ("mismatch", "compile_failed", "hazard")
    lines = []
    for index in range(kernels):
        word = words[index // 4 % 3] if index % 4 == 1 else f"passed {90 - 2 * index}"
        lines.append(f"// null: {word}\n// kernel {index}\n__global__ void k{index}(const float* x) {{}}\n")
    return scripted_team(Script(kernels=tuple(lines)))


class HeldDevice(NullDevice):
    """A null device that judges only while ``gate`` is set; so a test can act while kernels are judged."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.judging = threading.Event()

    async def evaluate(self, problem: Problem, kernel: Kernel, on_stage: OnStage) -> Evaluation:
        on_stage("running")
        self.judging.set()
        while not self.gate.is_set():
            await asyncio.sleep(0.005)
        return await super().evaluate(problem, kernel, on_stage)


class BrokenDevice(NullDevice):
    """A device whose machine fails."""

    async def evaluate(self, problem: Problem, kernel: Kernel, on_stage: OnStage) -> Evaluation:
        raise DeviceError("the machine is on fire")
