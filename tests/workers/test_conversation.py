"""A child that stays: several requests, deadlines, deaths, and what is left afterwards."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.workers import Conversation, Died, Expired, ForkServer, Limits, Raised, Returned

QUICK = Limits(wall_s=30.0)


@pytest.fixture(autouse=True)
def tasks_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    shared = ForkServer(())
    yield shared
    shared.close()


@pytest.fixture
def talk(server: ForkServer) -> Iterator[Conversation]:
    opened = server.open("misbehaviour:remember", QUICK)
    yield opened
    opened.close()


def pid_of(talk: Conversation) -> str:
    answer = talk.ask(b"pid")
    assert isinstance(answer, Returned)
    return answer.payload.decode()


def gone(pid: str) -> bool:
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_the_same_process_answers_every_request(talk: Conversation) -> None:
    assert talk.ask(b"one") == Returned(payload=b"one")
    assert talk.ask(b"two") == Returned(payload=b"one,two")
    assert not talk.over and talk.pid is not None


def test_messages_arrive_with_their_own_request(talk: Conversation) -> None:
    heard: list[bytes] = []
    talk.ask(b"one", on_message=heard.append)
    talk.ask(b"two")
    talk.ask(b"three", on_message=heard.append)
    assert heard == [b"heard one", b"heard three"]


def test_an_exception_leaves_the_child_ready(talk: Conversation) -> None:
    failed = talk.ask(b"fail once")
    assert isinstance(failed, Raised) and failed.message == "once"
    assert "child.py" not in failed.traceback
    assert talk.ask(b"again") == Returned(payload=b"fail once,again")


def test_a_large_payload_and_answer(talk: Conversation) -> None:
    body = b"x" * 3_000_000
    assert talk.ask(body) == Returned(payload=body)


@pytest.mark.parametrize(("how", "told"), [("segfault", "SIGSEGV"), ("leave 3", "exit code 3")])
def test_a_death_is_a_value_and_stays(talk: Conversation, how: str, told: str) -> None:
    died = talk.ask(how.encode())
    assert isinstance(died, Died) and told in died.message
    assert talk.over and talk.ask(b"anybody") == died


def test_garbage_ends_the_child(talk: Conversation) -> None:
    pid = pid_of(talk)
    died = talk.ask(b"garble")
    assert isinstance(died, Died) and "garbled" in died.message
    assert gone(pid)


def test_a_missed_deadline_ends_the_child_before_it_is_told(talk: Conversation) -> None:
    pid = pid_of(talk)
    assert talk.ask(b"sleep 60", wall_s=0.2) == Expired(limit_s=0.2)
    assert not Path(f"/proc/{pid}").exists()  # reaped: whatever it held is free again
    assert talk.ask(b"late") == Expired(limit_s=0.2)


def test_a_deadline_belongs_to_one_request(talk: Conversation) -> None:
    for _ in range(4):
        assert isinstance(talk.ask(b"sleep 0.15", wall_s=10.0), Returned)
    assert isinstance(talk.ask(b"sleep 0.0", wall_s=5.0), Returned)


def test_what_a_child_started_ends_with_it(talk: Conversation, tmp_path: Path) -> None:
    note = tmp_path / "pids"
    assert isinstance(talk.ask(f"spawn {note}".encode(), wall_s=2.0), Expired)
    assert all(gone(pid) for pid in note.read_text().split())


def test_a_child_that_dies_between_requests(talk: Conversation) -> None:
    pid = pid_of(talk)
    os.kill(int(pid), signal.SIGKILL)
    assert gone(pid)
    died = talk.ask(b"hello")
    assert isinstance(died, Died) and died.signal == "SIGKILL"


def test_close_ends_a_request_in_flight(server: ForkServer) -> None:
    talk = server.open("misbehaviour:remember", QUICK)
    pid = pid_of(talk)
    answers: list[object] = []
    heard = threading.Event()
    thread = threading.Thread(
        target=lambda: answers.append(talk.ask(b"sleep 60", on_message=lambda _: heard.set()))
    )
    thread.start()
    assert heard.wait(10)
    talk.close()
    thread.join(10)
    assert len(answers) == 1 and isinstance(answers[0], Died)
    assert gone(pid)
    talk.close()
    assert isinstance(talk.ask(b"more"), Died)


def test_end_waits_until_the_child_is_gone(talk: Conversation) -> None:
    pid = pid_of(talk)
    talk.end()
    assert not Path(f"/proc/{pid}").exists()
    assert talk.over and isinstance(talk.ask(b"more"), Died)


def test_a_listener_that_raises_ends_the_child(talk: Conversation) -> None:
    def refuse(_: bytes) -> None:
        raise KeyError("stop")

    pid = pid_of(talk)
    with pytest.raises(KeyError):
        talk.ask(b"one", on_message=refuse)
    assert talk.over and gone(pid)


def test_other_calls_go_on_beside_a_conversation(server: ForkServer, talk: Conversation) -> None:
    talk.ask(b"one")
    assert server.call("misbehaviour:echo", b"beside", QUICK) == Returned(payload=b"beside")
    assert talk.ask(b"two") == Returned(payload=b"one,two")


def test_the_end_of_the_server_ends_the_conversation() -> None:
    own = ForkServer(())
    talk = own.open("misbehaviour:remember", QUICK)
    pid = pid_of(talk)
    own.close()
    assert isinstance(talk.ask(b"one"), Died)
    assert gone(pid)
    talk.close()
