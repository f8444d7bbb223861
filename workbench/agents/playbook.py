"""The offline team: hypotheses from rules, kernels from code generation, repairs that follow a table.

Owns the roles; the knowledge is in ``workbench.playbook``. Deterministic: the same request gives the
same answer.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence

from workbench.agents.base import (
    Attempt,
    ReasonRequest,
    RepairRequest,
    SynthesisRequest,
    Team,
)
from workbench.errors import AgentError, UsageError
from workbench.model import (
    CompileFailed,
    Crashed,
    Draft,
    Evaluation,
    Hazard,
    Hypothesis,
    LaunchFailed,
    Mismatch,
    Outcome,
    Passed,
    Problem,
    Suspect,
    TimedOut,
    Vector,
)
from workbench.playbook.generate import generate
from workbench.playbook.rules.by_shape import Found, from_found
from workbench.playbook.rules.experience import reordered, with_recalled
from workbench.playbook.rules.moves import Scope, cross, moves, seed_vectors
from workbench.playbook.techniques.table import TECHNIQUES, settled

_SCOPES: tuple[Scope, Scope] = ("refine", "rewrite")


def playbook_team() -> Team:
    """All four roles filled by rules."""
    return Team(
        name="playbook",
        reasoner=PlaybookReasoner(),
        synthesizer=PlaybookSynthesizer(),
        compiler=PlaybookCompiler(),
        checker=PlaybookChecker(),
    )


class PlaybookReasoner:
    """Ranks techniques by predicted gain for the bottleneck that was found."""

    async def hypothesize(self, request: ReasonRequest) -> tuple[Hypothesis, ...]:
        """Up to ``count`` cards whose vectors nobody has tried; of seeds, what is recalled comes on top."""
        return await asyncio.to_thread(self._answer, request)

    def _answer(self, request: ReasonRequest) -> tuple[Hypothesis, ...]:
        untried = _untried(self._ranked(request), request)
        cards = tuple(_preferred(untried, request.hint)[: request.count])
        if request.operator != "seed":
            return cards
        recalled = with_recalled(request.problem, cards, request.memory, request.target)
        return tuple(card for card in recalled if card.vector not in request.taken)

    def _ranked(self, request: ReasonRequest) -> Sequence[Hypothesis]:
        problem, target = request.problem, request.target
        parents = [(_vector(problem, parent), parent.evaluation) for parent in request.parents]
        if request.operator == "seed" or not parents:
            return seed_vectors(problem, target, request.count + len(request.taken))
        if request.operator == "crossover" and len(parents) > 1:
            found = [Found(p.branch.id, v, e) for p, (v, e) in zip(request.parents, parents, strict=True)]
            joint = from_found(problem, found, target)
            crossed = cross(problem, parents[0][0], parents[1][0], target)
            return crossed if joint is None else (joint, *crossed)
        vector, evaluation = parents[0]
        refined, rewritten = (
            reordered(moves(problem, vector, evaluation, target, scope), request.memory, request.found)
            for scope in _SCOPES
        )
        order = (rewritten, refined) if request.operator == "rewrite" else (refined, rewritten)
        return [card for cards in order for card in _without_failed(cards, request.history)]


def _vector(problem: Problem, attempt: Attempt) -> Vector:
    """The parent's vector; a person's edit may carry none that the playbook knows."""
    vector = attempt.draft.vector if attempt.draft else attempt.branch.hypothesis.vector
    try:
        return settled(problem, vector)
    except UsageError:
        return settled(problem, ())


def _untried(cards: Iterable[Hypothesis], request: ReasonRequest) -> list[Hypothesis]:
    taken = set(request.taken)
    found: dict[Vector, Hypothesis] = {}
    for card in cards:
        if card.vector not in taken:
            found.setdefault(card.vector, card)
    return list(found.values())


def _without_failed(cards: Sequence[Hypothesis], history: tuple[Attempt, ...]) -> list[Hypothesis]:
    """Cards in order, but what failed as a technique elsewhere goes last."""
    failed = {_choice(a.branch.hypothesis) for a in history if a.evaluation and not a.evaluation.passed}

    return sorted(cards, key=lambda card: _choice(card) in failed)


def _choice(card: Hypothesis) -> tuple[str, str]:
    """The technique a card is about, and the value it chose."""
    return card.technique, dict(card.vector).get(card.technique, "")


def _preferred(cards: list[Hypothesis], hint: str) -> list[Hypothesis]:
    """Cards whose technique or value the person named come first."""
    words = set(re.findall(r"[a-z0-9_]+", hint.lower()))
    if not words:
        return cards

    def match(card: Hypothesis) -> int:
        technique = TECHNIQUES.get(card.technique)
        named = {card.technique, *card.technique.split("_"), dict(card.vector).get(card.technique, "")}
        named |= set(technique.title.lower().split()) if technique else set()
        return -len(words & (named - {"", "on", "off", "a", "the", "of", "in", "and"}))

    return sorted(cards, key=match)


class PlaybookSynthesizer:
    """Writes the kernel of a technique vector."""

    async def synthesize(self, request: SynthesisRequest) -> Draft:
        """Generate the file. Raises ``AgentError`` for a vector the playbook does not know."""
        try:
            return await asyncio.to_thread(generate, request.problem, request.hypothesis.vector)
        except UsageError as error:
            raise AgentError(str(error)) from error


class PlaybookCompiler:
    """Deterministic fixes of what did not compile, launch or pass."""

    async def repair(self, request: RepairRequest) -> Draft | None:
        """The last kernel with one choice taken back; None when no choice can be the cause."""
        last = request.chain[-1]
        if last.evaluation is None or last.evaluation.passed:
            return None
        tried = {attempt.draft.vector for attempt in request.chain if attempt.draft is not None}
        for name, value in _retreats(last.evaluation.outcome):
            vector = _retreat(request.problem, last, name, value)
            if vector is not None and vector not in tried:
                draft = await asyncio.to_thread(generate, request.problem, vector)
                return draft.model_copy(update={"note": f"repaired: {name} set back to {value}"})
        return None


def _retreats(outcome: Outcome) -> tuple[tuple[str, str], ...]:
    """Choices to take back, most likely cause first."""
    match outcome:
        case CompileFailed() | TimedOut():
            return (("row_cache", "reread"), ("loads_in_flight", "1"), ("vector_width", "1"))
        case LaunchFailed():
            return (("row_cache", "reread"), ("block_size", "256"), ("vector_width", "1"))
        case Mismatch():
            return (("fast_math", "off"), ("linear_rowsum", "off"), ("single_pass", "off"))
        case Hazard() | Crashed():
            return (("vector_width", "1"), ("row_cache", "reread"), ("grid_split", "off"))
        case _:
            return ()


def _retreat(problem: Problem, attempt: Attempt, name: str, value: str) -> Vector | None:
    """The attempt's vector with one technique set back; None when it already is."""
    vector = dict(_vector(problem, attempt))
    if name not in vector or vector[name] == value:
        return None
    return settled(problem, tuple(sorted({**vector, name: value}.items())))


