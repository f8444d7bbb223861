"""A team that follows a script, and faults to put into any team; for tests and dry runs.

Owns no state: every answer follows from the request alone, so that a session that was cut off and
resumed gets the answers it would have got. Never reads a reference and never asks a device.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from workbench.agents.base import (
    Checker,
    Compiler,
    Reasoner,
    ReasonRequest,
    RepairRequest,
    SynthesisRequest,
    Synthesizer,
    Team,
)
from workbench.errors import AgentError
from workbench.model import Draft, Evaluation, Hypothesis, Kernel, Problem, Value


class Script(Value):
    """What a scripted team will answer."""

    kernels: tuple[str, ...]
    """Source of the first, second, ... hypothesis of a session; after the last nothing is proposed."""
    repairs: tuple[str, ...] = ()
    """Source of the first, second, ... repair of any hypothesis; after the last none is found."""
    predicted_factor: float = 1.25


def scripted_team(script: Script) -> Team:
    """Four agents that follow the script."""
    agents = _Scripted(script)
    return Team("scripted", agents, agents, agents, agents)


@dataclass(frozen=True)
class _Scripted:
    script: Script

    async def hypothesize(self, request: ReasonRequest) -> tuple[Hypothesis, ...]:
        """The next lines of the script; every hypothesis has a technique vector that names its line."""
        first = len(request.taken)
        last = min(first + request.count, len(self.script.kernels))
        return tuple(self._card(line, request) for line in range(first, last))

    def _card(self, line: int, request: ReasonRequest) -> Hypothesis:
        return Hypothesis(
            title=f"line {line} of the script",
            bottleneck="none",
            cause=request.hint or "scripted",
            fix=f"{request.operator} as written",
            predicted_factor=self.script.predicted_factor,
            vector=(("line", str(line)),),
        )

    async def synthesize(self, request: SynthesisRequest) -> Draft:
        """The kernel of the hypothesis's line."""
        line = int(dict(request.hypothesis.vector)["line"])
        source = self.script.kernels[line]
        return Draft(kernel=Kernel(source=source), vector=request.hypothesis.vector)

    async def repair(self, request: RepairRequest) -> Draft | None:
        """The next repair, the same for every hypothesis but for a comment that tells them apart."""
        attempts = len(request.chain)
        if attempts > len(self.script.repairs):
            return None
        origin = request.chain[0].branch
        source = f"{self.script.repairs[attempts - 1]}\n// repairs {origin.id}"
        return Draft(kernel=Kernel(source=source), vector=origin.hypothesis.vector)

    def explain(self, problem: Problem, evaluation: Evaluation) -> str:
        """The kind of the outcome."""
        return f"{problem.name}: {evaluation.outcome.kind}"


def _never(_: object) -> bool:
    return False


def _at_once(_: object) -> float:
    return 0.0


@dataclass(frozen=True)
class Faults:
    """What goes wrong in a team; each question is put to the request of the agent."""

    reasoner_fails: Callable[[ReasonRequest], bool] = _never
    synthesizer_fails: Callable[[SynthesisRequest], bool] = _never
    compiler_fails: Callable[[RepairRequest], bool] = _never
    checker_fails: bool = False
    repeats: bool = False
    """The reasoner proposes what is taken, and more than it was asked for."""
    delay_s: Callable[[object], float] = _at_once
    """Seconds before any answer."""


def with_faults(team: Team, faults: Faults) -> Team:
    """The same team with faults put in front of every agent."""
    faulty = _Faulty(team.reasoner, team.synthesizer, team.compiler, team.checker, faults)
    return Team(team.name, faulty, faulty, faulty, faulty)


@dataclass(frozen=True)
class _Faulty:
    reasoner: Reasoner
    synthesizer: Synthesizer
    compiler: Compiler
    checker: Checker
    faults: Faults

    async def hypothesize(self, request: ReasonRequest) -> tuple[Hypothesis, ...]:
        await asyncio.sleep(self.faults.delay_s(request))
        if self.faults.reasoner_fails(request):
            raise AgentError("the reasoner was told to fail")
        cards = await self.reasoner.hypothesize(request)
        if self.faults.repeats:
            old = tuple(card.model_copy(update={"vector": v}) for card in cards[:1] for v in request.taken)
            cards = (*old, *cards, *cards)
        return cards

    async def synthesize(self, request: SynthesisRequest) -> Draft:
        await asyncio.sleep(self.faults.delay_s(request))
        if self.faults.synthesizer_fails(request):
            raise AgentError("the synthesizer was told to fail")
        return await self.synthesizer.synthesize(request)

    async def repair(self, request: RepairRequest) -> Draft | None:
        await asyncio.sleep(self.faults.delay_s(request))
        if self.faults.compiler_fails(request):
            raise AgentError("the compiler was told to fail")
        return await self.compiler.repair(request)

    def explain(self, problem: Problem, evaluation: Evaluation) -> str:
        if self.faults.checker_fails:
            raise AgentError("the checker was told to fail")
        return self.checker.explain(problem, evaluation)
