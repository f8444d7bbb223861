"""What can be asked of the orchestrator: frozen values, compared by content. Never carried out here."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.model import BranchId, Operator


@dataclass(frozen=True)
class StartRound:
    """Open a round."""

    round: int


@dataclass(frozen=True)
class Propose:
    """Ask the reasoner for up to ``count`` hypotheses; requests are made one after another."""

    round: int
    operator: Operator
    parents: tuple[BranchId, ...]
    count: int


@dataclass(frozen=True)
class Synthesize:
    """Have the kernel of a hypothesis written."""

    branch: BranchId


@dataclass(frozen=True)
class Abandon:
    """Give up a branch whose kernel another branch already has."""

    branch: BranchId
    duplicate_of: BranchId


@dataclass(frozen=True)
class Evaluate:
    """Have a kernel judged."""

    branch: BranchId


@dataclass(frozen=True)
class Reflect:
    """Note what was predicted and what was found."""

    branch: BranchId


@dataclass(frozen=True)
class Repair:
    """Have the last kernel of a chain of failing attempts corrected, as a child of it."""

    chain: tuple[BranchId, ...]


@dataclass(frozen=True)
class EndRound:
    """Close a round: all its branches are settled."""

    round: int


@dataclass(frozen=True)
class AskPerson:
    """Wait for the person's word; ``reason`` is what they should know."""

    reason: str


@dataclass(frozen=True)
class Stop:
    """Plan no more rounds."""

    reason: str


Command = (
    StartRound | Propose | Synthesize | Abandon | Evaluate | Reflect | Repair | EndRound | AskPerson | Stop
)
