"""One call: a request goes out, an answer streams in.

Owns the client, the form of a request that this server takes, and the clock of a call. Never retries: the
client's own retries are off, since every try must count against the caps and show in the conversation.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from workbench.agents.llm.advice import ANOTHER, SLOWER
from workbench.agents.llm.answers import strict_schema
from workbench.agents.llm.settings import Settings
from workbench.events import Said
from workbench.model import Value

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from workbench.agents.llm.failures import CallFailed

Mode = Literal["schema", "tool", "fenced"]
MODES: tuple[Mode, ...] = ("schema", "tool", "fenced")
"""How JSON is asked for: structured output, a tool's arguments, words alone."""
ANSWER_LIMIT = 512 * 1024
"""Characters after which an answer is cut off; twice the longest kernel."""
LOOP, LOOP_PIECE = 1000, 40
"""Characters at the end of an answer that repeat a piece of at most so many: it goes nowhere any more."""
OnText = Callable[[int, str], None]
"""Told the length of the answer so far and its end."""


@dataclass(frozen=True)
class Call:
    """A request for one answer."""

    model: str
    messages: tuple[Said, ...]
    kind: type[Value]
    """The answer's value."""
    temperature: float
    max_tokens: int


@dataclass
class Reply:
    """What has come in, complete or not."""

    text: str = ""
    refusal: str = ""
    finish: str = ""
    """``stop``, ``length``, ``content_filter``, ..., ours: ``loop``; empty when the stream broke off."""
    thought: int = 0
    """Characters of thinking that servers send apart from the answer."""
    tokens_in: int | None = None
    tokens_out: int | None = None
    seconds: float = 0.0
    accepted: bool = False
    """True when the server has, or may have, begun to work on the request: then the prompt is paid for."""


@dataclass
class Habits:
    """The form in which a server takes requests for one model; learnt from its refusals."""

    mode: Mode = "schema"
    without: set[str] = field(default_factory=set)
    tokens_name: str = "max_completion_tokens"

    def adapt(self, said: str) -> bool:
        """Ask otherwise after a refusal in these words; False when there is no other way."""
        words = said.lower()
        for name in ("stream_options", "temperature"):
            if name in words and name not in self.without:
                self.without.add(name)
                return True
        if self.tokens_name in words and self.tokens_name == "max_completion_tokens":
            self.tokens_name = "max_tokens"
            return True
        if self.mode == "fenced":
            return False
        self.mode = MODES[MODES.index(self.mode) + 1]
        return True


def estimated_tokens(characters: int) -> int:
    """Rough count where no server has told: code has about 3.5 characters a token."""
    return math.ceil(characters / 3.5)


