"""What a person can do to a running session. Every act records an event and returns at once.

Owns the checks an act needs before it is recorded, and the compile check while somebody types. Never
touches the search: the loop reads the recorded events.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from workbench.errors import SessionError, WorkbenchError
from workbench.events import (
    BranchApproved,
    BranchPruned,
    CardReviewSet,
    CardRewritten,
    CardsReleased,
    HintGiven,
    RoundShaped,
    RoundsRequested,
    SearchStopped,
)
from workbench.live.hints import hint_words
from workbench.model import BranchId, CompileReport, Hypothesis, Kernel, Operator, Outcome
from workbench.session import Session
from workbench.tree import Tree

PERSON = "person"
OPERATORS: tuple[Operator, ...] = ("refine", "rewrite", "crossover")
"""How a branch of a later round comes to be; what a person can choose from."""
MOST = 20
"""Branches of one round that a person can ask for."""

Checked = CompileReport | Outcome


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


class Steered:
    """The acts of a ``LiveSession``. They raise ``SessionError`` when it is not open."""

    _typing: ThreadPoolExecutor | None = None
    _asked = 0

    def _open(self) -> Session:
        raise NotImplementedError

    @property
    def tree(self) -> Tree:
        """The newest recorded state."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------ branches

    def _known(self, branch: str) -> BranchId:
        """Raises ``SessionError`` for a branch that is not in the tree."""
        names = list(self._open().tree.nodes)
        if branch not in names:
            listed = ", ".join(names) if len(names) <= 8 else f"{names[0]} ... {names[-1]}"
            raise SessionError(f"there is no branch {branch!r}; the tree has {listed or 'none yet'}")
        return BranchId(branch)

    def approve(self, *branches: str, undo: bool = False) -> None:
        """Make branches parents of the next round. One that is approved already stays so."""
        known = [self._known(branch) for branch in branches]
        for branch in known:
            if self.tree.nodes[branch].approved == undo:
                self._open().post(BranchApproved(branch=branch, by=PERSON, undo=undo))

    def prune(self, *branches: str, reason: str = "", undo: bool = False) -> None:
        """No more children from branches or from below them; a card that is not written is struck."""
        known = [self._known(branch) for branch in branches]
        for branch in known:
            if self.tree.nodes[branch].pruned == undo:
                self._open().post(BranchPruned(branch=branch, by=PERSON, reason=reason, undo=undo))

    def edit(self, branch: str | None, source: str) -> str:
        """Have a kernel of yours judged as a child of ``branch`` (None: on its own); returns its id.

        Raises ``SessionError`` for an empty text.
        """
        if not source.strip():
            raise SessionError("an empty text is no kernel; give all of a .cu file, its plan too")
        return self._open().edit(self._known(branch) if branch else None, source, by=PERSON)

    def undo(self) -> str:
        """Take back the last thing you did that can still be undone; returns what it was, in words.

        Known from the journal, so it works after a resume as well.
        """
        session = self._open()
        if not session.tree.acts:
            return "There is nothing to undo."
        act = session.tree.acts[-1]
        assert act.inverse is not None  # only such acts are kept
        session.post(act.inverse)
        return f"Taken back: {act.words}."

    # ------------------------------------------------------------------------------ the next round

    def hint(self, text: str) -> str:
        """Words for the next round's reasoner; returns what it will make of them.

        Raises ``SessionError`` for a hint without words.
        """
        session = self._open()
        if not text.strip():
            raise SessionError("an empty hint says nothing: give words, such as a technique's name")
        session.post(HintGiven(text=text, by=PERSON))
        return hint_words(text, session.opened.brain)

    def shape(self, operators: tuple[str, ...] | str = (), width: int | None = None) -> None:
        """How the next round is filled: only these operators, this many branches; nothing: as planned."""
        wanted = {operators} if isinstance(operators, str) else set(operators)
        chosen = tuple(operator for operator in OPERATORS if operator in wanted)
        if unknown := sorted(wanted - set(chosen)):
            raise SessionError(f"no operator {unknown[0]!r}; there are {', '.join(OPERATORS)}")
        if width is not None and not 1 <= width <= MOST:
            raise SessionError(f"a round has 1 to {MOST} branches, not {width}")
        self._open().post(RoundShaped(operators=chosen, width=width, by=PERSON))

    def review_cards(self, on: bool = True) -> None:
        """Read, strike and rewrite the cards of each round before kernels are written, or no longer."""
        self._open().post(CardReviewSet(on=on, by=PERSON))

    def rewrite(self, branch: str, title: str, fix: str, choices: dict[str, str] | None = None) -> None:
        """Put your words, and your choice of techniques, on a card whose kernel is not written yet."""
        session = self._open()
        node = session.tree.node(BranchId(branch))
        if node.draft is not None or node.settled or node.stage != "waiting":
            how = "is written" if node.draft is not None or node.settled else "is being written already"
            raise SessionError(f"the kernel of {branch} {how}; edit the kernel instead")
        card = node.branch.hypothesis
        vector = tuple(sorted({**dict(card.vector), **(choices or {})}.items()))
        new = Hypothesis.model_validate({**dict(card), "title": title, "fix": fix, "vector": vector})
        if new != card:
            session.post(CardRewritten(branch=node.id, hypothesis=new, by=PERSON))

    def release_cards(self) -> None:
        """Have the kernels of this round's cards written."""
        self._open().post(CardsReleased(round=self.tree.round, by=PERSON))

    def next_round(self, rounds: int = 1, branches: int = 0) -> None:
        """Run this many more rounds, with room in the tree for so many more branches.

        Raises ``SessionError`` for no round, and where the budget of branches leaves room for none.
        """
        from workbench.search import budget_left

        session = self._open()
        if not (_is_count(rounds) and rounds > 0 and _is_count(branches)):
            raise SessionError(
                f"next_round takes how many rounds, and how many more branches, not {rounds!r}, {branches!r}"
            )
        tree, policy = session.tree, session.opened.policy
        if not (branches or tree.round_open or budget_left(tree, policy)):
            budget = policy.branches + tree.more_branches
            branches_used = "1 branch" if budget == 1 else f"{budget} branches"
            raise SessionError(
                f"the budget of {branches_used} is used. Room for 8 more: session.next_round(branches=8), "
                "or workbench resume FOLDER --branches 8"
            )
        session.post(RoundsRequested(rounds=rounds, branches=branches, by=PERSON))

    def stop(self) -> None:
        """Plan no more; what is being judged is finished. ``next_round`` goes on, as does ``undo``."""
        if self.tree.stopped is None:
            self._open().post(SearchStopped(reason="by the person", by=PERSON))

    # ------------------------------------------------------------------------------ while typing

    def check(self, source: str, tell: Callable[[Checked | None], None]) -> None:
        """Plan and compile a text in the background and ``tell`` the report, or what is wrong with it.

        Only the newest text asked for is answered; None when it cannot be said. Answers of the compiler
        are remembered on disk, so that judging the same text later does not compile it again.
        """
        session = self._open()
        if self._typing is None:
            self._typing = ThreadPoolExecutor(1, "workbench-typing")
        self._asked += 1
        self._typing.submit(self._answer, session, source, self._asked, tell)

    def _answer(
        self, session: Session, source: str, number: int, tell: Callable[[Checked | None], None]
    ) -> None:
        from workbench.referee.judge import precheck

        if number != self._asked:
            return
        found: Checked | None = None
        try:
            with contextlib.suppress(WorkbenchError):  # a machine without a compiler: judging will say so
                found = precheck(session.problem, Kernel(source=source), session.opened.target)
        finally:  # whatever else went wrong, whoever types is not left waiting
            if number == self._asked:
                tell(found)
