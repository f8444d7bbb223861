"""Questions to models: what was asked before is looked up, what fails is tried again, all is recorded.

Owns retries, corrections, the cache and the record of an exchange. How one call is made is in endpoint.py,
when one may begin in budget.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from workbench.agents.base import Recorder
from workbench.agents.llm.advice import ANOTHER, LATER
from workbench.agents.llm.budget import Budget, Used
from workbench.agents.llm.endpoint import Call, Endpoint, Reply, estimated_tokens
from workbench.agents.llm.prices import price_of
from workbench.agents.llm.prompts import Prompt
from workbench.agents.llm.reading import Unreadable, line_of, sound
from workbench.agents.llm.redaction import Redactor
from workbench.agents.llm.settings import Role, Settings
from workbench.errors import AgentError, SessionError
from workbench.events import AgentSpoke, ModelAnswered, Said
from workbench.model import BranchId, Digest, Operator, Value

if TYPE_CHECKING:
    from workbench.agents.llm.failures import CallFailed

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]
KEPT = 64 * 1024
"""Characters of an answer that the journal keeps where it was of no use."""
TEMPERATURES: dict[Role, float] = {
    "reasoner": 0.8, "synthesizer": 0.2, "compiler": 0.0, "correctness": 0.0, "reflection": 0.2,
}  # fmt: skip


@dataclass(frozen=True)
class Question:
    """What a role asks, and the place in the tree that it is for."""

    role: Role
    kind: type[Value]
    prompt: Prompt
    branch: BranchId | None = None
    round: int = 0
    operator: Operator | None = None
    parents: tuple[BranchId, ...] = ()

    @property
    def place(self) -> str:
        """Beginning of the exchange's id."""
        if self.branch is not None:
            return f"{self.branch}/{self.role}"
        return "/".join([f"r{self.round}", self.operator or "", *self.parents, self.role])


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
        self._recorder: Recorder | None = None
        self._budget: Budget | None = None
        self._known: dict[Digest, str] = {}
        self._asked: Counter[str] = Counter()
        """Exchanges recorded so far, by place."""
        self._hopeless: dict[str, str] = {}
        """Models that no further call will reach, and why."""

    def connect(self, recorder: Recorder) -> None:
        """Record in this session from now on; what it knows already is not asked again."""
        self._recorder, self._budget = recorder, Budget(recorder)
        exchanges = recorder.tree.exchanges.values()
        self._known = {e.request: e.answer for e in exchanges if not e.failed}
        self._asked = Counter(e.id.rpartition("/")[0] for e in exchanges)

    def _numbered(self, place: str) -> str:
        """Id of the next exchange at a place of the tree."""
        self._asked[place] += 1
        return f"{place}/{self._asked[place]}"

    async def close(self) -> None:
        """End connections; idempotent."""
        await self._endpoint.close()

    async def ask(self, question: Question, read: Callable[[str], T]) -> T:
        """What ``read`` makes of the model's answer; an answer it cannot read is asked for again.

        Raises ``AgentError`` with a line for the person when there is no answer, or no usable one.
        """
        messages = tuple(Said(role=s.role, text=self._redact(s.text)) for s in question.prompt.messages)
        model = self.settings.models[question.role]
        problem = ""
        for _ in range(self.settings.patience.corrections + 1):
            exchange = await self._exchange(question, model, messages)
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

    async def _exchange(self, question: Question, model: str, messages: tuple[Said, ...]) -> _Exchange:
        """An answered exchange, not yet recorded; one without an answer is recorded and raised."""
        exchange = self._begin(question, model, messages)
        if (known := self._known.get(exchange.request)) is not None:
            exchange.text, exchange.cached = known, True
            return exchange
        call = Call(
            model=model,
            messages=messages,
            kind=question.kind,
            temperature=TEMPERATURES[question.role],
            max_tokens=self.settings.max_tokens,
        )
        try:
            async with self._room:
                await self._try(call, exchange)
        except AgentError as error:
            await exchange.post(failed=str(error))
            raise
        except asyncio.CancelledError:
            # The tokens are spent; the journal may be closing.
            with contextlib.suppress(SessionError):
                await exchange.post(failed="stopped")
            raise
        return exchange

    def _begin(self, question: Question, model: str, messages: tuple[Said, ...]) -> _Exchange:
        assert self._recorder is not None and self._budget is not None  # the team was connected
        settings = (model, TEMPERATURES[question.role], self.settings.max_tokens, question.kind.__name__)
        content = json.dumps([settings, [(said.role, said.text) for said in messages]])
        request = Digest(hashlib.sha256(content.encode()).hexdigest())
        return _Exchange(self, question, model, messages, request)

    async def _try(self, call: Call, exchange: _Exchange) -> None:
        """Call until there is an answer. Raises ``AgentError``."""
        from workbench.agents.llm.failures import CallFailed

        patience = self.settings.patience
        failed = 0
        while True:
            if reason := self._hopeless.get(call.model):
                raise AgentError(reason)
            reply = Reply()
            try:
                await self._paid(call, exchange, reply)
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

    async def _paid(self, call: Call, exchange: _Exchange, reply: Reply) -> None:
        """One call within the budget; what it used is added to the exchange, whatever came of it."""
        assert self._budget is not None
        written = sum(len(said.text) for said in call.messages)
        worst = self._used(call.model, estimated_tokens(written), call.max_tokens)
        await self._budget.begin(worst.tokens, worst.money_usd)
        used = Used()
        try:
            await self._endpoint.stream(call, reply, exchange.heard)
        finally:
            used = exchange.add(reply, estimated_tokens(written))
            await self._budget.end(worst.tokens, worst.money_usd, used)

    def _used(self, model: str, tokens_in: int, tokens_out: int) -> Used:
        price = price_of(model, self.settings)
        return Used(tokens_in + tokens_out, price.cost_usd(tokens_in, tokens_out) if price else 0.0)


