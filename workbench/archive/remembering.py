"""A team that remembers: its reasoner is told what earlier sessions found, and this session is kept.

Owns the moment of reading (when the session begins) and of writing (after every round, and at a stop).
Never touches a recorded answer: a replay has no such team.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from workbench.agents.base import Reasoner, ReasonRequest, Recorder, Team
from workbench.archive.recall import recall, sentences
from workbench.archive.store import Archive, Conclusion
from workbench.model import Hypothesis, Problem
from workbench.node import Node
from workbench.playbook.rules.experience import NOTHING, Memory
from workbench.playbook.rules.family import Family, family_of
from workbench.search.plan import recalled_line
from workbench.tree import Tree


def remembering(team: Team, archive: Archive) -> Team:
    """The same team with a memory."""
    keeper = _Keeper(archive)

    def connect(recorder: Recorder) -> None:
        team.connect(recorder)
        keeper.begin(recorder)

    return replace(team, reasoner=_Reminded(team.reasoner, keeper), connect=connect)


@dataclass(frozen=True)
class _Reminded:
    """A reasoner whose requests carry what is remembered."""

    inner: Reasoner
    keeper: _Keeper

    async def hypothesize(self, request: ReasonRequest) -> tuple[Hypothesis, ...]:
        memory = self.keeper.memory_for(request)
        told = {"memory": memory, "conclusions": (*request.conclusions, *sentences(memory))}
        return await self.inner.hypothesize(request.model_copy(update=told))


class _Keeper:
    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.memory: Memory = NOTHING
        self._family: Family | None = None
        self._device = ""
        self._kept = 0
        self._recorder: Recorder | None = None

    def memory_for(self, request: ReasonRequest) -> Memory:
        """What is known; it steers what the archive's kernels led to, and nothing else."""
        if self._recorder is None:
            return self.memory
        beside = recalled_line(self._recorder.tree)
        steers = any(parent.branch.id in beside for parent in request.parents)
        return self.memory.model_copy(update={"steers": steers})

    def begin(self, recorder: Recorder) -> None:
        """Read what is known of the problem; from now on write what is found."""
        opened = recorder.tree.opened
        if opened is None:
            return
        self._family = family_of(opened.problem)
        self._device = f"{opened.device}, {opened.target.name}"
        kept = self.archive.read(self._device, self._family.name)
        self.memory = recall(kept, self._family.structure, _sizes(opened.problem))
        self._kept = len(recorder.tree.ended)
        recorder.subscribe(self._note)
        self._recorder = recorder

    def _note(self, tree: Tree) -> None:
        done = len(tree.ended) + (tree.stopped is not None)
        if done > self._kept and self._family is not None and tree.opened is not None:
            self._kept = done
            new = conclusions(tree, tree.opened.problem, self._family)
            if new:
                self.archive.add(self._device, self._family.name, new)


def conclusions(tree: Tree, problem: Problem, family: Family) -> list[Conclusion]:
    """One for each branch that was judged and looked back at."""
    return [
        _conclusion(node, tree.nodes[tree.chain(node.id)[0]], problem, family)
        for node in tree.nodes.values()
        if node.evaluation is not None and node.lesson is not None and node.vector
    ]


def _conclusion(node: Node, origin: Node, problem: Problem, family: Family) -> Conclusion:
    """A repaired seed stays a seed: what it found is over no parent, and no choice's gain."""
    assert node.evaluation is not None and node.lesson is not None  # asked for such nodes only
    card, times = node.branch.hypothesis, node.evaluation.times
    value = dict(node.vector).get(card.technique, "")
    return Conclusion(
        problem=problem.name,
        structure=family.structure,
        sizes=tuple(_sizes(problem).items()),
        vector=node.vector,
        operator=node.operator if origin.branch.parents else origin.operator,
        technique=card.technique if value else "",
        value=value,
        predicted=node.lesson.expected_factor,
        found=node.lesson.actual_factor,
        score=node.score,
        source=times[0].source if times else "",
        day=time.strftime("%Y-%m-%d"),
    )


def _sizes(problem: Problem) -> dict[str, int]:
    return problem.cases[0].size_map if problem.cases else {}
