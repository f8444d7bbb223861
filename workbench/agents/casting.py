"""Who plays which role: a brain's name becomes a team.

``playbook``, ``llm``, ``llm:MODEL``, or roles one by one: ``reasoner=llm:big,synthesizer=playbook``. Roles
that are not named follow: repairs the synthesizer, reflection the reasoner, and those two the playbook.
Owns the grammar and the mixing; ``replay`` needs a session's folder and is cast elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.agents.base import Compiler, Recorder, RepairRequest, Team, repair_role
from workbench.agents.playbook import PlaybookCompiler, playbook_team
from workbench.errors import UsageError, nearest
from workbench.model import Draft, Problem, Target
from workbench.policy import Policy

if TYPE_CHECKING:
    from workbench.agents.llm.settings import Choice

ROLES = ("reasoner", "synthesizer", "compiler", "correctness", "reflection")
BRAINS = ("playbook", "llm")
_FOLLOWS = {"compiler": "synthesizer", "correctness": "synthesizer", "reflection": "reasoner"}


@dataclass(frozen=True)
class Part:
    """A brain for a role; ``model`` is empty for the common one."""

    brain: str
    model: str = ""

    def __str__(self) -> str:
        return f"{self.brain}:{self.model}" if self.model else self.brain


def read_cast(text: str) -> dict[str, Part]:
    """A part for every role. Raises ``UsageError`` for an unknown brain or role."""
    text = text.strip()
    if "=" not in text:
        return dict.fromkeys(ROLES, _part(text))
    named: dict[str, Part] = {}
    for word in text.split(","):
        role, _, brain = (piece.strip() for piece in word.partition("="))
        if role not in ROLES:
            raise UsageError(
                f"unknown role {role!r}; there are {', '.join(ROLES)}, as in "
                f"--brain reasoner=llm,synthesizer=playbook.{nearest(role, ROLES)}"
            )
        named[role] = _part(brain)
    plain = Part("playbook")
    for role in ROLES:
        named.setdefault(role, named.get(_FOLLOWS.get(role, ""), plain))
    return named


def _part(text: str) -> Part:
    brain, _, model = text.partition(":")
    if brain not in BRAINS or (model and brain != "llm"):
        known = ", ".join((*BRAINS, "replay"))
        raise UsageError(
            f"unknown brain {text!r}; there are {known}, or a role each as in "
            f"reasoner=llm,synthesizer=playbook.{nearest(brain, BRAINS)}"
        )
    return Part(brain, model)


def cast_name(parts: Mapping[str, Part]) -> str:
    """The shortest name that means these parts."""
    first = parts["reasoner"]
    if all(part == first for part in parts.values()):
        return str(first)
    told = {role: parts[role] for role in ("reasoner", "synthesizer")}
    for role, leader in _FOLLOWS.items():
        if parts[role] != parts[leader]:
            told[role] = parts[role]
    return ",".join(f"{role}={part}" for role, part in told.items())


def authors_of(parts: Mapping[str, Part]) -> tuple[tuple[str, str], ...]:
    """Whose a branch is, by the role that made it; an idea and its kernel may be two brains'."""
    thinks, writes = str(parts["reasoner"]), str(parts["synthesizer"])
    idea = thinks if thinks == writes else f"{thinks}, written by {writes}"
    return (
        ("reasoner", idea),
        ("compiler", str(parts["compiler"])),
        ("correctness", str(parts["correctness"])),
    )


def cast_team(brain: str, choice: Choice | None = None) -> Team:
    """The team of a brain's name.

    Raises ``UsageError``: an unknown name, or a model's key, address or name that is not set.
    """
    parts = read_cast(brain)
    models = {role: part.model for role, part in parts.items() if part.brain == "llm"}
    if not models:
        return playbook_team()
    return _mixed(parts, models, choice)


def _mixed(parts: Mapping[str, Part], models: Mapping[str, str], choice: Choice | None) -> Team:
    from workbench.agents.llm.calls import Calls
    from workbench.agents.llm.caps import check_caps
    from workbench.agents.llm.estimate import estimate
    from workbench.agents.llm.roles import ModelReasoner, ModelReflector, ModelRepairer, ModelSynthesizer
    from workbench.agents.llm.settings import Choice, read_settings

    settings = read_settings(models, choice or Choice())
    calls = Calls(settings)
    rules = playbook_team()
    writes = "synthesizer" in models
    mends = ModelRepairer(calls)

    def connect(recorder: Recorder) -> None:
        check_caps(settings, recorder.policy)
        calls.connect(recorder)

    def estimated(problem: Problem, target: Target, policy: Policy) -> str:
        check_caps(settings, policy)
        return str(estimate(problem, target, policy, settings))

    named = {r: Part(p.brain, settings.models.get(r, "")) for r, p in parts.items()}
    return Team(
        name=cast_name(named),
        authors=authors_of(named),
        reasoner=ModelReasoner(calls, only_listed=not writes) if "reasoner" in models else rules.reasoner,
        synthesizer=ModelSynthesizer(calls) if writes else rules.synthesizer,
        compiler=Repairs(
            mends if "compiler" in models else PlaybookCompiler(),
            mends if "correctness" in models else PlaybookCompiler(),
        ),
        checker=rules.checker,
        reflector=ModelReflector(calls) if "reflection" in models else None,
        connect=connect,
        estimate=estimated,
        close=calls.close,
    )


@dataclass(frozen=True)
class Repairs:
    """One repairer for what does not compile or launch, one for what is wrong."""

    compiler: Compiler
    correctness: Compiler

    async def repair(self, request: RepairRequest) -> Draft | None:
        """Ask the one in charge."""
        right = repair_role(request.chain[-1].evaluation) == "correctness"
        return await (self.correctness if right else self.compiler).repair(request)
