"""The fork-server against children that misbehave in every way we know of."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from workbench.errors import DeviceError
from workbench.workers import Died, Expired, ForkServer, Limits, Raised, Returned
from workbench.workers.confine import landlock_version

QUICK = Limits(wall_s=30.0)


@pytest.fixture(autouse=True)
def tasks_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children get the caller's module path."""
    monkeypatch.syspath_prepend(Path(__file__).parent)


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    """One server for all tests: each must leave it usable."""
    shared = ForkServer(())
    yield shared
    shared.close()


def run(server: ForkServer, name: str, payload: bytes = b"", limits: Limits = QUICK) -> Any:
    return server.call(f"misbehaviour:{name}", payload, limits)


def becomes(condition: Callable[[], bool]) -> bool:
    """Wait for what happens a moment after the answer."""
    for _ in range(200):
        if condition():
            return True
        time.sleep(0.05)
    return False


def gone(pid: str) -> bool:
    """True once a process has ended; a zombie counts as ended."""

    def ended() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    return becomes(ended)


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_returns(server: ForkServer) -> None:
    assert run(server, "echo", b"hello") == Returned(payload=b"hello")


def test_large_payload_and_answer(server: ForkServer) -> None:
    body = os.urandom(2**20) * 20
    assert run(server, "echo", body).payload == body


def test_progress_comes_in_order(server: ForkServer) -> None:
    seen: list[bytes] = []
    result = server.call("misbehaviour:progress", b"step ", QUICK, seen.append)
    assert (result, seen) == (Returned(payload=b"done"), [b"step 0", b"step 1", b"step 2"])


def test_progress_without_a_listener(server: ForkServer) -> None:
    assert run(server, "progress") == Returned(payload=b"done")


def test_error_of_the_listener_reaches_the_caller(server: ForkServer) -> None:
    def refuse(message: bytes) -> None:
        raise LookupError(message)

    with pytest.raises(LookupError):
        server.call("misbehaviour:progress", b"", QUICK, refuse)
    assert run(server, "echo", b"still here") == Returned(payload=b"still here")


def test_exception(server: ForkServer) -> None:
    result = run(server, "fail", b"no good")
    assert isinstance(result, Raised)
    assert (result.type, result.message) == ("ValueError", "no good")
    assert "in fail" in result.traceback and "child.py" not in result.traceback


@pytest.mark.parametrize(
    ("function", "type_name"),
    [
        ("misbehaviour:absent", "AttributeError"),
        ("absent_module:f", "ModuleNotFoundError"),
        ("misbehaviour:not_bytes", "TypeError"),
    ],
)
def test_wrong_function(server: ForkServer, function: str, type_name: str) -> None:
    result = server.call(function, b"", QUICK)
    assert isinstance(result, Raised) and result.type == type_name


def test_segfault(server: ForkServer) -> None:
    result = run(server, "segfault")
    assert isinstance(result, Died)
    assert (result.signal, result.exit_code) == ("SIGSEGV", None)
    assert "about to crash" in result.stderr_tail and "in segfault" in result.stderr_tail


@pytest.mark.parametrize("way", ["leave", "leave_politely"])
@pytest.mark.parametrize("code", [0, 3])
def test_exit(server: ForkServer, way: str, code: int) -> None:
    result = run(server, way, str(code).encode())
    assert isinstance(result, Died) and result.exit_code == code


def test_hang(server: ForkServer) -> None:
    assert run(server, "sleep", b"60", Limits(wall_s=0.2)) == Expired(limit_s=0.2)


def test_cpu_limit(server: ForkServer) -> None:
    assert run(server, "spin", limits=Limits(cpu_s=1)) == Expired(limit_s=1.0, clock="cpu")


def test_memory_limit(server: ForkServer) -> None:
    small = Limits(memory_bytes=2**26)
    assert run(server, "allocate", b"33554432", small) == Returned(payload=b"33554432")
    result = run(server, "allocate", b"134217728", small)
    assert isinstance(result, Raised) and result.type == "MemoryError"


def test_file_limit(server: ForkServer) -> None:
    result = run(server, "write_file", b"100000", Limits(file_bytes=50_000))
    assert isinstance(result, Raised) and "File too large" in result.message


def test_flood_keeps_the_tail_only(server: ForkServer) -> None:
    result = run(server, "flood", b"1000")
    assert isinstance(result, Died) and result.signal == "SIGABRT"
    assert "the end" in result.stderr_tail and len(result.stderr_tail) <= 8192


def test_garbage_on_the_channel(server: ForkServer) -> None:
    result = run(server, "garble")
    assert isinstance(result, Died) and "garbled" in result.message


def test_closed_descriptors(server: ForkServer) -> None:
    assert isinstance(run(server, "close_everything"), Died)


def test_grandchildren_end_with_an_answer(server: ForkServer) -> None:
    pids = run(server, "spawn").payload.decode().split()
    assert all(gone(pid) for pid in pids)


def test_grandchildren_end_with_a_deadline(server: ForkServer, tmp_path: Path) -> None:
    note = tmp_path / "pids"
    assert isinstance(run(server, "spawn", str(note).encode(), Limits(wall_s=2.0)), Expired)
    assert all(gone(pid) for pid in note.read_text().split())


def test_child_is_shut_in(server: ForkServer) -> None:
    seen = json.loads(run(server, "facts").payload)
    assert seen["core"] == 0 and seen["threads"] == 1
    assert seen["cwd"] == seen["tmp"]
    assert becomes(lambda: not Path(seen["cwd"]).exists())
    assert "pytest" not in seen["modules"] and seen["main"] is None
    # 0-2, the channel, and the descriptor that lists them
    assert len(seen["open"]) == 5


