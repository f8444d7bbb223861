"""A real HTTP server that speaks OpenAI's chat protocol, with every fault a server can have.

Runs on a thread of the test's process, on a free port of this machine. What it answers is up to a function
from the request's JSON to a ``Turn``. No model is behind it.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal

Json = dict[str, Any]
Fault = Literal["", "stall", "drop", "drop at once", "cut json", "no end", "error in stream", "bytes"]


@dataclass(frozen=True)
class Turn:
    """One response. Without a fault: ``text`` as a stream of a few chunks, then usage and ``[DONE]``."""

    text: str = ""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    error: str = ""
    """Message of an error's JSON body; for a status other than 200."""
    code: str = ""
    page: str = ""
    """A body that is no JSON, such as a proxy's HTML."""
    whole: str = ""
    """Content type of an answer in one piece: not streamed, though that was asked for."""
    fault: Fault = ""
    finish: str = "stop"
    refusal: str = ""
    thinking: str = ""
    usage: bool = True
    piece: int = 400
    """Characters a chunk."""
    repeat: int = 1
    """Times the text is sent."""


Script = Callable[[Json], Turn]


@dataclass
class Seen:
    """A request that came in."""

    body: Json
    key: str
    at: float = field(default_factory=time.monotonic)


class ModelServer:
    """``with ModelServer(script) as server``: ``server.url`` is what OPENAI_BASE_URL takes."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.seen: list[Seen] = []
        self.over = threading.Event()
        self._guard = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                try:
                    body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                except (OSError, ValueError):
                    return  # the client left before it had asked
                seen = Seen(body, self.headers.get("Authorization", "").removeprefix("Bearer "))
                with server._guard:
                    server.seen.append(seen)
                    turn = server.script(body)
                # A client that has left is none of the server's business.
                with contextlib.suppress(OSError):
                    respond(self, turn, server.over, body)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._http.block_on_close = False
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def respond(handler: BaseHTTPRequestHandler, turn: Turn, over: threading.Event, body: Json) -> None:
    """Send a turn with its fault; to a request with a tool, as the tool's arguments."""
    if turn.fault == "drop at once":
        handler.close_connection = True
        handler.connection.close()
        return
    if turn.status != 200:
        _send_error(handler, turn)
        return
    if turn.whole:
        _send_whole(handler, turn, "tools" in body)
        return
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    pieces = list(_events(turn, "tools" in body))
    if turn.fault in ("stall", "drop", "cut json", "bytes", "error in stream", "no end"):
        pieces = pieces[: max(1, len(pieces) // 2)]
    for piece in pieces:
        _chunk(handler, f"data: {json.dumps(piece)}\n\n".encode())
    match turn.fault:
        case "stall":
            over.wait(20)
            return
        case "drop":
            handler.close_connection = True
            handler.connection.close()
            return
        case "cut json":
            _chunk(handler, b'data: {"id": "x", "choices": [{"delta": {"content": "half\n\n')
        case "bytes":
            _chunk(handler, b"data: \xff\xfe\x00\n\n")
        case "error in stream":
            _chunk(handler, b'data: {"error": {"message": "the engine died", "code": 500}}\n\n')
    _chunk(handler, b"data: [DONE]\n\n")
    _chunk(handler, b"")


def _send_error(handler: BaseHTTPRequestHandler, turn: Turn) -> None:
    body = turn.page or json.dumps({"error": {"message": turn.error, "code": turn.code, "type": "x"}})
    _send_body(handler, turn, "text/html" if turn.page else "application/json", body)


def _send_whole(handler: BaseHTTPRequestHandler, turn: Turn, tool: bool) -> None:
    if turn.page:
        _send_body(handler, turn, turn.whole, turn.page)
        return
    if turn.error:
        _send_body(handler, turn, turn.whole, json.dumps({"error": turn.error}))
        return
    message: Json = {"role": "assistant", "content": None if tool else turn.text}
    if tool:
        message["tool_calls"] = [{"type": "function", "function": {"arguments": turn.text}}]
    answer: Json = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": turn.finish}],
    }
    if turn.usage:
        answer["usage"] = {"prompt_tokens": 1000, "completion_tokens": 200, "total_tokens": 1200}
    _send_body(handler, turn, turn.whole, json.dumps(answer))


def _send_body(handler: BaseHTTPRequestHandler, turn: Turn, kind: str, body: str) -> None:
    data = body.encode()
    handler.send_response(turn.status)
    for name, value in turn.headers:
        handler.send_header(name, value)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def _chunk(handler: BaseHTTPRequestHandler, data: bytes) -> None:
    handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    handler.wfile.flush()


def streamed(turn: Turn, body: Json) -> bytes:
    """A turn without a fault as one body of server-sent events, for who answers without a server."""
    events = (f"data: {json.dumps(event)}\n\n" for event in _events(turn, "tools" in body))
    return "".join([*events, "data: [DONE]\n\n"]).encode()


def _events(turn: Turn, tool: bool) -> Any:
    frame = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}

    def delta(finish: str | None = None, **content: object) -> Json:
        return {**frame, "choices": [{"index": 0, "delta": content, "finish_reason": finish}]}

    yield delta(role="assistant")
    if turn.thinking:
        yield delta(reasoning_content=turn.thinking)
    if turn.refusal:
        yield delta(refusal=turn.refusal)
    for _ in range(turn.repeat):
        for start in range(0, len(turn.text), turn.piece):
            piece = turn.text[start : start + turn.piece]
            arguments = {"index": 0, "function": {"arguments": piece}}
            yield delta(tool_calls=[arguments]) if tool else delta(content=piece)
    yield delta(turn.finish)
    if turn.usage:
        usage = {"prompt_tokens": 1000, "completion_tokens": 200, "total_tokens": 1200}
        yield {**frame, "choices": [], "usage": usage}


def asked_for(body: Json) -> str:
    """What a request wants: ``Cards``, ``KernelAnswer``, ``RepairAnswer`` or ``ReflectionAnswer``."""
    if "response_format" in body:
        return str(body["response_format"]["json_schema"]["name"])
    if "tools" in body:
        return str(body["tools"][0]["function"]["name"])
    system = body["messages"][0]["content"]
    names = {"cards": "Cards", "diagnosis_right": "ReflectionAnswer", '"issue"': "RepairAnswer"}
    return next((name for mark, name in names.items() if mark in system), "KernelAnswer")


def words_of(body: Json) -> str:
    """All text of a request."""
    return "\n".join(message["content"] for message in body["messages"])
