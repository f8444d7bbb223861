"""What arrives for a request: a stream of chunks, a whole answer in one piece, or a page that is neither.

Owns the reading of a body that is not the stream that was asked for. A server that does not stream has
answered all the same; an address that leads elsewhere than to a model is told, since waiting does not help.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from workbench.agents.llm.failures import CallFailed
from workbench.agents.llm.reading import line_of

if TYPE_CHECKING:
    from openai import AsyncStream

STREAM = "text/event-stream"
PAGES = ("text/html", "application/xhtml+xml")
CHECK = "check OPENAI_BASE_URL"


async def chunks_of(
    stream: AsyncStream[object], host: str, limit: int, heard: Callable[[], None]
) -> AsyncIterator[object]:
    """The answer's chunks as they come; a whole answer is one. ``heard`` is told of a whole one's pieces.

    ``limit``: bytes of a body that is read as a whole. Raises ``CallFailed`` for what no model's server
    sends.
    """
    kind = str(stream.response.headers.get("content-type", "")).partition(";")[0].strip().lower()
    if kind in PAGES:
        raise CallFailed(f"{host} answers with a web page ({kind}): {CHECK}", "never again")
    if kind.endswith("json"):
        for found in _found(await _body(stream, limit, heard), host, kind):
            yield found
        return
    came = False
    async for chunk in stream:
        came = True
        yield chunk
    if not came and kind and kind != STREAM:
        raise _foreign(host, kind)


async def _body(stream: AsyncStream[object], limit: int, heard: Callable[[], None]) -> bytes:
    body = b""
    async for piece in stream.response.aiter_bytes():
        heard()
        body += piece
        if len(body) > limit:
            break
    return body


def _found(body: bytes, host: str, kind: str) -> list[object]:
    """The answer that a body is, or its chunks: some servers stream under the name of JSON."""
    text = body.decode("utf-8", "replace").strip()
    lines = [line.removeprefix("data:").strip() for line in text.splitlines() if line.startswith("data:")]
    try:
        found = [json.loads(line) for line in lines if line != "[DONE]"] if lines else [json.loads(text)]
    except json.JSONDecodeError:
        raise _foreign(host, kind) from None
    if any(isinstance(one, dict) and isinstance(one.get("choices"), list) for one in found):
        return found
    raise _foreign(host, kind, found[0] if found else None)


def _foreign(host: str, kind: str, found: object = None) -> CallFailed:
    """Nothing of a model in it; where the server says what it objects to, in its words."""
    error = found.get("error") if isinstance(found, dict) else None
    error = error.get("message") if isinstance(error, dict) else error
    said = f": {line_of(error, 160)}" if isinstance(error, str) and error else ""
    return CallFailed(f"{host} answers without a model's words ({kind}){said}", "never again", advice=CHECK)
