"""The branching search as a pure fold of events.

Owns what is known about every branch and where the search stands. Never decides what to do next
(search.py), never reads a clock, a file or a random number.

Trees are equal whatever the order in which parallel work returned: nodes are kept in the order of
their ids, and nothing remembers which of two independent events came first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from workbench.acts import Act, Word, act_of, edit_act, takes_back
from workbench.errors import SessionError
from workbench.events import (
    AgentAnswered,
    AgentFailed,
    AgentSpoke,
    BranchApproved,
    BranchProposed,
    BranchPruned,
    CardReviewSet,
    CardRewritten,
    CardsReleased,
    Event,
    HintGiven,
    KernelWritten,
    ModelAnswered,
    RoundEnded,
    RoundShaped,
    RoundsRequested,
    RoundStarted,
    SearchStopped,
    SessionOpened,
)
from workbench.exchange import Exchange, Source
from workbench.model import Branch, BranchId, Hypothesis
from workbench.node import Node as Node
from workbench.node import changed, natural_order

Gate = Literal["closed", "working", "reviewing", "asking", "stopped"]


@dataclass(frozen=True)
class Hint:
    """The person's words and the round they are for."""

    text: str
    by: str
    round: int


@dataclass(frozen=True)
class Spent:
    """What language models have cost; answers that were known already cost nothing."""

    calls: int = 0
    failed_tries: int = 0
    """What went wrong on the way to an answer, a cut-off one included: such tries may cost tokens too."""
    tokens_in: int = 0
    tokens_out: int = 0
    money_usd: float = 0.0
    """Of the calls whose price is known."""
    unpriced: int = 0
    """Calls whose price is unknown."""
    seconds: float = 0.0
    """Of all calls, which may have run side by side."""

    @property
    def tokens(self) -> int:
        """In and out together."""
        return self.tokens_in + self.tokens_out

    @classmethod
    def of(cls, exchanges: Iterable[Exchange]) -> Spent:
        """The sum over exchanges, whatever their order."""
        paid = [exchange for exchange in exchanges if not exchange.cached]
        return cls(
            calls=len(paid),
            failed_tries=sum(len(exchange.tries) for exchange in paid),
            tokens_in=sum(exchange.tokens_in for exchange in paid),
            tokens_out=sum(exchange.tokens_out for exchange in paid),
            # fsum: the same whatever the order of the answers.
            money_usd=math.fsum(exchange.cost_usd or 0.0 for exchange in paid),
            unpriced=sum(exchange.cost_usd is None for exchange in paid),
            seconds=math.fsum(exchange.seconds for exchange in paid),
        )


