"""A search over softmax with verdicts as in the views' story, judged in a moment or when let go."""

from __future__ import annotations

import asyncio
from pathlib import Path

import story

from workbench.agents.base import ReasonRequest, RepairRequest, SynthesisRequest, Team
from workbench.devices.base import OnStage
from workbench.live import LiveSession, optimize
from workbench.model import (
    H100,
    CompileFailed,
    Draft,
    Evaluation,
    Hazard,
    Hypothesis,
    Kernel,
    Mismatch,
    Outcome,
    Passed,
    Problem,
)
from workbench.policy import Policy

TITLES = (
    "One block a row, three passes", "One warp a row", "Read four floats at a time",
    "Keep the row in registers", "One pass with a running maximum", "Two rows a block",
    "Persistent grid", "Streaming loads that bypass L1",
)  # fmt: skip
WRONG = Mismatch(case="7x129", message="element [3, 127] is NaN where 0.00781 is right")
OUTSIDE = Hazard(
    hazard="out_of_bounds", case="1x1", line=25, message="thread 255 of block 0 reads past the end of x"
)
UNDEFINED = CompileFailed(stage="nvrtc", diagnostics=(story.UNKNOWN_NAME,))
PAUSE_S = 0.2


class SlowTeam:
    """Proposes the titles in turn; a kernel's block size tells which one it was."""

    async def hypothesize(self, request: ReasonRequest) -> tuple[Hypothesis, ...]:
        await asyncio.sleep(PAUSE_S)
        first = len(request.taken)
        return tuple(self._card(first + i) for i in range(request.count))

    def _card(self, index: int) -> Hypothesis:
        title = TITLES[index % len(TITLES)]
        vector = (*story.FLOAT4, ("variant", str(index)))
        return story.card(title, "vector_width", vector, 1.2)

    async def synthesize(self, request: SynthesisRequest) -> Draft:
        await asyncio.sleep(PAUSE_S)
        index = int(dict(request.hypothesis.vector)["variant"])
        return Draft(kernel=story.kernel(32 * (index + 1), 4), vector=request.hypothesis.vector)

    async def repair(self, request: RepairRequest) -> Draft | None:
        await asyncio.sleep(PAUSE_S)
        if len(request.chain) > 1:
            return None
        source = request.chain[0].draft.kernel.source if request.chain[0].draft else ""
        return Draft(
            kernel=Kernel(source=f"{source}// repaired\n"), vector=request.chain[0].branch.hypothesis.vector
        )

    def explain(self, problem: Problem, evaluation: Evaluation) -> str:
        return "The tail of each row is left out." if evaluation.outcome.kind == "mismatch" else ""


class SlowDevice:
    """Judges by a word in the kernel, or by its block size; nothing while the file ``hold`` lies there."""

    name = "emulator"
    target = H100
    parallel = 2

    def __init__(self, hold: Path) -> None:
        self._hold = hold

    async def evaluate(self, problem: Problem, kernel: Kernel, on_stage: OnStage) -> Evaluation:
        for stage in ("compiling", "running"):
            on_stage(stage)  # type: ignore[arg-type]
            await asyncio.sleep(PAUSE_S)
        while self._hold.exists():
            await asyncio.sleep(PAUSE_S)
        outcome, factor = self._verdict(kernel.source)
        return story.evaluation(kernel, outcome, factor, 37.5 if outcome is WRONG else 0.21)

    def _verdict(self, source: str) -> tuple[Outcome, float]:
        if "block_sun" in source:
            return UNDEFINED, 1.0
        index = int(source.partition("softmax_rows<")[2].partition(">")[0]) // 32
        if index % 5 == 0 and "repaired" not in source:
            return WRONG, 1.0
        if index % 7 == 0:
            return OUTSIDE, 1.0
        return Passed(), 0.9 + 0.12 * index

    async def close(self) -> None:
        """Nothing to end."""


def start(folder: str, hold: str) -> LiveSession:
    """A manual session of one round, waiting for the person after it; ``hold`` names a file that holds it."""
    agents = SlowTeam()
    team = Team("scripted", agents, agents, agents, agents)
    policy = Policy(review="manual", seeds=4, branches=40)
    return optimize(story.problem(), policy, SlowDevice(Path(hold)), team, Path(folder))