class _Exchange:
    """What is known of an exchange while it goes on."""

    def __init__(
        self, calls: Calls, question: Question, model: str, messages: tuple[Said, ...], request: Digest
    ) -> None:
        self._calls = calls
        self._question = question
        self._model = model
        self._messages = messages
        self.request = request
        self.text = ""
        self.partial = ""
        self.cached = False
        self.cut = ""
        """Why the answer is not the whole of what the model had to say."""
        self.looped = False
        """The model repeated itself: told so, it may do better."""
        self.tries: list[str] = []
        self._sent = Reply(tokens_in=0, tokens_out=0)
        self._estimated = False
        self._held = Used()
        self._reported = time.monotonic()

    def heard(self, characters: int, tail: str) -> None:
        """Report that the answer grows, a few times a second."""
        now = time.monotonic()
        recorder, patience = self._calls._recorder, self._calls.settings.patience
        if recorder is None or now - self._reported < patience.report_s:
            return
        self._reported = now
        event = AgentSpoke(
            role=self._question.role,
            branch=self._question.branch,
            characters=characters,
            tail=self._calls._redact(sound(tail)),
        )
        # Only a view would miss it.
        with contextlib.suppress(SessionError):
            recorder.post(event)

    def add(self, reply: Reply, tokens_in: int) -> Used:
        """Count a try; where the server has not told, by length. A try that was refused used nothing."""
        self.partial = reply.text
        into, out = reply.tokens_in, reply.tokens_out
        if into is None or out is None:
            came = len(reply.text) + reply.thought
            into, out = (tokens_in, estimated_tokens(came)) if reply.accepted else (0, 0)
            self._estimated |= bool(into)
        used = self._calls._used(self._model, into, out)
        self._held = Used(self._held.tokens + used.tokens, self._held.money_usd + used.money_usd)
        self._sent.tokens_in = (self._sent.tokens_in or 0) + into
        self._sent.tokens_out = (self._sent.tokens_out or 0) + out
        self._sent.seconds += reply.seconds
        return used

    async def post(self, failed: str = "") -> None:
        """Record the exchange. Raises ``SessionError``."""
        calls = self._calls
        assert calls._recorder is not None and calls._budget is not None
        try:
            calls._recorder.post(self._event(failed))
            if not failed:
                calls._known[self.request] = self.text
        finally:
            await calls._budget.release(self._held)
            self._held = Used()

    def _event(self, failed: str) -> ModelAnswered:
        question, calls = self._question, self._calls
        answer = calls._redact(sound(self.text or self.partial))
        into, out = self._sent.tokens_in or 0, self._sent.tokens_out or 0
        price = price_of(self._model, calls.settings)
        return ModelAnswered(
            id=calls._numbered(question.place),
            role=question.role,
            model=self._model,
            prompt=question.prompt.name,
            branch=question.branch,
            round=question.round,
            operator=question.operator,
            parents=question.parents,
            request=self.request,
            messages=self._messages,
            answer=answer[:KEPT] if failed else answer,
            tokens_in=into,
            tokens_out=out,
            counted="estimate" if self._estimated else "server",
            cost_usd=price.cost_usd(into, out) if price is not None else None,
            seconds=round(self._sent.seconds, 3),
            tries=tuple(line_of(line) for line in self.tries),
            failed=line_of(failed) if failed else "",
            cached=self.cached,
        )


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
