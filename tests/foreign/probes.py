"""Runs in worker children: sandboxed processes that look around, misbehave, or answer wrongly."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.foreign import sandbox
from workbench.foreign.inmate import Ended, Inmate
from workbench.foreign.values import Allowance, Fence
from workbench.workers import frames

QUICK = Allowance(wall_s=60, processes=32, memory_bytes=2**28, file_bytes=2**20, cpu_s=30)


def look(payload: bytes) -> bytes:
    """Everything a solution's process can see and do, asked from inside."""
    places = json.loads(payload)

    def serve(channel: socket.socket, nonce: bytes, fences: tuple[Fence, ...]) -> None:
        seen = {"fences": {fence.name: fence.holds for fence in fences}, **_seen(places)}
        channel.sendall(frames.encode(nonce, frames.MESSAGE, json.dumps(seen).encode()))

    with Inmate(serve, QUICK) as inmate:
        return json.dumps(inmate.hear(60)).encode()


def name_threads(payload: bytes) -> bytes:
    """What CUDA does first: threads are named through ``/proc``, in the sandbox as it is for a GPU."""

    def serve(channel: socket.socket, nonce: bytes, fences: tuple[Fence, ...]) -> None:
        said: dict[str, Any] = {"fences": {fence.name: fence.holds for fence in fences}}

        def write(place: str) -> str:
            try:
                Path(place).write_text("worker")
                return "written"
            except OSError as error:
                return type(error).__name__

        def work() -> None:
            said["thread"] = write(f"/proc/self/task/{threading.get_native_id()}/comm")

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        said["own"] = write(f"/proc/self/task/{os.getpid()}/comm")
        said["others"] = write(f"/proc/{os.getppid() or 1}/comm")
        channel.sendall(frames.encode(nonce, frames.MESSAGE, json.dumps(said).encode()))

    with Inmate(serve, QUICK.on_gpu()) as inmate:
        return json.dumps(inmate.hear(60)).encode()


def signal_around(payload: bytes) -> bytes:
    """What may be signalled where the process numbers are the old ones: the keepers, the trusted side."""

    def serve(channel: socket.socket, nonce: bytes, fences: tuple[Fence, ...]) -> None:
        said = {
            "trusted": _attempt(lambda: os.kill(trusted, 0)),
            "keeper": _attempt(lambda: os.kill(os.getppid(), 0)),
        }
        child = subprocess.Popen(["sleep", "60"])
        said["child"] = _attempt(child.kill)
        child.wait()
        channel.sendall(frames.encode(nonce, frames.MESSAGE, json.dumps(said).encode()))

    trusted = os.getpid()
    sandbox._namespaces = lambda gpu: {"own network": "no: as on many rented cards"}
    with Inmate(serve, QUICK) as inmate:
        return json.dumps(inmate.hear(60)).encode()


def _seen(places: dict[str, Any]) -> dict[str, Any]:
    port = places["port"]
    return {
        "environ": dict(os.environ),
        "own environ": _attempt(lambda: Path("/proc/self/environ").read_text(errors="replace")),
        "their environ": _attempt(lambda: Path(f"/proc/{places['parent']}/environ").read_bytes()),
        "home": _attempt(lambda: list(Path(places["home"]).iterdir())),
        "secret": _attempt(lambda: Path(places["secret"]).read_text()),
        "problem": _attempt(lambda: Path(places["problem"]).read_text()),
        "shadow": _attempt(lambda: Path("/etc/shadow").read_text()),
        "write": _attempt(lambda: Path(places["secret"]).with_name("new").write_text("x")),
        "write judge": _attempt(lambda: Path(places["judge"]).open("a")),
        "write scratch": _attempt(lambda: Path("here.txt").write_text("x")),
        "too large": _attempt(lambda: Path("large").write_bytes(bytes(2**21))),
        "too much": _attempt(lambda: len(bytearray(2**29))),
        "grandchild": _attempt(lambda: subprocess.run(["cat", places["secret"]], check=True)),
        "tcp": _attempt(lambda: socket.create_connection(("127.0.0.1", port), timeout=2)),
        "udp": _attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)),
        "netlink": _attempt(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)),
        "interfaces": _attempt(lambda: Path("/proc/self/net/dev").read_text().count(":")),
        "signal": _attempt(lambda: os.kill(places["parent"], 0)),
        "ptrace": _call(101, 0, 0, 0, 0),
        "unshare": _call(272, 0x10000000),
        "io_uring": _call(425, 1, 0),
        "pid": os.getpid(),
        "capabilities": _status("CapEff"),
        "no new privileges": _status("NoNewPrivs"),
        "seccomp": _status("Seccomp"),
        "cwd": str(Path.cwd()),
        "temporary": tempfile.gettempdir(),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
    }


