"""What a forked child does: shut itself in, run one function once or call after call, answer, end.

Owns the limits of one process. Never returns to the server's code. What it does not cover: files that
the same user may read or write, UDP, and the sum over processes it starts, each of which gets the same
limits anew (confine.py says what older kernels leave open).
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import inspect
import json
import os
import re
import resource
import signal
import socket
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeVar

from workbench.workers import frames
from workbench.workers.confine import confine
from workbench.workers.values import Limits

F = TypeVar("F", bound=Callable[..., Any])
PREPARE = "prepare"
PR_SET_PDEATHSIG = 1
NO_ANSWER = 70
"""Exit code of a child that failed before it could answer (EX_SOFTWARE)."""


@dataclass(frozen=True)
class Work:
    """One task as the server received it."""

    function: str
    """``package.module:name``."""
    path: tuple[str, ...]
    """The caller's ``sys.path``."""
    limits: Limits
    scratch: Path
    """Private folder: working directory and ``TMPDIR``; removed afterwards."""
    lasting: bool = False
    """True for a conversation: the function is called for each payload until the caller hangs up."""


def run(work: Work, channel: int, output: int) -> NoReturn:
    """Run the work and end the process. Exit code 0 only after an answer was sent."""
    code = NO_ANSWER
    try:
        _shut_in(work, channel, output)
        code = _answer(work, socket.socket(fileno=channel))
    except SystemExit as asked:
        code = asked.code if isinstance(asked.code, int) else int(asked.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code & 0xFF)


def _shut_in(work: Work, channel: int, output: int) -> None:
    server = os.getppid()
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != server:
        os._exit(NO_ANSWER)
    for number in (1, 2):
        os.dup2(output, number)
    os.close(output)
    os.set_inheritable(channel, False)
    os.chdir(work.scratch)
    os.environ["TMPDIR"] = tempfile.tempdir = str(work.scratch)
    sys.path[:] = work.path
    faulthandler.enable()
    _limit(work.limits)
    confine(work.limits.network)


def _limit(limits: Limits) -> None:
    _set_limit(resource.RLIMIT_CORE, 0, 0)
    _set_limit(resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + 1)
    _set_limit(resource.RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes)
    # Not RLIMIT_AS: a GPU context reserves hundreds of gigabytes of addresses that it never touches.
    most = private_bytes() + limits.memory_bytes
    _set_limit(resource.RLIMIT_DATA, most, most)


def _set_limit(which: int, soft: int, hard: int) -> None:
    _, ceiling = resource.getrlimit(which)
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(which, (soft, hard))


def private_bytes() -> int:
    """Private writable memory of this process, the quantity that ``RLIMIT_DATA`` bounds."""
    found = re.search(r"VmData:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise OSError("/proc/self/status has no VmData line")
    return int(found[1]) * 1024


def prepared_by(prepare: Callable[[], object]) -> Callable[[F], F]:
    """Mark a worker function: ``prepare`` is called before the payload is read, and its result is passed on.

    It runs in a process that has heard nothing of its task yet, so what it forks knows no secret of it.
    """

    def mark(function: F) -> F:
        vars(function)[PREPARE] = prepare
        return function

    return mark


def _answer(work: Work, channel: socket.socket) -> int:
    prepared = _prepare(work.function)
    with channel.makefile("rb") as stream:
        while received := _receive(stream):
            _answer_one(work, channel, prepared, *received)
            if not work.lasting:
                return 0
    return 0 if work.lasting else NO_ANSWER


def _prepare(name: str) -> object:
    """What ``prepare`` gave; an exception is kept and raised when the function is called."""
    try:
        prepare = getattr(_function(name), PREPARE, None)
        return prepare() if prepare is not None else None
    except Exception as error:
        return error


def _answer_one(work: Work, channel: socket.socket, prepared: object, nonce: bytes, payload: bytes) -> None:
    lock = threading.Lock()

    def send(kind: bytes, body: bytes) -> None:
        with lock:
            channel.sendall(frames.encode(nonce, kind, body))

    try:
        answer = _call(work.function, payload, lambda body: send(frames.MESSAGE, body), prepared)
    except SystemExit:
        raise
    except BaseException as error:
        send(frames.RAISED, json.dumps(_describe(error)).encode())
    else:
        send(frames.RETURNED, answer)


def _receive(stream: BinaryIO) -> tuple[bytes, bytes] | None:
    """Nonce and payload of one call; None when the caller has hung up."""
    header = stream.read(frames.HEADER.size)
    if len(header) < frames.HEADER.size:
        return None
    nonce, _, length = frames.HEADER.unpack(header)
    return nonce, stream.read(length)


def _function(name: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return found


def _call(name: str, payload: bytes, send: Callable[[bytes], None], prepared: object) -> bytes:
    if isinstance(prepared, Exception):
        raise prepared
    function = _function(name)
    arguments = (payload, send, prepared)
    answer = function(*arguments[: len(inspect.signature(function).parameters)])
    if not isinstance(answer, bytes):
        raise TypeError(f"{name} returned {type(answer).__name__}, a worker function returns bytes")
    return answer


def _describe(error: BaseException) -> dict[str, str]:
    frame = error.__traceback__
    for _ in range(2):  # leave out _answer_one and _call
        frame = frame.tb_next if frame and frame.tb_next else frame
    return {
        "type": type(error).__name__,
        "message": str(error),
        "traceback": "".join(traceback.format_exception(type(error), error, frame)),
    }
