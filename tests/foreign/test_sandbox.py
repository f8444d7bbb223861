"""The sandbox from the inside: what a solution's process can see of the world, and how it can end."""

from __future__ import annotations

import json
import os
import platform
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from workbench.foreign import files, sandbox, syscalls
from workbench.workers import ForkServer, Limits, Returned
from workbench.workers.confine import landlock_version

SECRET = "sk-" + os.urandom(8).hex()
HERE = Path(__file__).parent
LANDLOCK = pytest.mark.skipif(landlock_version() < 6, reason="this kernel's Landlock is older than version 6")
X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")
LIMITS = Limits(wall_s=60, file_bytes=2**34)


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    """A server started by a process that has keys in its environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(HERE)
        for name in ("OPENAI_API_KEY", "WORKBENCH_KEY", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, SECRET)
        own = ForkServer(())
        yield own
        own.close()


def run(server: ForkServer, name: str, payload: bytes) -> dict[str, Any]:
    result = server.call(f"probes:{name}", payload, LIMITS)
    assert isinstance(result, Returned), result
    found: dict[str, Any] = json.loads(result.payload)
    return found


@LANDLOCK
def test_cuda_could_name_its_threads_and_nobody_elses(server: ForkServer) -> None:
    found = run(server, "name_threads", b"")
    assert (found["thread"], found["own"]) == ("written", "written"), found
    assert found["others"] != "written", found


@pytest.fixture(scope="module")
def seen(server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a solution's process sees."""
    secret = tmp_path_factory.mktemp("private") / "key"
    secret.write_text(SECRET)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        places = {
            "parent": os.getpid(),
            "home": str(Path.home()),
            "secret": str(secret),
            "problem": str(HERE / "problems" / "row_softmax.py"),
            "judge": str(Path(sandbox.__file__)),
            "port": listener.getsockname()[1],
        }
        return run(server, "look", json.dumps(places).encode())


def test_no_key_is_seen_anywhere(seen: dict[str, Any]) -> None:
    assert SECRET not in json.dumps(seen)
    assert not {name for name in seen["environ"] if "KEY" in name}


def test_caches_and_home_are_private(seen: dict[str, Any]) -> None:
    scratch = seen["cwd"]
    assert seen["environ"]["HOME"] == seen["environ"]["TMPDIR"] == seen["temporary"] == scratch
    for name in sandbox.CACHES:
        assert seen["environ"][name].startswith(scratch)
    assert seen["write scratch"] == "done: 1" and not Path(scratch).exists()


@LANDLOCK
@pytest.mark.parametrize(
    "what", ["home", "secret", "problem", "shadow", "write", "write judge", "their environ"]
)
def test_files_out_of_reach(seen: dict[str, Any], what: str) -> None:
    assert seen[what].startswith(("PermissionError", "FileNotFoundError")), seen[what]


@LANDLOCK
def test_not_through_a_child_either(seen: dict[str, Any]) -> None:
    assert seen["grandchild"].startswith("CalledProcessError")
    assert seen["signal"].startswith(("PermissionError", "ProcessLookupError"))


@LANDLOCK
def test_without_process_numbers_of_its_own_it_signals_nobody_outside(server: ForkServer) -> None:
    found = run(server, "signal_around", b"")
    assert found["child"].startswith("done")
    assert found["trusted"].startswith("PermissionError") and found["keeper"].startswith("PermissionError")


def test_no_network(seen: dict[str, Any]) -> None:
    assert seen["tcp"].startswith(("PermissionError", "OSError", "ConnectionRefusedError"))
    if seen["fences"]["system calls (seccomp)"].startswith("yes"):
        assert seen["udp"].startswith("PermissionError") and seen["netlink"].startswith("PermissionError")
    if seen["fences"]["own network"] == "yes":
        assert seen["interfaces"] == "done: 1"  # the loopback of its own


def test_limits(seen: dict[str, Any]) -> None:
    assert seen["too much"].startswith("MemoryError")
    assert "File too large" in seen["too large"]
    assert seen["core"] == 0 and seen["descriptors"] == 5  # 0-2, the channel, and the one that lists them


@X86
@pytest.mark.skipif(syscalls.pyseccomp is None, reason="libseccomp is not installed")
@pytest.mark.parametrize("call", ["ptrace", "unshare", "io_uring"])
def test_system_calls_are_refused(seen: dict[str, Any], call: str) -> None:
    assert seen[call] == "Operation not permitted" and seen["seccomp"] == "2"


def test_privileges_are_gone(seen: dict[str, Any]) -> None:
    assert int(seen["capabilities"], 16) == 0 and seen["no new privileges"] == "1"


def test_every_fence_is_told(seen: dict[str, Any]) -> None:
    assert len(seen["fences"]) == 9
    assert all(holds.startswith(("yes", "no: ", "in part: ")) for holds in seen["fences"].values())
    assert seen["fences"]["control group"].startswith("no: ")


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(syscalls, "pyseccomp", None)
    monkeypatch.setattr(files, "landlock_version", lambda: 0)
    told = syscalls.refuse_syscalls()
    assert told.startswith("no: ") and "libseccomp2" in told and "pyseccomp" in told
    assert files.limit_files(tmp_path) == "no: this kernel has no Landlock"


# ------------------------------------------------------------------------------------ ends


@pytest.mark.parametrize(
    ("way", "told"),
    [
        ("exit", "exit code 3"),
        ("crash", "SIGSEGV"),
        ("garbage", "garbled"),
        ("no number", "nobody had asked"),
        ("not an object", "garbled"),
        ("too long", "garbled"),
        ("deep", "garbled"),
        ("crowd", "more than 32 processes"),
        ("complaint", "no such kernel"),
    ],
)
def test_ends(server: ForkServer, way: str, told: str) -> None:
    assert told in run(server, "end", way.encode())["ended"]


def test_hang(server: ForkServer) -> None:
    assert run(server, "end", b"hang")["expired"] == 1.5


def test_answer(server: ForkServer) -> None:
    found = run(server, "end", b"properly")
    assert found == {"answer": {"word": "hello"}, "others": 0, "busy": False}


def test_company_is_seen(server: ForkServer) -> None:
    found = run(server, "end", b"with company")
    assert found["others"] == 2 and found["busy"] is True
