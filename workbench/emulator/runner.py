"""A process that runs launches and knows nothing else: no expected result, no seed, no reference.

Owns the wall between a kernel's code, which on the emulator is machine code that may do what it likes,
and the process that computes what must come out. They share the memory of the tensors; the rest is one
socket. The runner is forked before its parent has heard what is to be judged, closes every other
descriptor and may read libraries only and write no file (Landlock). Not covered: without Landlock it
may read and write files as the same user; on any kernel it may use up its CPU and memory limits.
"""

from __future__ import annotations

import ctypes
import json
import math
import mmap
import os
import select
import signal
import socket
import struct
import traceback
from pathlib import Path
from typing import Any, NoReturn

import torch

from workbench.emulator import module, result, toolchain
from workbench.emulator.hosts import RunnerEnded, Work
from workbench.emulator.module import Geometry, Memory
from workbench.emulator.patience import Patience, Watch
from workbench.emulator.result import LaunchResult
from workbench.emulator.values import Binary
from workbench.workers.files import LIBRARIES, read_only

ARENA_BYTES = 3 * 2**30
"""Memory for the tensors of one execution, their shadows included; pages exist once they are touched."""
POLL_S = 0.25
LAST_WORDS_S, ASK_S = 2.0, 0.005
"""How long, and how often, a launch that is out of time is asked where it is."""
MAP_NORESERVE = 0x4000
PAGE = 4096
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
_LENGTH = struct.Struct("!cQ")
_ANSWER, _FAILED = b"a", b"f"


