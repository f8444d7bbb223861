"""What single choices brought in this search steers its later rounds."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

from toy import ToyDevice, opened

from workbench.agents.base import ReasonRequest, Team
from workbench.agents.scripted import Script, scripted_team
from workbench.model import Hypothesis
from workbench.orchestrator import run
from workbench.session import Session

KERNELS = Script(kernels=tuple(f"// us {60 - 4 * i}" for i in range(9)))


class Choosing:
    """A reasoner whose later cards are all about the width of vectors; notes what it was told."""

    def __init__(self, team: Team) -> None:
        self._inner = team.reasoner
        self.asked: list[ReasonRequest] = []

    async def hypothesize(self, request: ReasonRequest) -> tuple[Hypothesis, ...]:
        self.asked.append(request)
        cards = await self._inner.hypothesize(request)
        if request.operator == "seed":
            return cards
        choice = {"technique": "vector_width", "predicted_factor": 2.0}
        vectors = [(*card.vector, ("vector_width", "4")) for card in cards]
        return tuple(
            card.model_copy(update={**choice, "vector": vector})
            for card, vector in zip(cards, vectors, strict=True)
        )


def test_later_rounds_are_told_what_changes_of_a_parent_brought(tmp_path: Path) -> None:
    team = scripted_team(KERNELS)
    reasoner = Choosing(team)
    choosing = Team(team.name, reasoner, team.synthesizer, team.compiler, team.checker)
    with Session.create(tmp_path, opened(rounds=3, seeds=2)) as session:
        asyncio.run(run(session, choosing, ToyDevice()))
        tree = session.tree
    by_round = {request.round: request.found for request in reasoner.asked}
    assert by_round[1] == by_round[2] == ()  # of seeds there is no parent to compare with
    (one,) = by_round[3]
    assert (one.technique, one.value, one.predicted) == ("vector_width", "4", 2.0)
    changes = [n for n in tree.nodes.values() if n.branch.round == 2 and n.operator in ("refine", "rewrite")]
    factors = [n.lesson.actual_factor for n in changes if n.lesson is not None]
    assert one.times == len(factors) > 0
    logs = [math.log(factor) for factor in factors if factor is not None]
    assert math.isclose(one.found, math.exp(sum(logs) / len(logs)))
