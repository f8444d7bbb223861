"""One exchange while it goes on: what came so far, what it used, and the event that it ends as."""

from __future__ import annotations

import time

from workbench.agents.llm.budget import Used
from workbench.agents.llm.endpoint import Call, Reply, estimated_tokens
from workbench.agents.llm.question import Question, request_of
from workbench.agents.llm.reading import line_of, sound
from workbench.agents.llm.record import Record
from workbench.events import AgentSpoke, ModelAnswered

KEPT = 64 * 1024
"""Characters of an answer that the journal keeps where it was of no use."""


class Pending:
    """What is known of an exchange while it goes on."""

    def __init__(self, record: Record, question: Question, call: Call) -> None:
        self.call = call
        self.request = request_of(call)
        self.text = ""
        self.partial = ""
        self.cached = False
        self.cut = ""
        """Why the answer is not the whole of what the model had to say."""
        self.looped = False
        """The model repeated itself: told so, it may do better."""
        self.tries: list[str] = []
        self._record = record
        self._question = question
        self._sent = Reply(tokens_in=0, tokens_out=0)
        self._estimated = False
        self._held = Used()
        self._reported = time.monotonic()

    def heard(self, characters: int, tail: str) -> None:
        """Report that the answer grows, a few times a second."""
        now = time.monotonic()
        if now - self._reported < self._record.settings.patience.report_s:
            return
        self._reported = now
        self._record.hear(
            AgentSpoke(
                role=self._question.role,
                branch=self._question.branch,
                characters=characters,
                tail=self._record.redact(sound(tail)),
            )
        )

    def add(self, reply: Reply, tokens_in: int) -> Used:
        """Count a try; where the server has not told, by length. A try that was refused used nothing."""
        self.partial = reply.text
        into, out = reply.tokens_in, reply.tokens_out
        if into is None or out is None:
            came = len(reply.text) + reply.thought
            into, out = (tokens_in, estimated_tokens(came)) if reply.accepted else (0, 0)
            self._estimated |= bool(into)
        used = self._record.used(self.call.model, into, out)
        self._held = Used(self._held.tokens + used.tokens, self._held.money_usd + used.money_usd)
        self._sent.tokens_in = (self._sent.tokens_in or 0) + into
        self._sent.tokens_out = (self._sent.tokens_out or 0) + out
        self._sent.seconds += reply.seconds
        return used

    async def post(self, failed: str = "") -> None:
        """Record the exchange. Raises ``SessionError``."""
        try:
            self._record.post(self._event(failed))
        finally:
            await self._record.budget.release(self._held)
            self._held = Used()

    def _event(self, failed: str) -> ModelAnswered:
        question, record = self._question, self._record
        answer = record.redact(sound(self.text or self.partial))
        into, out = self._sent.tokens_in or 0, self._sent.tokens_out or 0
        return ModelAnswered(
            id=record.next_id(question.place),
            role=question.role,
            model=self.call.model,
            prompt=question.prompt.name,
            branch=question.branch,
            round=question.round,
            operator=question.operator,
            parents=question.parents,
            request=self.request,
            messages=self.call.messages,
            answer=answer[:KEPT] if failed else answer,
            tokens_in=into,
            tokens_out=out,
            counted="estimate" if self._estimated else "server",
            cost_usd=record.cost_usd(self.call.model, into, out),
            seconds=round(self._sent.seconds, 3),
            tries=tuple(line_of(line) for line in self.tries),
            failed=line_of(failed) if failed else "",
            cached=self.cached,
        )