class Runner:
    """The trusted side: hands out shared memory, sends launches, checks the answers' form."""

    shared = True

    def __init__(self, pid: int, channel: socket.socket, arena: mmap.mmap) -> None:
        self._pid = pid
        self._channel = channel
        self._bytes = torch.frombuffer(arena, dtype=torch.uint8)
        self._used = PAGE  # in the first page a launch tells how far it is: abi.h
        self._progress = self._bytes[:16].view(torch.int64)
        self._sent: dict[str, int] = {}
        self.limit_bytes = ARENA_BYTES
        self._patience = Patience()

    @property
    def pid(self) -> int:
        """Process number."""
        return self._pid

    def begin(self) -> None:
        """The memory of the execution before is handed out again."""
        self._used = PAGE

    def storage(self, nbytes: int) -> torch.Tensor:
        """A piece of the shared memory, at a page of its own."""
        start = self._used
        self._used += -(-nbytes // PAGE) * PAGE
        if self._used > min(self.limit_bytes, ARENA_BYTES):
            raise MemoryError(f"the plan's tensors take more than {self.limit_bytes >> 20} MB")
        return self._bytes[start : start + nbytes]

    def signature(self, binary: Binary, entry: int) -> tuple[str, ...]:
        """Ask for the codes of a kernel's parameters. Raises ``RunnerEnded``."""
        return self._words({"do": "signature", "entry": entry, **self._named(binary)})

    def kept(self, binary: Binary) -> tuple[str, ...]:
        """Ask for the variables that launches have changed. Raises ``RunnerEnded``."""
        return self._words({"do": "kept", **self._named(binary)})

    def _words(self, request: dict[str, object]) -> tuple[str, ...]:
        answer = self._asked(request).decode(errors="replace")
        return tuple(word[:200] for word in answer.split(",")[:256] if word)

    def launch(self, work: Work) -> LaunchResult:
        """Run one launch. Raises ``RunnerEnded``."""
        request = {
            "do": "launch",
            "entry": work.entry,
            **self._named(work.binary),
            "geometry": vars(work.geometry),
            "cells": [cell.hex() for cell in work.cells],
            "memory": [vars(piece) for piece in work.memory],
            "progress": self._progress.data_ptr(),
        }
        blocks = math.prod(work.geometry.grid)
        threads = blocks * math.prod(work.geometry.block)
        elements = sum((piece.high - piece.low) // piece.item_bytes for piece in work.memory)
        watch = Watch(self._patience.limit_s(threads, elements), blocks, _at_once(work.geometry))
        self._progress.zero_()
        before = self._cpu_s()
        try:
            answer = result.read(self._asked(request, watch, before))
        except ValueError as error:
            raise RunnerEnded(str(error)) from None
        self._patience.took(threads, self._cpu_s() - before)
        return answer

    def _cpu_s(self) -> float:
        """Processor time the runner has used; 0 where it is gone."""
        try:
            fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _named(self, binary: Binary) -> dict[str, object]:
        """A library is described once and then called by its number."""
        if binary.path in self._sent:
            return {"number": self._sent[binary.path]}
        number = self._sent[binary.path] = len(self._sent)
        return {"number": number, "binary": binary.model_dump()}

    def _asked(self, request: dict[str, object], watch: Watch | None = None, began_s: float = 0.0) -> bytes:
        try:
            _send(self._channel, _ANSWER, json.dumps(request).encode())
            while not select.select([self._channel], [], [], POLL_S)[0]:
                if watch and watch.hopeless(self._cpu_s() - began_s, int(self._progress[0])):
                    raise self._stopped(began_s)
            kind, answer = _receive(self._channel)
        except (EOFError, OSError):
            raise self._ended() from None
        if kind != _ANSWER:
            raise RunnerEnded(f"the kernel's library failed: {answer.decode(errors='replace')[:300]}")
        return answer

    def _stopped(self, began_s: float) -> RunnerEnded:
        """End a launch that does not come to an end."""
        spent = self._cpu_s() - began_s
        told = self._last_words()
        self._ended()
        ended = RunnerEnded("the launch did not come to an end", cpu_s=spent, result=told)
        ended.pc = int(self._progress[1])
        return ended

    def _last_words(self) -> LaunchResult | None:
        """Ask a launch where its threads are, which ends it; None where it does not say. See crash.cpp."""
        for _ in range(round(LAST_WORDS_S / ASK_S)):
            os.kill(self._pid, signal.SIGUSR1)
            if not select.select([self._channel], [], [], ASK_S)[0]:
                continue
            try:
                kind, answer = _receive(self._channel)
                return result.read(answer) if kind == _ANSWER else None
            except (EOFError, OSError, ValueError):
                return None
        return None

    def _ended(self) -> RunnerEnded:
        """How the process ended; it is ended now if it only hung up."""
        self._channel.close()
        try:
            os.kill(self._pid, signal.SIGKILL)
            _, status, usage = os.wait4(self._pid, 0)
        except (ProcessLookupError, ChildProcessError):
            return RunnerEnded("the process of the kernel is gone")
        code = os.waitstatus_to_exitcode(status)
        if code in (-signal.SIGXCPU, -signal.SIGKILL):
            cpu_s = usage.ru_utime + usage.ru_stime
            return RunnerEnded(
                "the process of the kernel was killed", cpu_s if code == -signal.SIGXCPU else None
            )
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        return RunnerEnded(f"the process that ran the kernel ended with {how} and without an answer")


def _at_once(geometry: Geometry) -> int:
    """Blocks that run at the same time."""
    if geometry.resident:
        return geometry.resident
    return max(geometry.workers or module.cores(), math.prod(geometry.cluster))


def start() -> Runner:
    """Fork the runner. Call it in a process with one thread that holds no secret yet."""
    flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    arena = mmap.mmap(-1, ARENA_BYTES, flags=flags)
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _serve(theirs, parent)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    theirs.close()
    # A runner without Landlock around it, or an older kernel: this process cannot be traced or read.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    return Runner(pid, ours, arena)


# ------------------------------------------------------------------------------------ the other process


def _serve(channel: socket.socket, parent: int) -> NoReturn:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    _close_all_but(channel.fileno())
    read_only((*LIBRARIES, str(toolchain.cache_folder())))
    binaries: dict[int, Binary] = {}
    while True:
        try:
            _, request = _receive(channel)
        except EOFError:
            os._exit(0)
        try:
            kind, answer = _ANSWER, _answered(json.loads(request), binaries)
        except (OSError, AttributeError, ValueError) as error:  # the library cannot be loaded
            kind, answer = _FAILED, str(error).encode()
        _send(channel, kind, answer)


def _answered(request: dict[str, Any], binaries: dict[int, Binary]) -> bytes:
    number = request["number"]
    if "binary" in request:
        binaries[number] = Binary.model_validate(request["binary"])
    loaded = module.load(binaries[number])
    if request["do"] == "signature":
        return ",".join(loaded.signature(request["entry"])).encode()
    if request["do"] == "kept":
        return ",".join(loaded.kept()).encode()
    return loaded.launch(
        request["entry"],
        Geometry(**request["geometry"]),
        [bytes.fromhex(cell) for cell in request["cells"]],
        [Memory(**piece) for piece in request["memory"]],
        request["progress"],
    )


def _close_all_but(kept: int) -> None:
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


# ------------------------------------------------------------------------------------ both


def _send(channel: socket.socket, kind: bytes, body: bytes) -> None:
    channel.sendall(_LENGTH.pack(kind, len(body)) + body)


def _receive(channel: socket.socket) -> tuple[bytes, bytes]:
    """One message. Raises ``EOFError`` at the end of the channel and for a length nobody sends."""
    kind, length = _LENGTH.unpack(_exactly(channel, _LENGTH.size))
    if length > result.LARGEST_TEXT:
        raise EOFError
    return kind, _exactly(channel, length)


def _exactly(channel: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = channel.recv(min(count - len(parts), 1 << 20))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)
