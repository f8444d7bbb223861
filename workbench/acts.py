"""What a person did, in words, and what would take it back. Pure.

Owns the inverse of every act and the rule by which an event takes an earlier act back: it is equal to
that act's inverse, whoever caused it. Never applies an event; tree.py does.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.events import (
    BranchApproved,
    BranchPruned,
    CardReviewSet,
    CardRewritten,
    CardsReleased,
    Event,
    HintGiven,
    RoundShaped,
    RoundsRequested,
    SearchStopped,
)
from workbench.model import Branch, Hypothesis

ORCHESTRATOR = "orchestrator"
TAKEN_BACK = "taken back"
"""Reason of a prune that undoes an edit."""

Word = (
    BranchApproved
    | BranchPruned
    | CardReviewSet
    | CardRewritten
    | CardsReleased
    | HintGiven
    | RoundShaped
    | RoundsRequested
    | SearchStopped
)
"""Events that are a person's word; an edit is one too, but comes as a branch."""


@dataclass(frozen=True)
class Act:
    """One thing a person did."""

    words: str
    by: str
    inverse: Event | None = None
    """What takes it back; None for what cannot be taken back."""


def edit_act(branch: Branch) -> Act:
    """A kernel written by hand. Taken back it is pruned, so that nothing comes of it."""
    inverse = BranchPruned(branch=branch.id, by=branch.author, reason=TAKEN_BACK)
    return Act(f"wrote {branch.id}: {branch.hypothesis.title}", branch.author, inverse)


def act_of(word: Word, card: Hypothesis | None, shape: RoundShaped | None) -> Act | None:
    """The act that an event is; ``card`` and ``shape`` are what was there before it.

    None where it was the orchestrator's or a resumed session's, not a person's.
    """
    if word.by == ORCHESTRATOR:
        return None
    inverse = _inverse(word, card, shape)
    return Act(_words(word), word.by, inverse)


def _inverse(word: Word, card: Hypothesis | None, shape: RoundShaped | None) -> Event | None:
    match word:
        case BranchApproved() | HintGiven() | BranchPruned():
            update = {"undo": not word.undo}
            return word.model_copy(update=update | ({"reason": ""} if isinstance(word, BranchPruned) else {}))
        case RoundsRequested(rounds=rounds):
            return word.model_copy(update={"undo": True}) if rounds > 0 and not word.undo else None
        case RoundShaped():
            return shape.model_copy(update={"by": word.by}) if shape else RoundShaped(by=word.by)
        case CardReviewSet(on=on):
            return word.model_copy(update={"on": not on})
        case CardRewritten():
            return word.model_copy(update={"hypothesis": card}) if card else None
        case SearchStopped(by=by):
            return RoundsRequested(rounds=0, by=by)
        case CardsReleased():
            return None


def _words(word: Word) -> str:
    match word:
        case BranchApproved(branch=branch, undo=undo):
            return f"{'no longer approves' if undo else 'approved'} {branch}"
        case BranchPruned(branch=branch, undo=undo, reason=reason):
            return f"{'brought back' if undo else 'pruned'} {branch}" + (f": {reason}" if reason else "")
        case HintGiven(text=text, undo=undo):
            return f"{'took back the hint' if undo else 'hinted'}: {text}"
        case RoundsRequested(rounds=rounds, branches=branches, undo=undo):
            if rounds == 0:
                return "lifted the stop"
            asked = "1 more round" if rounds == 1 else f"{rounds} more rounds"
            asked += f" and {branches} more branches" if branches else ""
            return f"took back the request for {asked}" if undo else f"asked for {asked}"
        case RoundShaped(operators=operators, width=width):
            chosen = [*operators, *([f"{width} branches"] if width else [])]
            return f"next round: {', '.join(chosen) or 'as the policy says'}"
        case CardReviewSet(on=on):
            return "reads the cards first" if on else "lets cards run"
        case CardRewritten(branch=branch, hypothesis=card):
            return f"rewrote the card of {branch}: {card.title}"
        case CardsReleased(round=number):
            return f"released the cards of round {number}"
        case SearchStopped():
            return "stopped the search"


def takes_back(event: Event, acts: tuple[Act, ...]) -> int | None:
    """Position of the latest act that this event undoes; None when it is an act of its own."""
    by = getattr(event, "by", "")
    for position in range(len(acts) - 1, -1, -1):
        inverse = acts[position].inverse
        if inverse is not None and inverse.model_copy(update={"by": by}) == event:
            return position
    return None
