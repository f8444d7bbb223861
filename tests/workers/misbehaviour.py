"""Functions that run in children; each behaves, or misbehaves, in one way."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path


def echo(payload: bytes) -> bytes:
    return payload


def progress(payload: bytes, send: Callable[[bytes], None]) -> bytes:
    for step in range(3):
        send(payload + str(step).encode())
    return b"done"


def facts(_: bytes) -> bytes:
    """What a child can see of itself."""
    seen = {
        "environ": dict(os.environ),
        "proc": Path("/proc/self/environ").read_bytes().decode(),
        "pid": os.getpid(),
        "server_pid": os.getppid(),
        "threads": len(list(Path("/proc/self/task").iterdir())),
        "cwd": str(Path.cwd()),
        "tmp": tempfile.gettempdir(),
        "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
        "open": sorted(int(name.name) for name in Path("/proc/self/fd").iterdir()),
        "modules": sorted(sys.modules),
        "main": getattr(sys.modules["__main__"], "__file__", None),
    }
    return json.dumps(seen).encode()


def fail(payload: bytes) -> bytes:
    raise ValueError(payload.decode())


def segfault(_: bytes) -> bytes:
    print("about to crash", file=sys.stderr)
    ctypes.string_at(0)
    return b""


def leave(payload: bytes) -> bytes:
    os._exit(int(payload))


def leave_politely(payload: bytes) -> bytes:
    sys.exit(int(payload))


def sleep(payload: bytes) -> bytes:
    time.sleep(float(payload))
    return b"awake"


def spin(_: bytes) -> bytes:
    while True:
        pass


def flood(payload: bytes) -> bytes:
    for _ in range(int(payload)):
        os.write(1, b"x" * 65536)
    os.write(2, b"the end")
    os.abort()


def garble(_: bytes) -> bytes:
    for number in range(3, 64):
        try:
            os.write(number, b"garbage" * 100)
        except OSError:
            continue
    time.sleep(30)
    return b""


def close_everything(_: bytes) -> bytes:
    os.closerange(0, 256)
    return b"lost"


def not_bytes(_: bytes) -> bytes:
    return "text"  # type: ignore[return-value]


def allocate(payload: bytes) -> bytes:
    block = bytearray(int(payload))
    return str(len(block)).encode()


def write_file(payload: bytes) -> bytes:
    Path("big").write_bytes(bytes(int(payload)))
    return b"written"


def spawn(payload: bytes) -> bytes:
    """Leave one process in the group and one in a session of its own; answer, or hang, afterwards."""
    inside = subprocess.Popen(["sleep", "300"])
    outside = subprocess.Popen(["sleep", "300"], start_new_session=True)
    pids = f"{inside.pid} {outside.pid}".encode()
    if payload:
        Path(payload.decode()).write_bytes(pids)
        time.sleep(300)
    return pids


def note_server(payload: bytes) -> bytes:
    """Write the server's number to a file and wait to be killed; once the file is there, just answer."""
    note = Path(payload.decode())
    if note.exists():
        return b"survived"
    note.with_suffix(".new").write_text(str(os.getppid()))
    note.with_suffix(".new").rename(note)
    time.sleep(60)
    return b""


def kill_server(_: bytes) -> bytes:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)
    return b""


def look_outside(payload: bytes) -> bytes:
    return Path(f"/proc/{int(payload)}/environ").read_bytes()


def look_outside_as_grandchild(payload: bytes) -> bytes:
    return subprocess.run(["cat", f"/proc/{int(payload)}/environ"], check=True, capture_output=True).stdout


def move_to_parent(_: bytes) -> bytes:
    """Rename a file out of its folder, as every cache that writes aside first does."""
    folder = Path("folder")
    folder.mkdir()
    (folder / "file").write_bytes(b"moved")
    return (folder / "file").rename("file").read_bytes()


def connect(payload: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", int(payload)), timeout=5) as connection:
        return connection.recv(100)


def torch_sum(payload: bytes) -> bytes:
    """A parallel reduction: hangs in a child of a server that had OpenMP threads."""
    import torch

    size = int(payload)
    return str(int(torch.ones(size, size).matmul(torch.ones(size, size)).sum().item())).encode()


def torch_allocate(payload: bytes) -> bytes:
    import torch

    return str(torch.ones(int(payload), dtype=torch.uint8).numel()).encode()


CALLS: list[bytes] = []


def remember(payload: bytes, send: Callable[[bytes], None]) -> bytes:
    """Misbehave as told, else answer with everything this process was asked so far."""
    CALLS.append(payload)
    send(b"heard " + payload)
    word, _, rest = payload.decode().partition(" ")
    match word:
        case "fail":
            raise ValueError(rest)
        case "sleep":
            time.sleep(float(rest))
        case "segfault":
            return segfault(payload)
        case "leave":
            os._exit(int(rest))
        case "garble":
            return garble(payload)
        case "spawn":
            return spawn(rest.encode())
        case "pid":
            return str(os.getpid()).encode()
    return b",".join(CALLS)
