"""The roles as questions: what each tells a model, and what it makes of the answer.

Owns the values of the prompts and the turning of answers into cards, drafts and lessons.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.agents.base import (
    Attempt,
    ReasonRequest,
    ReflectRequest,
    RepairRequest,
    SynthesisRequest,
)
from workbench.agents.llm import facts
from workbench.agents.llm.answers import Card, Cards, KernelAnswer, ReflectionAnswer, RepairAnswer
from workbench.agents.llm.calls import Calls
from workbench.agents.llm.gating import changed_vector, options, vector_of
from workbench.agents.llm.prompts import Prompt, examples, render
from workbench.agents.llm.question import Question
from workbench.agents.llm.reading import (
    Unreadable,
    clean_source,
    factor_of,
    line_of,
    read_answer,
    word_of,
)
from workbench.agents.llm.settings import Role
from workbench.model import CompileFailed, Draft, Hypothesis, Kernel, LaunchFailed, Outcome, Problem, Vector
from workbench.playbook.techniques.table import TECHNIQUES

HISTORY = 5
"""Attempts a model is told of; more did not help (K-Search, KernelAgent)."""
RELATED = 5


@dataclass(frozen=True)
class ModelReasoner:
    """Hypothesis cards from a model; with ``only_listed`` the playbook writes the kernels, from its table."""

    calls: Calls
    only_listed: bool = False

    async def hypothesize(self, request: ReasonRequest) -> tuple[Hypothesis, ...]:
        """Up to ``count`` cards. Raises ``AgentError``."""
        prompt = await asyncio.to_thread(reasoner_prompt, request, self.only_listed)
        question = Question(
            role="reasoner",
            kind=Cards,
            prompt=prompt,
            round=request.round,
            operator=request.operator,
            parents=tuple(parent.branch.id for parent in request.parents),
        )
        answer = await self.calls.ask(question, lambda text: read_answer(Cards, text))
        return await asyncio.to_thread(_hypotheses, answer, request, self.only_listed)


def reasoner_prompt(request: ReasonRequest, only_listed: bool = False) -> Prompt:
    """What a reasoner is told."""
    values = {
        **_problem_values(request.problem),
        "device": facts.device_facts(request.target),
        "parents": [_parent(parent) for parent in request.parents],
        "techniques": options(request),
        "only_listed": only_listed,
        "history": [facts.attempt_line(attempt) for attempt in request.history[-HISTORY:]],
        "conclusions": request.conclusions[:8],
        "hint": request.hint,
        "operator": request.operator,
        "count": request.count,
    }
    return render("reasoner", values)


def _hypotheses(answer: Cards, request: ReasonRequest, only_listed: bool) -> tuple[Hypothesis, ...]:
    seen: set[Vector] = set(request.taken)
    found: list[Hypothesis] = []
    for card in answer.cards:
        vector = changed_vector(request.problem, request.parents, card.changes, only_listed)
        if vector is None:
            continue
        if not only_listed and vector in seen:
            # The words differ although the techniques are the same: the idea is part of the vector.
            vector = tuple(sorted({**dict(vector), "idea": word_of(card.title) or "another"}.items()))
        if vector not in seen or not vector:
            seen.add(vector)
            found.append(_hypothesis(card, vector))
    return tuple(found[: request.count])


def _hypothesis(card: Card, vector: Vector) -> Hypothesis:
    names = [word_of(change.technique) for change in card.changes]
    return Hypothesis(
        title=line_of(card.title, 120) or "untitled",
        bottleneck=card.bottleneck,
        cause=line_of(card.cause),
        evidence=tuple(line_of(fact, 160) for fact in card.evidence[:6] if fact.strip()),
        fix=line_of(card.fix),
        technique=next((name for name in names if name in TECHNIQUES), ""),
        predicted_factor=factor_of(card.predicted_factor),
        risk=line_of(card.risk),
        vector=vector,
    )


@dataclass(frozen=True)
class ModelSynthesizer:
    """Whole kernels from a model."""

    calls: Calls

    async def synthesize(self, request: SynthesisRequest) -> Draft:
        """Ask for the kernel of a hypothesis. Raises ``AgentError``."""
        question = Question("synthesizer", KernelAnswer, synthesizer_prompt(request), request.branch)

        def read(text: str) -> Draft:
            answer = read_answer(KernelAnswer, text)
            kernel = Kernel(source=clean_source(answer))
            return Draft(kernel=kernel, vector=request.hypothesis.vector, note=line_of(answer.description))

        return await self.calls.ask(question, read)


def synthesizer_prompt(request: SynthesisRequest) -> Prompt:
    """What a synthesizer is told; of a crossover, all parents with what only one of them has."""
    parents = [_parent(parent) for parent in request.parents]
    values = {
        **_problem_values(request.problem),
        "examples": examples(),
        "card": request.hypothesis,
        "vector": _vector_text(request.hypothesis.vector),
        "parents": parents,
    }
    if request.operator == "crossover" and len(request.parents) > 1:
        vectors = [set(vector_of(parent)) for parent in request.parents]
        for parent, own in zip(parents, vectors, strict=True):
            others = set().union(*(other for other in vectors if other is not own))
            parent["own"] = _vector_text(sorted(own - others))
        return render("crossover", values)
    related = [_parent(attempt) for attempt in request.related[:RELATED]]
    return render("synthesizer", {**values, "parents": parents[:1], "related": related})


@dataclass(frozen=True)
class ModelRepairer:
    """Corrected kernels from a model: of what does not compile or launch, and of what is wrong."""

    calls: Calls

    async def repair(self, request: RepairRequest) -> Draft | None:
        """The last kernel corrected; None when the model sees no way. Raises ``AgentError``."""
        last = request.chain[-1]
        if last.draft is None or last.evaluation is None:
            return None
        before = last.draft
        question = Question(
            repair_role(last.evaluation.outcome), RepairAnswer, repair_prompt(request), request.branch
        )

        def read(text: str) -> Draft | None:
            answer = read_answer(RepairAnswer, text)
            if not answer.source.strip():
                return None
            kernel = Kernel(source=clean_source(answer))
            if kernel.source.split() == before.kernel.source.split():
                raise Unreadable("source is the same as before")
            note = line_of(f"{answer.issue} {answer.fix}")
            return Draft(kernel=kernel, vector=before.vector, note=note)

        return await self.calls.ask(question, read)


def repair_role(outcome: Outcome) -> Role:
    """Who mends it: the compiler's role or the correctness role."""
    return "compiler" if isinstance(outcome, CompileFailed | LaunchFailed) else "correctness"


