"""Questions to models: what was asked before is looked up, what fails is tried again, all is recorded.

Owns retries and corrections. How one call is made is in endpoint.py, when one may begin in budget.py, what is
known of an exchange in pending.py and record.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from workbench.agents.base import Recorder
from workbench.agents.llm.advice import ANOTHER, LATER
from workbench.agents.llm.endpoint import Call, Endpoint, Reply, estimated_tokens
from workbench.agents.llm.pending import Pending
from workbench.agents.llm.question import Question
from workbench.agents.llm.reading import Unreadable, line_of, sound
from workbench.agents.llm.record import Record
from workbench.agents.llm.redaction import Redactor
from workbench.agents.llm.settings import Settings
from workbench.errors import AgentError, SessionError
from workbench.events import Said

if TYPE_CHECKING:
    from workbench.agents.llm.failures import CallFailed

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


class Calls:
    """The way to the models for all roles of a team: one budget, one limit of calls in flight."""

    def __init__(
        self, settings: Settings, sleep: Sleep = asyncio.sleep, chance: Callable[[], float] = random.random
    ) -> None:
        self.settings = settings
        self._endpoint = Endpoint(settings)
        self._sleep = sleep
        self._chance = chance
        self._redact = Redactor(settings.key)
        self._room = asyncio.Semaphore(settings.parallel)
        self._record: Record | None = None
        self._hopeless: dict[str, str] = {}
        """Models that no further call will reach, and why."""

    def connect(self, recorder: Recorder) -> None:
        """Record in this session from now on; what it knows already is not asked again."""
        self._record = Record(recorder, self.settings)

    async def close(self) -> None:
        """End connections; idempotent."""
        await self._endpoint.close()

    async def ask(self, question: Question, read: Callable[[str], T]) -> T:
        """What ``read`` makes of the model's answer; an answer it cannot read is asked for again.

        Raises ``AgentError`` with a line for the person when there is no answer, or no usable one.
        """
        messages = tuple(Said(role=s.role, text=self._redact(s.text)) for s in question.prompt.messages)
        model, most = self.settings.models[question.role], self.settings.max_tokens
        problem = ""
        for _ in range(self.settings.patience.corrections + 1):
            exchange = await self._exchange(question, question.call(model, messages, most))
            try:
                found = read(exchange.text)
            except Unreadable as error:
                if exchange.cut and not exchange.looped:
                    await exchange.post(failed=exchange.cut)
                    raise AgentError(exchange.cut) from None
                problem = self._redact(exchange.cut or str(error))
                await exchange.post(failed=f"not usable: {problem}")
                messages = (*messages, *_complaint(exchange.text, problem))
                continue
            if exchange.cut:
                exchange.tries.append(f"{exchange.cut}; what was whole in it is used")
            await exchange.post()
            return found
        raise AgentError(f"{model} gave no usable answer: {line_of(problem, 200)}; {ANOTHER}")

    # ------------------------------------------------------------------------------ one exchange

    async def _exchange(self, question: Question, call: Call) -> Pending:
        """An answered exchange, not yet recorded; one without an answer is recorded and raised."""
        assert self._record is not None  # the team was connected
        exchange = Pending(self._record, question, call)
        if (known := self._record.answer_to(exchange.request)) is not None:
            exchange.text, exchange.cached = known, True
            return exchange
        try:
            async with self._room:
                await self._try(exchange)
        except AgentError as error:
            await exchange.post(failed=str(error))
            raise
        except asyncio.CancelledError:
            # The tokens are spent; the journal may be closing.
            with contextlib.suppress(SessionError):
                await exchange.post(failed="stopped")
            raise
        return exchange

    async def _try(self, exchange: Pending) -> None:
        """Call until there is an answer. Raises ``AgentError``."""
        from workbench.agents.llm.failures import CallFailed

        call, patience = exchange.call, self.settings.patience
        failed = 0
        while True:
            if reason := self._hopeless.get(call.model):
                raise AgentError(reason)
            reply = Reply()
            try:
                await self._paid(exchange, reply)
                exchange.text, exchange.cut = _complete(call, reply), _cut(call, reply)
                exchange.looped = reply.finish == "loop"
                return
            except CallFailed as error:
                message = self._redact(error.message)
                if error.remedy == "adapt" and self._endpoint.habits(call.model).adapt(error.said):
                    exchange.tries.append(f"{message}; asked in another form")
                    continue
                failed += 1
                told = _in_all(message, failed, error.advice)
                if error.remedy == "never again":
                    self._hopeless[call.model] = told
                wait_s = self._wait_s(error, failed)
                if wait_s is None:
                    raise AgentError(told) from None
                exchange.tries.append(f"{message}; waited {wait_s:.1f} s")
            await self._sleep(min(wait_s, patience.longest_wait_s))

    def _wait_s(self, error: CallFailed, failed: int) -> float | None:
        """Seconds before the next try; None when there is none."""
        patience = self.settings.patience
        if error.remedy != "wait" or failed >= patience.tries:
            return None
        if error.retry_after_s is not None:
            # A little more than asked for, so that all who were told the same do not come at once.
            asked = error.retry_after_s * (1 + 0.1 * self._chance())
            return asked if error.retry_after_s <= patience.longest_wait_s else None
        most = min(patience.first_wait_s * 2.0 ** (failed - 1), patience.longest_wait_s)
        return most * (0.5 + 0.5 * self._chance())

    async def _paid(self, exchange: Pending, reply: Reply) -> None:
        """One call within the budget; what it used is added to the exchange, whatever came of it."""
        assert self._record is not None
        call, budget = exchange.call, self._record.budget
        written = sum(len(said.text) for said in call.messages)
        worst = self._record.used(call.model, estimated_tokens(written), call.max_tokens)
        await budget.begin(worst.tokens, worst.money_usd)
        try:
            await self._endpoint.stream(call, reply, exchange.heard)
        finally:
            used = exchange.add(reply, estimated_tokens(written))
            await budget.end(worst.tokens, worst.money_usd, used)


def _complete(call: Call, reply: Reply) -> str:
    """The text of a finished answer. Raises ``CallFailed`` for one that is none."""
    from workbench.agents.llm.failures import CallFailed

    if reply.refusal or reply.finish == "content_filter":
        said = f": {line_of(reply.refusal, 160)}" if reply.refusal else " (content filter)"
        raise CallFailed(f"{call.model} refuses to answer{said}", "give up", advice=ANOTHER)
    if not reply.finish:
        raise CallFailed(f"the answer of {call.model} broke off", "wait", advice=LATER)
    return sound(reply.text)


def _cut(call: Call, reply: Reply) -> str:
    """Why an answer ends too early; empty for a whole one."""
    if reply.finish == "length":
        return f"{call.model} ran out of room after {call.max_tokens:,} tokens: raise WORKBENCH_MAX_TOKENS"
    return "the answer repeats itself without end" if reply.finish == "loop" else ""


def _complaint(text: str, problem: str) -> tuple[Said, Said]:
    """The useless answer, shortened, and what is wrong with it."""
    again = f"That answer cannot be used: {problem}. Send the whole JSON object again, complete and valid."
    return Said(role="assistant", text=text[:4000] or "(empty)"), Said(role="user", text=again)


def _in_all(message: str, failed: int, advice: str) -> str:
    times = "" if failed == 1 else f", {failed} times"
    return f"{message}{times}; {advice}" if advice else f"{message}{times}"
