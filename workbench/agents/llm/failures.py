"""What can go wrong between us and a server, told apart by what helps: wait, ask otherwise, or give up.

Owns the mapping from the client's exceptions to a line for the person. The server's own words are shortened
to a line and redacted: they are a stranger's.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import openai

from workbench.agents.llm.advice import LATER, SERVER, SLOWER
from workbench.agents.llm.reading import line_of

Remedy = Literal["wait", "adapt", "give up", "never again"]
"""``adapt``: the server may take the request in another form. ``never again``: the next call fails too."""
_MISSING_FEATURE = (400, 405, 415, 422, 501)
_PASSING = (408, 409, 425, 429)
_NO_ROOM = ("context_length", "context length", "maximum context", "too many tokens", "prompt is too long")


@dataclass
class CallFailed(Exception):
    """A call without an answer."""

    message: str
    """One line for the person."""
    remedy: Remedy
    retry_after_s: float | None = None
    said: str = ""
    """The server's own words."""
    advice: str = ""
    """What the person can do about it, where the message does not say."""

    def __str__(self) -> str:
        return self.message


def explain(
    error: Exception, host: str, model: str, begun: bool = False, key: str = "OPENAI_API_KEY"
) -> CallFailed:
    """Say what an exception of the client means; ``begun`` when a part of the answer had come.

    ``key`` is the variable that holds the key.
    """
    if isinstance(error, openai.APIStatusError):
        return _explain_status(error, host, model, key)
    if isinstance(error, openai.APITimeoutError | TimeoutError):
        return CallFailed(f"{host} does not answer in time", "wait", advice=SLOWER)
    if isinstance(error, openai.APIConnectionError) and begun:
        return CallFailed(f"the connection to {host} broke off in mid-answer", "wait", advice=LATER)
    if isinstance(error, openai.APIConnectionError):
        cause = line_of(str(error.__cause__ or error), 120)
        return CallFailed(f"{host} cannot be reached ({cause})", "wait", advice=SERVER)
    if isinstance(error, openai.APIError):
        message = f"{host} reports in mid-answer: {line_of(error.message, 160)}"
        return CallFailed(message, "wait", advice=LATER)
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return CallFailed(f"{host} sent a damaged stream", "wait", advice=SERVER)
    where = "in mid-answer" if begun else f"({type(error).__name__})"
    return CallFailed(f"the connection to {host} broke off {where}", "wait", advice=LATER)


def _explain_status(error: openai.APIStatusError, host: str, model: str, key: str) -> CallFailed:
    status, said = error.status_code, _words(error)
    quoted = f": {said}" if said else ""
    if status == 401:
        return CallFailed(f"{host} refuses the key (401): check {key}", "never again", said=said)
    if status == 403:
        message = f"{host} does not let this key use {model!r} (403){quoted}"
        return CallFailed(message, "never again", said=said, advice="choose another with WORKBENCH_MODEL")
    if status == 404:
        message = (
            f"{host} has no model {model!r} (404): check WORKBENCH_MODEL and the path of OPENAI_BASE_URL"
        )
        return CallFailed(message, "never again", said=said)
    if status == 429 and _code(error) == "insufficient_quota":
        message = f"the account's quota at {host} is used up (429)"
        return CallFailed(message, "never again", said=said, advice=LATER)
    if status in _PASSING or (status >= 500 and status != 501):
        slow = status == 429
        message = f"{host} {'asks to slow down' if slow else 'is out of order'} ({status})"
        advice = "set WORKBENCH_PARALLEL=1, or try later" if slow else LATER
        return CallFailed(message, "wait", retry_after(error.response.headers), said, advice)
    if any(words in f"{_code(error)} {said}".lower() for words in _NO_ROOM):
        message = f"the prompt is too long for {model!r}{quoted}"
        return CallFailed(message, "give up", said=said, advice="choose a model with a larger context")
    remedy: Remedy = "adapt" if status in _MISSING_FEATURE else "give up"
    message = f"{host} refuses the request ({status}){quoted}"
    return CallFailed(message, remedy, said=said, advice="it may need another model or server")


def _body(error: openai.APIStatusError) -> dict[str, Any]:
    body = error.body
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    return body if isinstance(body, dict) else {}


def _words(error: openai.APIStatusError) -> str:
    """What the server says, in a line; a page of HTML says nothing."""
    said = _body(error).get("message") or (error.body if isinstance(error.body, str) else "")
    text = said if isinstance(said, str) else ""
    return "" if text.lstrip().startswith("<") else line_of(text, 160)


def _code(error: openai.APIStatusError) -> str:
    return str(_body(error).get("code") or _body(error).get("type") or "")


def retry_after(headers: Any) -> float | None:
    """Seconds the server asks to wait: ``retry-after-ms``, or ``Retry-After`` in seconds or as a date."""
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        text = headers.get(name)
        if text is None:
            continue
        try:
            return max(float(text) * scale, 0.0)
        except ValueError:
            pass
        try:
            return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
        except (ValueError, TypeError):
            pass
    return None