def repair_prompt(request: RepairRequest) -> Prompt:
    """What a repairer is told."""
    last = request.chain[-1]
    assert last.draft is not None and last.evaluation is not None  # a repairer checked
    role = repair_role(last.evaluation.outcome)
    values = {
        **_problem_values(request.problem),
        "examples": examples()[:1],
        "source": last.draft.kernel.source,
        "chain": [_try_line(attempt) for attempt in request.chain[:-1][-5:]],
        "diagnostics": facts.diagnostics_text(last.evaluation.outcome),
        "findings": facts.mismatch_lines(last.evaluation),
    }
    return render(role, values)


def _try_line(attempt: Attempt) -> str:
    note = attempt.draft.note if attempt.draft else ""
    found = facts.outcome_line(attempt.evaluation.outcome) if attempt.evaluation else "not judged"
    return f"{note or 'as written first'}: {found}"


@dataclass(frozen=True)
class ModelReflector:
    """The lesson of a branch in a model's words."""

    calls: Calls

    async def reflect(self, request: ReflectRequest) -> str:
        """One sentence. Raises ``AgentError``."""
        id = request.attempt.branch.id
        question = Question("reflection", ReflectionAnswer, reflection_prompt(request), id)

        def read(text: str) -> str:
            lesson = line_of(read_answer(ReflectionAnswer, text).lesson)
            if not lesson:
                raise Unreadable("lesson is empty")
            return lesson

        return await self.calls.ask(question, read)


def reflection_prompt(request: ReflectRequest) -> Prompt:
    """What is told of an attempt: the hypothesis, the numbers before and after."""
    attempt = request.attempt
    assert attempt.evaluation is not None  # only judged branches are looked back at
    before = [p.evaluation for p in request.parents[:1] if p.evaluation is not None]
    values = {
        **_problem_values(request.problem),
        "card": attempt.branch.hypothesis,
        "expected": request.expected_factor,
        "found": request.actual_factor,
        "outcome": facts.outcome_line(attempt.evaluation.outcome),
        "before": facts.metrics(before[0])[:8] if before else (),
        "after": facts.metrics(attempt.evaluation)[:12],
        "lesson": request.lesson,
    }
    return render("reflection", values)


# ------------------------------------------------------------------------------------ values


def _problem_values(problem: Problem) -> dict[str, object]:
    return {
        "problem": problem,
        "tensors": facts.tensor_lines(problem),
        "cases": facts.case_lines(problem),
    }


def _parent(attempt: Attempt) -> dict[str, object]:
    found = facts.attempt_line(attempt)
    return {
        "id": attempt.branch.id,
        "title": attempt.branch.hypothesis.title,
        "found": found,
        "techniques": _vector_text(vector_of(attempt)),
        "metrics": facts.metrics(attempt.evaluation) if attempt.evaluation else (),
        "source": attempt.draft.kernel.source if attempt.draft else "",
    }


def _vector_text(vector: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in vector) or "none named"
