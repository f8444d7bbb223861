"""The process that runs kernels: what it may reach, what it knows, what it cannot make the judge believe."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from launching import line_of

from workbench.emulator import result
from workbench.emulator.hosts import RunnerEnded
from workbench.emulator.runner import Runner
from workbench.workers import ForkServer, Limits, Returned
from workbench.workers.confine import landlock_version

SECRET = "sk-workbench-test-0123456789abcdef"
landlock = pytest.mark.skipif(landlock_version() < 1, reason="this kernel has no Landlock")


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    """Started while the notebook's environment holds a key, as a notebook's does."""
    before = {name: os.environ.get(name) for name in ("OPENAI_API_KEY", "SOME_VENDOR_TOKEN")}
    os.environ.update(OPENAI_API_KEY=SECRET, SOME_VENDOR_TOKEN=SECRET)
    own = ForkServer(("torch", "workbench.emulator.runner", "workbench.emulator.execute"))
    yield own
    own.close()
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)


def asked(server: ForkServer, function: str, payload: bytes = b"") -> bytes:
    answer = server.call(f"enclosed:{function}", payload, Limits(wall_s=120, memory_bytes=2**31))
    assert isinstance(answer, Returned), answer
    return answer.payload


@landlock
def test_no_key_is_visible_from_inside_a_kernel(server: ForkServer, tmp_path: Path) -> None:
    keys = tmp_path / "credentials"
    keys.write_text(SECRET)
    notebook = os.getpid()
    paths = [str(keys), f"/proc/{notebook}/environ", f"/proc/{notebook}/mem"]
    paths += [f"/proc/{{{who}}}/environ" for who in ("self", "trusted", "server")]
    found = json.loads(asked(server, "read_files", json.dumps(paths).encode()))
    assert found == dict.fromkeys(paths), found
    assert (
        SECRET.encode()
        in Path(f"/proc/{notebook}/environ").read_bytes() + os.environ["OPENAI_API_KEY"].encode()
    )


def test_the_environment_a_kernel_inherits_has_no_key(server: ForkServer) -> None:
    """Where nothing stops a kernel from reading its own environment, there is nothing in it."""
    assert SECRET.encode() not in asked(server, "environment")


@landlock
def test_a_kernel_writes_no_file_and_calls_nobody(server: ForkServer, tmp_path: Path) -> None:
    assert json.loads(asked(server, "write_file", str(tmp_path / "left").encode())) == [[-1.0]]
    assert not (tmp_path / "left").exists()
    if landlock_version() >= 4:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = str(listener.getsockname()[1]).encode()
            assert json.loads(asked(server, "call_out", port)) == [[-1.0]]


@pytest.mark.skipif(landlock_version() < 6, reason="this kernel's Landlock cannot stop signals")
def test_a_kernel_cannot_trace_or_kill_the_judge(server: ForkServer) -> None:
    assert json.loads(asked(server, "attack_parent")) == [[-1.0, -1.0]]


def test_the_runner_knows_nothing_of_the_request(server: ForkServer) -> None:
    """Its memory is searched from outside for what only the payload held."""
    token = os.urandom(12).hex().encode()
    hits: list[int] = []
    answer = server.call(
        "enclosed:wait_with_secret",
        token,
        Limits(wall_s=120),
        lambda pid: hits.append(occurrences(int(pid), token)),
    )
    assert isinstance(answer, Returned)
    assert hits == [0]


def occurrences(pid: int, token: bytes) -> int:
    found = looked_at = 0
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, flags, *_ = line.split()
            low, high = (int(end, 16) for end in span.split("-"))
            if not flags.startswith("rw") or high - low > 2**28:  # the arena: tensors only
                continue
            memory.seek(low)
            text = memory.read(high - low)
            looked_at += len(text)
            found += text.count(token)
    assert looked_at > 2**20
    return found


def test_a_forged_report_leaves_the_output_unwritten(server: ForkServer) -> None:
    """The kernel says that nothing went wrong; its output is still the poison it was.

    Its process may also be gone before the next question, which then has no answer.
    """
    answer = asked(server, "forge", b"forges_answer")
    assert b"NaN" in answer or b"without an answer" in answer, answer
    assert b"0.0" not in answer, answer


def test_nonsense_is_the_kernel_s_end(server: ForkServer) -> None:
    assert b"makes no sense" in asked(server, "forge", b"speaks_nonsense")


GOOD: dict[str, Any] = {
    "stopped": 0, "blocks": 1, "traced_blocks": 1, "barriers": 0, "warp_operations": 0,
    "unit_products": 0, "printed": "", "print_calls": 0, "converses": 0, "faults": [], "sites": [],
}  # fmt: skip
FAULT = {
    "kind": "race", "pc": 1, "other_pc": 0, "size": 4, "action": 0, "thread": [0, 0, 0], "block": [0, 0, 0],
    "other_thread": -1, "place": 0, "offset": 0, "count": 1, "message": "",
}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        b"", b"[]", b"{}", b"\xff\xfe", b"[" * 100_000,
        json.dumps(GOOD | {"stopped": 2}).encode(),
        json.dumps(GOOD | {"blocks": -1}).encode(),
        json.dumps(GOOD | {"faults": [FAULT | {"place": 2**40}]}).encode(),
        json.dumps(GOOD | {"faults": [FAULT | {"thread": [0, 0]}]}).encode(),
        json.dumps(GOOD | {"faults": [FAULT | {"message": "x" * 10_000}]}).encode(),
        json.dumps(GOOD | {"sites": [{"pc": "here"}]}).encode(),
    ],
)  # fmt: skip
def test_a_report_is_read_with_care(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"makes no sense|bytes"):
        result.read(text)


def test_a_good_report_is_read() -> None:
    assert result.read(json.dumps(GOOD | {"faults": [FAULT]}).encode())["faults"][0]["kind"] == "race"


def test_a_runner_that_hangs_up_is_gone() -> None:
    import mmap

    ours, theirs = socket.socketpair()
    theirs.close()
    gone = Runner(2**22 - 1, ours, mmap.mmap(-1, 4096))
    with pytest.raises(RunnerEnded, match="gone"):
        gone._asked({})
    with pytest.raises(MemoryError):
        gone.storage(2**40)


def test_a_launch_that_does_not_end_is_stopped_by_its_processor_time(server: ForkServer) -> None:
    told, cpu_s, line, printed = json.loads(asked(server, "spin"))
    assert told == "the launch did not come to an end"
    assert 1.0 <= cpu_s < 60.0
    begin = line_of("host_code.cu", "do y[0] += 1.0f;")
    assert line in (begin, begin + 1)
    assert printed == "spinning\n"
