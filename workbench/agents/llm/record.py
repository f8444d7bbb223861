"""What a session's record knows of exchanges: which answers are known, what the next is called, its price.

Owns the way from an exchange to the journal. Holds ids and no texts: an answer that is known is read from
where it was recorded.
"""

from __future__ import annotations

import contextlib

from workbench.agents.base import Recorder
from workbench.agents.llm.budget import Budget, Used
from workbench.agents.llm.prices import price_of
from workbench.agents.llm.redaction import Redactor
from workbench.agents.llm.settings import Settings
from workbench.errors import SessionError
from workbench.events import AgentSpoke, ModelAnswered
from workbench.model import Digest


class Record:
    """The exchanges of one session, for the calls that add to them."""

    def __init__(self, recorder: Recorder, settings: Settings) -> None:
        """What the session holds already is known from the beginning."""
        self.settings = settings
        self.budget = Budget(recorder)
        self.redact = Redactor(settings.key)
        self._recorder = recorder
        self._known = {e.request: e.id for e in recorder.tree.exchanges.values() if not e.failed}

    def answer_to(self, request: Digest) -> str | None:
        """The recorded answer to an identical request; None where there is none that can be read."""
        if request not in self._known:
            return None
        try:
            return self._recorder.tree.exchanges[self._known[request]].answer
        except SessionError:
            return None  # asking again is better than failing

    def next_id(self, place: str) -> str:
        """Id of the next exchange at a place of the tree."""
        number = 1
        while f"{place}/{number}" in self._recorder.tree.exchanges:
            number += 1
        return f"{place}/{number}"

    def post(self, event: ModelAnswered) -> None:
        """Record an exchange. Raises ``SessionError``."""
        self._recorder.post(event)
        if not event.failed:
            self._known[event.request] = event.id

    def hear(self, event: AgentSpoke) -> None:
        """Pass on how far an answer is."""
        # Only a view would miss it.
        with contextlib.suppress(SessionError):
            self._recorder.post(event)

    def cost_usd(self, model: str, tokens_in: int, tokens_out: int) -> float | None:
        """Price of this many tokens; None when it is unknown."""
        price = price_of(model, self.settings)
        return price.cost_usd(tokens_in, tokens_out) if price is not None else None

    def used(self, model: str, tokens_in: int, tokens_out: int) -> Used:
        """The same for the budget, where what is unknown costs nothing."""
        return Used(tokens_in + tokens_out, self.cost_usd(model, tokens_in, tokens_out) or 0.0)