class Endpoint:
    """A server. Use from one event loop; ``close`` when done."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._client: AsyncOpenAI | None = None
        self._habits: dict[str, Habits] = {}

    def habits(self, model: str) -> Habits:
        """What is known of how this model takes requests."""
        return self._habits.setdefault(model, Habits())

    async def stream(self, call: Call, reply: Reply, on_text: OnText) -> None:
        """Fill ``reply`` with the answer as it comes. Raises ``CallFailed``; what came before stays."""
        from workbench.agents.llm.failures import CallFailed, explain

        patience, loop = self.settings.patience, asyncio.get_running_loop()
        began, reply.accepted = loop.time(), True
        try:
            async with asyncio.timeout_at(began + min(patience.stall_s, patience.call_s)) as limit:

                def heard() -> None:
                    limit.reschedule(min(began + patience.call_s, loop.time() + patience.stall_s))

                await self._receive(call, reply, on_text, heard)
        except CallFailed as error:
            # Where no model answered, none was asked.
            reply.accepted &= bool(reply.text or reply.thought) or error.remedy != "never again"
            raise
        except TimeoutError:
            raise self._too_slow(loop.time() - began) from None
        except Exception as error:
            # The boundary to a stranger's server: whatever its bytes made the client raise.
            reply.accepted = bool(reply.text or reply.thought) or not _turned_away(error)
            told, variable = bool(reply.text), self.settings.key_variable
            raise explain(error, self.settings.host, call.model, told, variable) from error
        finally:
            reply.seconds += loop.time() - began

    def _too_slow(self, seconds: float) -> CallFailed:
        from workbench.agents.llm.failures import CallFailed

        patience = self.settings.patience
        if seconds >= patience.call_s:
            message = f"{self.settings.host} has not finished after {patience.call_s:g} s"
        else:
            message = f"{self.settings.host} went silent for {patience.stall_s:g} s"
        return CallFailed(message, "wait", advice=SLOWER)

    async def _receive(self, call: Call, reply: Reply, on_text: OnText, heard: Callable[[], None]) -> None:
        from openai import AsyncStream

        from workbench.agents.llm.arriving import chunks_of

        # Past the client's own types for arguments and chunks: checking and building them takes longer than
        # all that the workbench does for a call, and a stranger's server may leave any of their fields out.
        stream = await self._open().post(
            "/chat/completions",
            cast_to=object,
            body=self._payload(call),
            stream=True,
            stream_cls=AsyncStream[object],
        )
        looked = 0
        try:
            async for chunk in chunks_of(stream, self.settings.host, 4 * ANSWER_LIMIT, heard):
                heard()
                _take(chunk, reply)
                on_text(len(reply.text) + reply.thought, reply.text[-160:])
                if len(reply.text) + reply.thought > ANSWER_LIMIT:
                    from workbench.agents.llm.failures import CallFailed

                    message = f"{call.model} does not stop: cut off after {ANSWER_LIMIT:,} characters"
                    raise CallFailed(message, "give up", advice=ANOTHER)
                if len(reply.text) >= looked + LOOP // 4:
                    looked = len(reply.text)
                    if _goes_in_circles(reply.text):
                        reply.finish = "loop"
                        break
        finally:
            await stream.close()

    def _payload(self, call: Call) -> dict[str, Any]:
        habits, schema = self.habits(call.model), strict_schema(call.kind)
        messages = [{"role": said.role, "content": said.text} for said in call.messages]
        payload: dict[str, Any] = {
            "model": call.model,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": call.temperature,
            habits.tokens_name: call.max_tokens,
        }
        for name in habits.without:
            payload.pop(name, None)
        name = call.kind.__name__
        if habits.mode == "schema":
            shape = {"name": name, "schema": schema, "strict": True}
            payload["response_format"] = {"type": "json_schema", "json_schema": shape}
        elif habits.mode == "tool":
            function = {"name": name, "description": "Gives the answer.", "parameters": schema}
            payload["tools"] = [{"type": "function", "function": function}]
            payload["tool_choice"] = {"type": "function", "function": {"name": name}}
        else:
            messages[0]["content"] += f"\nPut it in a ```json fence. Its schema: {json.dumps(schema)}\n"
        return payload

    def _open(self) -> AsyncOpenAI:
        if self._client is None:
            from openai import AsyncOpenAI, Timeout

            patience = self.settings.patience
            self._client = AsyncOpenAI(
                api_key=self.settings.key,
                base_url=self.settings.base_url,
                timeout=Timeout(patience.stall_s, connect=patience.connect_s),
                max_retries=0,
            )
        return self._client

    async def close(self) -> None:
        """End connections; idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()


def _goes_in_circles(text: str) -> bool:
    """True when the end of a text is one short piece over and over, as small models get caught in."""
    tail = text[-LOOP:]
    return len(tail) == LOOP and any(tail[n:] == tail[:-n] for n in range(1, LOOP_PIECE + 1))


def _turned_away(error: Exception) -> bool:
    """True when the server cannot have begun: it refused, or was not reached."""
    from openai import APIConnectionError, APIStatusError, APITimeoutError

    refused = isinstance(error, APIStatusError | APIConnectionError)
    return refused and not isinstance(error, APITimeoutError)


def _take(chunk: object, reply: Reply) -> None:
    """Add a chunk of the stream; what is left out, or is not what the protocol says, is not missed."""
    if usage := _mapping(chunk, "usage"):
        into, out = usage.get("prompt_tokens"), usage.get("completion_tokens")
        if _is_count(into) and _is_count(out):
            reply.tokens_in, reply.tokens_out = into, out
    for choice in _list(chunk, "choices")[:1]:
        reply.finish = _text(choice, "finish_reason") or reply.finish
        # A message is a whole answer of a server that does not stream: it ends where it ends.
        message = _mapping(choice, "message")
        reply.finish = reply.finish or ("stop" if message else "")
        delta = message or _mapping(choice, "delta")
        reply.text += _text(delta, "content")
        reply.refusal += _text(delta, "refusal")
        reply.thought += len(_text(delta, "reasoning_content")) + len(_text(delta, "reasoning"))
        for tool in _list(delta, "tool_calls"):
            reply.text += _text(_mapping(tool, "function"), "arguments")


def _mapping(found: object, name: str) -> dict[str, Any]:
    value = found.get(name) if isinstance(found, dict) else None
    return value if isinstance(value, dict) else {}


def _list(found: object, name: str) -> list[Any]:
    value = found.get(name) if isinstance(found, dict) else None
    return value if isinstance(value, list) else []


def _text(found: object, name: str) -> str:
    value = found.get(name) if isinstance(found, dict) else None
    return value if isinstance(value, str) else ""


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 0