@dataclass(frozen=True)
class Tree:
    """All that the journal says, folded; every attribute is read by views and by search."""

    opened: SessionOpened | None = None
    """Problem, policy, target, device and brain; None before the first event."""
    nodes: Mapping[BranchId, Node] = field(default_factory=dict)
    """By id, in the order of ids: ``b1``, ``b1.1`` (repair of b1), ``b2``, ..., ``e1`` (an edit)."""
    round: int = 0
    """Number of the latest round, from 1; 0 before the first."""
    round_open: bool = False
    """True from RoundStarted to RoundEnded."""
    answered: tuple[AgentAnswered, ...] = ()
    """What the reasoner has answered in the latest round, in the order of asking."""
    ended: tuple[RoundEnded, ...] = ()
    """Best branch and score after each finished round."""
    base: Tree | None = field(default=None, repr=False)
    """The tree as it was when the latest round started; its plan is made from this and nothing later."""
    hints: tuple[Hint, ...] = ()
    """All hints, oldest first; ``hint_for(round)`` joins those of one round."""
    rounds_allowed: int = 0
    """The gate is open up to and including this round."""
    requested_until: int = 0
    """Up to this round the person asked explicitly; the search does not stop of itself before."""
    more_branches: int = 0
    """How many branches beyond the policy's the person has allowed."""
    stopped: SearchStopped | None = None
    """Why and by whom the search was stopped; None while it runs or waits."""
    shape: RoundShaped | None = None
    """How the person wants the next round filled; forgotten when that round starts."""
    reviewing: bool = False
    """Cards wait for the person before their kernels are written."""
    released: int = 0
    """Up to this round the person has released the cards."""
    acts: tuple[Act, ...] = ()
    """What persons did and can still take back, oldest first."""
    deeds: tuple[Act, ...] = field(default=(), compare=False)
    """Everything persons did, taking back included, oldest first."""
    failures: tuple[AgentFailed, ...] = ()
    """Failures of agents and the machine, sorted by role and message."""
    exchanges: Mapping[str, Exchange] = field(default_factory=dict)
    """Every exchange with a language model, by id; its texts are read when asked for."""
    speaking: Mapping[BranchId | None, AgentSpoke] = field(default_factory=dict)
    """What models are saying now, by branch; None for the reasoner."""

    # -------------------------------------------------------------------------------- the fold

    def apply(self, event: Event) -> Tree:
        """Tree after one more event. Raises ``SessionError`` for an event that does not fit this tree."""
        return self._apply(event)._remember(event, self)

    def _apply(self, event: Event) -> Tree:
        match event:
            case SessionOpened():
                return self._open(event)
            case RoundStarted(round=number):
                return self._start_round(number)
            case BranchProposed(branch=branch):
                return self._grow(branch)
            case AgentAnswered():
                return replace(self._silent(None), answered=(*self.answered, event))
            case RoundEnded():
                return replace(self, ended=(*self.ended, event), round_open=False)
            case HintGiven(undo=True):
                return self._without_hint(event.text)
            case HintGiven(text=text, by=by):
                return replace(self, hints=(*self.hints, Hint(text, by, self.round + 1)))
            case RoundsRequested(rounds=rounds, branches=branches, undo=undo):
                more = replace(self, more_branches=self.more_branches + (-branches if undo else branches))
                return more._withdraw(rounds) if undo else more._grant(rounds)
            case RoundShaped(operators=operators, width=width):
                return replace(self, shape=event if operators or width else None)
            case CardReviewSet(on=on):
                return replace(self, reviewing=on)
            case CardsReleased(round=number):
                return replace(self, released=max(self.released, number))
            case SearchStopped():
                return replace(self, stopped=event, speaking={})
            case AgentFailed():
                failures = sorted((*self.failures, event), key=lambda f: (f.role, f.message))
                return replace(self, failures=tuple(failures))
            case AgentSpoke(branch=branch):
                self._check(branch, event.kind)
                return replace(self, speaking={**self.speaking, branch: event})
            case ModelAnswered(branch=branch):
                self._check(branch, event.kind)
                exchanges = {**self.exchanges, event.id: Exchange.of(event)}
                return replace(self._silent(branch), exchanges=exchanges)
            case _:
                node = changed(self.node(event.branch, event.kind), event)
                return self._silent(event.branch)._with(node)

    def shelved(self, places: Mapping[str, int], source: Source) -> Tree:
        """The same tree, which reads the texts of these exchanges from ``source`` and holds them no more."""
        if not places:
            return self
        moved = {id: replace(self.exchanges[id], source=source, at=at) for id, at in places.items()}
        return replace(self, exchanges={**self.exchanges, **moved})

    def _open(self, event: SessionOpened) -> Tree:
        if self.opened is not None:
            raise SessionError("session_opened comes twice; a journal holds one session")
        review = event.policy.cards == "review"
        return replace(self, opened=event, rounds_allowed=event.policy.granted, reviewing=review)

    def _remember(self, event: Event, before: Tree) -> Tree:
        """This tree, with the person's act noted or taken back, and without acts that are past undoing."""
        match event:
            case BranchProposed(branch=branch) if branch.operator == "edit" and branch.id not in before.nodes:
                act: Act | None = edit_act(branch)
            case (
                BranchApproved() | BranchPruned() | CardReviewSet() | CardRewritten() | CardsReleased()
                | HintGiven() | RoundShaped() | RoundsRequested() | SearchStopped()
            ):  # fmt: skip
                act = act_of(event, before._card_of(event), before.shape)
            case RoundStarted() | KernelWritten():
                return replace(self, acts=tuple(act for act in self.acts if self._is_open(act)))
            case _:
                return self
        if act is None:
            return self
        deeds = (*self.deeds, act)
        position = takes_back(event, self.acts)
        if position is not None:
            acts = (*self.acts[:position], *self.acts[position + 1 :])
        else:
            acts = (*self.acts, act) if act.inverse is not None else self.acts
        return replace(self, acts=acts, deeds=deeds)

    def _card_of(self, event: Word) -> Hypothesis | None:
        return self.nodes[event.branch].branch.hypothesis if isinstance(event, CardRewritten) else None

    def _is_open(self, act: Act) -> bool:
        """False for what has had its effect: it was for a round that began, or its kernel is written."""
        match act.inverse:
            case BranchApproved(branch=branch):
                return self.nodes[branch].approved
            case HintGiven(text=text):
                return any(hint.text == text and hint.round > self.round for hint in self.hints)
            case RoundShaped():
                return self.shape is not None
            case RoundsRequested(rounds=rounds) if rounds > 0:
                return self.round < self.rounds_allowed
            case CardRewritten(branch=branch):
                return self.nodes[branch].draft is None
            case _:
                return True

    def _start_round(self, number: int) -> Tree:
        # An approval is for one round: the base keeps it for the plan, the new round starts without.
        nodes = {id: replace(n, approved=False) if n.approved else n for id, n in self.nodes.items()}
        base = replace(self, base=None)
        return replace(self, nodes=nodes, round=number, round_open=True, answered=(), base=base, shape=None)

    def _grow(self, branch: Branch) -> Tree:
        for parent in branch.parents:
            self.node(parent, f"branch_proposed {branch.id!r}")
        known = self.nodes.get(branch.id)
        if known is not None and known.branch != branch:
            raise SessionError(f"branch {branch.id!r} is proposed twice with different content")
        return self if known is not None else self._with(Node(branch))

    def _grant(self, rounds: int) -> Tree:
        """Open the gate for more rounds; none lifts a stop and leaves the plan as it was."""
        start = self.rounds_allowed if self.stopped is None else self.round
        until = start + rounds if rounds > 0 else self.requested_until
        return replace(
            self,
            stopped=None,
            requested_until=until,
            rounds_allowed=max(self.rounds_allowed, until),
            # A reasoner that failed or ran dry in the last round is asked again.
            answered=self.answered if self.round_open else (),
        )

    def _withdraw(self, rounds: int) -> Tree:
        """Close the gate again for rounds that were asked for and have not begun."""
        allowed = max(self.rounds_allowed - rounds, self.round)
        at_first = self.opened.policy.granted if self.opened is not None else 0
        # Back at what the policy grants, nothing is asked for explicitly any more.
        until = allowed if allowed > at_first else 0
        return replace(self, requested_until=until, rounds_allowed=allowed)

    def _without_hint(self, text: str) -> Tree:
        """The latest hint of this text for a round to come is forgotten."""
        for place in range(len(self.hints) - 1, -1, -1):
            if self.hints[place].text == text and self.hints[place].round > self.round:
                return replace(self, hints=(*self.hints[:place], *self.hints[place + 1 :]))
        return self

    def _silent(self, branch: BranchId | None) -> Tree:
        """Nobody is speaking about this branch any more."""
        if branch not in self.speaking:
            return self
        return replace(self, speaking={id: said for id, said in self.speaking.items() if id != branch})

    def _check(self, branch: BranchId | None, what: str) -> None:
        if branch is not None:
            self.node(branch, what)

    def _with(self, node: Node) -> Tree:
        nodes = {**self.nodes, node.id: node}
        if node.id not in self.nodes:
            nodes = {id: nodes[id] for id in sorted(nodes, key=natural_order)}
        return replace(self, nodes=nodes)

    # -------------------------------------------------------------------------------- questions

    def node(self, id: BranchId, what: str = "") -> Node:
        """Node of a branch. Raises ``SessionError`` that names the branch (and ``what`` named it)."""
        try:
            return self.nodes[id]
        except KeyError:
            subject = f"{what} names" if what else "there is no"
            rest = ", which is not in the tree" if what else " in the tree"
            raise SessionError(f"{subject} branch {id!r}{rest}") from None

    def best(self) -> BranchId | None:
        """Correct branch with the highest score, the earliest of equals; None while none passed."""
        ranked = self.ranked()
        return ranked[0] if ranked else None

    def ranked(self) -> tuple[BranchId, ...]:
        """Every correct branch, best first."""
        return self._ranked

    @cached_property
    def _ranked(self) -> tuple[BranchId, ...]:
        passed = [node for node in self.nodes.values() if node.passed]
        return tuple(node.id for node in sorted(passed, key=lambda node: -node.score))

    @cached_property
    def unsettled(self) -> tuple[Node, ...]:
        """Branches about which something is still to be found out, in the order of ids."""
        return tuple(node for node in self.nodes.values() if not node.settled)

    def frontier(self) -> tuple[BranchId, ...]:
        """Correct branches that are not pruned, best first: what may still get children."""
        return tuple(id for id in self.ranked() if not self.is_pruned(id))

    def holding(self, source: str) -> tuple[Node, ...]:
        """Branches whose kernel is this very text, in the order in which they were begun."""
        nodes = self.nodes.values()
        return tuple(node for node in nodes if node.draft is not None and node.draft.kernel.source == source)

    def children(self, id: BranchId) -> tuple[BranchId, ...]:
        """Branches drawn under this one: those whose first parent it is."""
        return self._below.get(id, ())

    @cached_property
    def _below(self) -> Mapping[BranchId, tuple[BranchId, ...]]:
        """Children of every branch that has some; a tree is asked for them many times."""
        found: dict[BranchId, list[BranchId]] = {}
        for node in self.nodes.values():
            for parent in node.branch.parents[:1]:
                found.setdefault(parent, []).append(node.id)
        return {id: tuple(children) for id, children in found.items()}

    def roots(self) -> tuple[BranchId, ...]:
        """Branches without a parent."""
        return tuple(n.id for n in self.nodes.values() if not n.branch.parents)

    def is_pruned(self, id: BranchId) -> bool:
        """True when the branch, or one above it along first parents, was pruned."""
        self.node(id)
        return id in self._pruned

    @cached_property
    def _pruned(self) -> frozenset[BranchId]:
        """The pruned branches with all that lies under them along first parents."""
        found: set[BranchId] = set()
        below = [node.id for node in self.nodes.values() if node.pruned]
        while below:
            id = below.pop()
            if id not in found:
                found.add(id)
                below += self.children(id)
        return frozenset(found)

    def chain(self, id: BranchId) -> tuple[BranchId, ...]:
        """The attempts at one hypothesis up to this one, oldest first: a branch and its repairs."""
        node = self.node(id)
        links = [id]
        while node.operator == "repair" and node.branch.parents:
            node = self.nodes[node.branch.parents[0]]
            links.append(node.id)
        return tuple(reversed(links))

    def repair_of(self, id: BranchId) -> BranchId | None:
        """The repair that follows this attempt; None when there is none."""
        repairs = (child for child in self.children(id) if self.nodes[child].operator == "repair")
        return next(repairs, None)

    @property
    def spent(self) -> Spent:
        """What language models have cost so far."""
        return Spent.of(self.exchanges.values())

    def hint_for(self, round: int) -> str:
        """The person's words for one round, oldest first, a line each."""
        return "\n".join(hint.text for hint in self.hints if hint.round == round)

    @property
    def holds_cards(self) -> bool:
        """The person reads the cards of the round first and has not released them."""
        return self.reviewing and self.round_open and self.released < self.round

    def unwritten(self) -> tuple[BranchId, ...]:
        """Cards of the latest round, not struck, that have no kernel and are not being written."""
        return tuple(
            n.id
            for n in self.nodes.values()
            if n.branch.round == self.round and n.operator not in ("edit", "repair") and n.draft is None
            and n.stage == "waiting" and not n.settled and not self.is_pruned(n.id)
        )  # fmt: skip

    @property
    def gate(self) -> Gate:
        """``closed``, ``working``, ``asking`` the person, ``reviewing`` of cards, or ``stopped``."""
        if self.opened is None:
            return "closed"
        if self.stopped is not None:
            return "stopped"
        if self.holds_cards and self.unwritten():
            return "reviewing"
        manual = self.opened.policy.review == "manual"
        waits = manual and not self.round_open and self.round >= self.rounds_allowed
        return "asking" if waits else "working"


def fold(events: Iterable[Event], tree: Tree | None = None) -> Tree:
    """Tree after all events, from an empty one or from ``tree``."""
    tree = Tree() if tree is None else tree
    for event in events:
        tree = tree.apply(event)
    return tree
