"""One branch as the tree knows it, and what one event makes of it. Pure.

Owns what is known about a single branch. Never looks at other branches: that is the tree's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import assert_never

from workbench.events import (
    BaselinesFollowed,
    BranchAbandoned,
    BranchApproved,
    BranchPruned,
    CardRewritten,
    CaseTimed,
    KernelJudged,
    KernelProfiled,
    KernelWritten,
    LessonLearnt,
    StageEntered,
)
from workbench.model import Branch, BranchId, CaseTime, Draft, Evaluation, Operator, Stage, Vector

BranchEvent = (
    KernelWritten
    | BranchAbandoned
    | StageEntered
    | CaseTimed
    | KernelJudged
    | KernelProfiled
    | BaselinesFollowed
    | LessonLearnt
    | BranchApproved
    | BranchPruned
    | CardRewritten
)
"""Events that change one existing branch."""


@dataclass(frozen=True)
class Node:
    """One branch and what became of it, as far as known."""

    branch: Branch
    """Id, parents, round, operator, hypothesis and author, as proposed."""
    draft: Draft | None = None
    """The kernel with its technique vector; None until it is written."""
    stage: Stage = "waiting"
    """Where the work on it is; ``done`` once judged or abandoned."""
    first_time: CaseTime | None = None
    """A first time of a kernel that is still being judged; None before, and once the verdict is there."""
    evaluation: Evaluation | None = None
    """The referee's findings; None until judged."""
    explanation: str = ""
    """The correctness agent's reading of the outcome."""
    lesson: LessonLearnt | None = None
    """Predicted against found."""
    abandoned: str = ""
    """Why no kernel came or counted; empty for a branch that is alive."""
    duplicate_of: BranchId | None = None
    """The branch with the same kernel, when that is why it was abandoned."""
    approved: bool = False
    """The person wants it as a parent of the next round; taken back when that round starts."""
    pruned: bool = False
    """Pruned itself; ``Tree.is_pruned`` also looks at what lies above."""
    prune_reason: str = ""

    @property
    def id(self) -> BranchId:
        """The branch's id."""
        return self.branch.id

    @property
    def operator(self) -> Operator:
        """How the branch came to be."""
        return self.branch.operator

    @property
    def vector(self) -> Vector:
        """Technique vector of the kernel, or of the hypothesis while there is no kernel."""
        return self.draft.vector if self.draft is not None else self.branch.hypothesis.vector

    @property
    def passed(self) -> bool:
        """True for a kernel judged correct."""
        return self.evaluation is not None and self.evaluation.passed

    @cached_property
    def score(self) -> float:
        """Geometric-mean speedup over the fastest baseline; 0 unless passed."""
        return self.evaluation.score if self.evaluation is not None else 0.0

    @property
    def settled(self) -> bool:
        """True when nothing more will be found out about it."""
        return self.evaluation is not None or bool(self.abandoned)

    @property
    def verdict(self) -> str:
        """``passed``, ``mismatch``, ... (kind of outcome), ``abandoned``, or empty while unknown."""
        if self.evaluation is not None:
            return self.evaluation.outcome.kind
        return "abandoned" if self.abandoned else ""


def changed(node: Node, event: BranchEvent) -> Node:
    """Node after an event about it."""
    match event:
        case KernelWritten(draft=draft):
            return replace(node, draft=draft, stage="done" if node.settled else "waiting")
        case BranchAbandoned(reason=reason, duplicate_of=twin):
            return replace(node, abandoned=reason or "abandoned", duplicate_of=twin, stage="done")
        case StageEntered(stage=stage):
            return node if node.settled else replace(node, stage=stage)
        case CaseTimed(time=time):
            return node if node.settled else replace(node, first_time=time)
        case KernelJudged(evaluation=evaluation, explanation=explanation):
            return replace(
                node, evaluation=evaluation, explanation=explanation, stage="done", first_time=None
            )
        case KernelProfiled(profile=profile):
            if node.evaluation is None:
                return node  # no journal of ours; a torn one may
            return replace(node, evaluation=node.evaluation.model_copy(update={"profile": profile}))
        case BaselinesFollowed(times=times):
            if node.evaluation is None:
                return node
            return replace(node, evaluation=node.evaluation.model_copy(update={"times": times}))
        case LessonLearnt():
            return replace(node, lesson=event)
        case BranchApproved(undo=undo):
            return replace(node, approved=not undo)
        case BranchPruned(undo=undo, reason=reason):
            return replace(node, pruned=not undo, prune_reason="" if undo else reason)
        case CardRewritten(hypothesis=card):
            if node.draft is not None:
                return node  # the pen was faster
            return replace(node, branch=node.branch.model_copy(update={"hypothesis": card}))
        case _:
            assert_never(event)


@lru_cache(maxsize=4096)
def natural_order(id: BranchId) -> tuple[str | int, ...]:
    """Sort key of an id: ``b2`` before ``b10``, ``b2.1`` after ``b2``."""
    # Split at numbers: text and numbers alternate, so that like is compared with like.
    return tuple(int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d+)", id)))