def test_no_secret_in_any_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-" + os.urandom(8).hex()
    for name in ("OPENAI_API_KEY", "WORKBENCH_KEY", "AWS_SECRET_ACCESS_KEY", "PYTHONSTARTUP"):
        monkeypatch.setenv(name, secret)
    monkeypatch.setenv("WORKBENCH_TEST_CACHE", "kept")
    own = ForkServer(())
    try:
        text = run(own, "facts").payload.decode()
    finally:
        own.close()
    assert secret not in text
    assert json.loads(text)["environ"]["WORKBENCH_TEST_CACHE"] == "kept"


@pytest.mark.skipif(landlock_version() < 1, reason="this kernel has no Landlock")
def test_no_look_into_the_notebook(server: ForkServer) -> None:
    result = run(server, "look_outside", str(os.getpid()).encode())
    assert isinstance(result, Raised) and result.type == "PermissionError"
    result = run(server, "look_outside_as_grandchild", str(os.getpid()).encode())
    assert isinstance(result, Raised) and result.type == "CalledProcessError"


def test_files_move_between_folders(server: ForkServer) -> None:
    assert run(server, "move_to_parent") == Returned(payload=b"moved")


@pytest.mark.skipif(landlock_version() < 6, reason="this kernel's Landlock cannot stop signals")
def test_no_signal_to_the_server(server: ForkServer) -> None:
    result = run(server, "kill_server")
    assert isinstance(result, Raised) and result.type == "PermissionError"


@pytest.mark.skipif(landlock_version() < 4, reason="this kernel's Landlock cannot stop connections")
@pytest.mark.parametrize("allowed", [True, False])
def test_network_only_where_allowed(server: ForkServer, allowed: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as thread:
        listener.settimeout(60)
        port = str(listener.getsockname()[1]).encode()
        answer = thread.submit(run, server, "connect", port, Limits(network=allowed))
        if allowed:
            connection, _ = listener.accept()
            with connection:
                connection.send(b"hello")
            assert answer.result() == Returned(payload=b"hello")
        else:
            assert answer.result().type == "PermissionError"


def test_many_at_once(server: ForkServer) -> None:
    def one(number: int) -> bool:
        if number % 5 == 0:
            return isinstance(run(server, "segfault"), Died)
        if number % 5 == 1:
            return bool(run(server, "leave", b"9").exit_code == 9)
        body = str(number).encode() * 1000
        return bool(run(server, "echo", body) == Returned(payload=body))

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(one, range(60)))


def test_descriptors_do_not_pile_up(server: ForkServer) -> None:
    run(server, "echo")
    before = open_descriptors()
    for name in ("echo", "segfault", "garble", "fail"):
        run(server, name)
    assert open_descriptors() == before


def kill_when_noted(note: Path) -> int:
    """Kill the server whose child wrote the note."""
    assert becomes(note.exists)
    pid = int(note.read_text())
    os.kill(pid, signal.SIGKILL)
    return pid


def test_server_death_is_survived_once(server: ForkServer, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as thread:
        result = thread.submit(run, server, "note_server", str(tmp_path / "server").encode())
        kill_when_noted(tmp_path / "server")
        assert result.result(30) == Returned(payload=b"survived")


def test_server_that_dies_twice_is_a_machine_fault(server: ForkServer, tmp_path: Path) -> None:
    note = tmp_path / "server"
    with ThreadPoolExecutor(1) as thread:
        result = thread.submit(run, server, "note_server", str(note).encode())
        assert becomes(note.exists)
        first = int(note.read_text())
        note.unlink()
        os.kill(first, signal.SIGKILL)
        assert kill_when_noted(note) != first
        with pytest.raises(DeviceError, match="server ended"):
            result.result(30)
    assert run(server, "echo", b"again") == Returned(payload=b"again")


def test_preload_that_fails_is_explained() -> None:
    broken = ForkServer(("no_such_module_here",))
    with pytest.raises(DeviceError, match="no_such_module_here"):
        broken.call("misbehaviour:echo", b"", QUICK)


def test_close_ends_calls_in_flight(tmp_path: Path) -> None:
    own = ForkServer(())
    failed: list[BaseException] = []

    def wait() -> None:
        try:
            run(own, "spawn", str(tmp_path / "pids").encode())
        except DeviceError as error:
            failed.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while not (tmp_path / "pids").exists():
        time.sleep(0.02)
    own.close()
    thread.join(10)
    assert len(failed) == 1
    assert all(gone(pid) for pid in (tmp_path / "pids").read_text().split())


@pytest.mark.parametrize("kind", ["alone", "copied"])
def test_killed_notebook_leaves_nothing(tmp_path: Path, kind: str) -> None:
    note = tmp_path / "pids"
    script = Path(__file__).with_name("killed_notebook.py")
    with subprocess.Popen(
        [sys.executable, str(script), str(note), kind],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    ) as notebook:
        assert notebook.stdout is not None
        server_pid, scratch, copy = notebook.stdout.readline().split()
        assert becomes(note.exists)
        notebook.send_signal(signal.SIGKILL)
    try:
        assert gone(server_pid)
    finally:
        if int(copy):
            os.kill(int(copy), signal.SIGKILL)
    assert all(gone(pid) for pid in note.read_text().split())
    assert becomes(lambda: not Path(scratch).exists())


def test_import_is_light() -> None:
    code = "import sys, workbench.workers; assert not {'torch', 'cuda', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