class PlaybookChecker:
    """Says what an outcome means and where to look."""

    def explain(self, problem: Problem, evaluation: Evaluation) -> str:
        """One or two sentences."""
        outcome = evaluation.outcome
        match outcome:
            case Passed():
                return _passed(evaluation, outcome)
            case CompileFailed(stage=stage, diagnostics=diagnostics):
                first = diagnostics[0] if diagnostics else None
                where = f" Line {first.line}: {first.message}" if first else ""
                return f"{_STAGES[stage]}.{where}"
            case LaunchFailed(case=case, diagnostics=diagnostics):
                why = f" {diagnostics[0].message}." if diagnostics else ""
                return f"A GPU would refuse this launch at {case}.{why}"
            case Mismatch(message=message):
                return f"{message} {_pattern(evaluation)}".strip()
            case Hazard(line=line, message=message):
                where = f"Line {line}: " if line else ""
                # The emulator's words begin with their line.
                said = message.removeprefix(where.lower()).rstrip(".")
                return f"{where}{said}. Right numbers would be luck."
            case Crashed(message=message):
                return f"The kernel ended its process: {message}"
            case TimedOut(limit_s=limit):
                return f"No end after {limit:.0f} s: look for a loop whose condition never becomes false."
            case Suspect(message=message):
                return f"Nothing is claimed: {message}"


_STAGES = {
    "plan": "The plan cannot be interpreted",
    "nvrtc": "The CUDA compiler refuses it",
    "emulator": "The emulator's compiler refuses it, although the CUDA compiler may not",
}


def _passed(evaluation: Evaluation, outcome: Passed) -> str:
    ratio = evaluation.worst_ratio
    error = f" The largest error is {ratio:.0%} of what is allowed." if ratio is not None else ""
    missing = f" Not covered: {', '.join(outcome.not_covered)}." if outcome.not_covered else ""
    return f"Right on every check.{error}{missing}"


def _pattern(evaluation: Evaluation) -> str:
    for check in reversed(evaluation.checks):
        for difference in check.differences:
            if difference.max_ratio > 1 and difference.pattern:
                return f"Wrong are {difference.pattern}{_ADVICE.get(difference.pattern, '')}."
    return ""


_ADVICE = {
    "NaN": ": look for memory that was never written",
}