def _attempt(action: Callable[[], object]) -> str:
    try:
        return f"done: {action()}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"


def _call(number: int, *arguments: int) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    return "done" if libc.syscall(number, *arguments) >= 0 else os.strerror(ctypes.get_errno())


def _status(key: str) -> str:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith(f"{key}:"))


# ------------------------------------------------------------------------------------ ends


def end(payload: bytes) -> bytes:
    """How the trusted side sees one way to end; the last word says which."""
    way = payload.decode()

    def serve(channel: socket.socket, nonce: bytes, fences: tuple[Fence, ...]) -> None:
        WAYS[way](channel, nonce)

    with Inmate(serve, QUICK) as inmate:
        try:
            answer = inmate.ask({"kind": "anything"}, 1.5)
        except Ended as ended:
            return json.dumps({"ended": str(ended), "expired": ended.expired_s}).encode()
        return json.dumps({"answer": answer, "others": inmate.others(), "busy": inmate.still_busy()}).encode()


def _asked(channel: socket.socket) -> str:
    with channel.makefile("rb") as stream:
        _, _, length = frames.HEADER.unpack(stream.read(frames.HEADER.size))
        return str(json.loads(stream.read(length))["number"])


def _answer(channel: socket.socket, nonce: bytes, answer: object) -> None:
    channel.sendall(frames.encode(nonce, frames.MESSAGE, json.dumps(answer).encode()))
    channel.recv(1)


def _properly(channel: socket.socket, nonce: bytes) -> None:
    _answer(channel, nonce, {"number": _asked(channel), "word": "hello"})


def _with_company(channel: socket.socket, nonce: bytes) -> None:
    for _ in range(2):
        subprocess.Popen(["sleep", "300"], start_new_session=True)
    threading.Thread(target=_spin, daemon=True).start()
    time.sleep(0.1)
    _properly(channel, nonce)


def _spin() -> None:
    while True:
        pass


def _crowd(channel: socket.socket, nonce: bytes) -> None:
    threading.stack_size(2**16)  # the limit of memory would stop them first
    for _ in range(100):
        threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
    time.sleep(30)


WAYS: dict[str, Callable[[socket.socket, bytes], object]] = {
    "properly": _properly,
    "with company": _with_company,
    "crowd": _crowd,
    "exit": lambda channel, nonce: os._exit(3),
    "crash": lambda channel, nonce: os.kill(os.getpid(), signal.SIGSEGV),
    "hang": lambda channel, nonce: time.sleep(60),
    "garbage": lambda channel, nonce: (channel.sendall(b"x" * 1000), time.sleep(60)),
    "no number": lambda channel, nonce: _answer(channel, nonce, {"word": "hello"}),
    "not an object": lambda channel, nonce: _answer(channel, nonce, [1, 2]),
    "twice": lambda channel, nonce: (_answer(channel, nonce, {}), _answer(channel, nonce, {})),
    "too long": lambda channel, nonce: _answer(channel, nonce, {"x": "y" * 2**21}),
    "deep": lambda channel, nonce: channel.sendall(frames.encode(nonce, frames.MESSAGE, b"[" * 100_000)),
    "complaint": lambda channel, nonce: (os.write(2, b"no such kernel\n"), os._exit(9)),
}
