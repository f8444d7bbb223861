"""The process that holds a GPU and the warm one behind it, with a pretended GPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from workbench.devices.warm import WarmPair
from workbench.errors import DeviceError
from workbench.referee.gpu_judge import Loss
from workbench.workers import Conversation, Died, Expired, ForkServer, Limits, Result, Returned


@pytest.fixture(autouse=True)
def serve_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    shared = ForkServer(())
    yield shared
    shared.close()


def opened(server: ForkServer) -> Conversation:
    return server.open("pretended:serve", Limits(wall_s=30.0))


@pytest.fixture
def pair(server: ForkServer) -> Iterator[WarmPair]:
    made = WarmPair(partial(opened, server), b"warm")
    yield made
    made.close()


def loss(result: Result) -> Loss:
    if not isinstance(result, Returned):
        return "lost"
    word = result.payload.decode().split()[0]
    return "running" if word == "running" else "lost" if word == "broken" else "none"


def pid(result: Result) -> int:
    assert isinstance(result, Returned)
    return int(result.payload.split()[0])


def ask(pair: WarmPair, payload: bytes, wall_s: float = 30.0) -> Result:
    return pair.ask(payload, wall_s, loss)


def test_one_process_answers_until_it_is_lost(pair: WarmPair) -> None:
    first = ask(pair, b"a")
    assert pid(ask(pair, b"b")) == pid(first)
    assert pair.losses == 0
    assert pair.warmed() == f"warm {pid(first)}".encode()


@pytest.mark.parametrize("word", [b"broken", b"running", b"segfault"])
def test_the_spare_takes_over(pair: WarmPair, word: bytes) -> None:
    first = pid(ask(pair, b"a"))
    ask(pair, word)
    second = pid(ask(pair, b"b"))
    assert second != first and pair.losses == 1
    ask(pair, word)
    assert pid(ask(pair, b"c")) not in (first, second) and pair.losses == 2


def test_a_process_whose_kernel_still_runs_is_gone_before_the_next_is_asked(pair: WarmPair) -> None:
    first = pid(ask(pair, b"a"))
    ask(pair, b"running")
    assert not Path(f"/proc/{first}").exists()


def test_a_process_that_has_run_nobody_s_kernel_is_another_one(pair: WarmPair) -> None:
    """Whoever asks for that may have been behind another kernel in the queue, whose process it would get."""
    first = pid(pair.ask(b"a", 30.0, loss, fresh=True))
    second = pid(pair.ask(b"b", 30.0, loss, fresh=True))
    assert second != first and pid(ask(pair, b"c")) == second


def test_a_request_is_made_when_its_turn_has_come(pair: WarmPair) -> None:
    found: list[bytes] = []
    begun = threading.Event()

    def later() -> bytes:
        return found[0]

    def first() -> bytes:
        begun.set()
        time.sleep(0.2)  # the other one waits by now
        found.append(b"found")
        return b"a"

    with ThreadPoolExecutor(2) as pool:
        busy = pool.submit(pair.ask, first, 30.0, loss)
        begun.wait()
        answer = pool.submit(pair.ask, later, 30.0, loss).result()
        assert pid(answer) == pid(busy.result())


def test_a_hang_costs_its_own_request_only(pair: WarmPair) -> None:
    first = pid(ask(pair, b"a"))
    assert ask(pair, b"hang", wall_s=0.3) == Expired(limit_s=0.3)
    assert not Path(f"/proc/{first}").exists()
    assert pid(ask(pair, b"b")) != first


def test_the_spare_is_warm_before_it_is_needed(server: ForkServer) -> None:
    pair = WarmPair(partial(opened, server), b"warm 0.5", b"warm")
    try:
        ask(pair, b"a")
        pair.ask(b"b", 30.0, loss, quiet=True)
        spare = pair._spare
        assert spare is not None and spare.warm_s >= 0.5
        ask(pair, b"broken")
        assert f"warm {pid(ask(pair, b'c'))}".encode() == spare.warmed
    finally:
        pair.close()


def test_requests_take_turns(pair: WarmPair) -> None:
    inside, most, lock = [0], [0], threading.Lock()

    def one() -> None:
        def heard(_: bytes) -> None:
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])

        pair.ask(b"x", 30.0, loss, heard)
        with lock:
            inside[0] -= 1

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most[0] <= 2  # the next may be heard before this thread has left


def test_a_gpu_that_cannot_be_had_is_a_machine_fault(server: ForkServer) -> None:
    pair = WarmPair(partial(opened, server), b"fails")
    with pytest.raises(DeviceError, match="no kernel image"):
        ask(pair, b"a")
    with pytest.raises(DeviceError, match="no kernel image"):
        pair.warmed()
    pair.close()


def test_a_first_failure_is_tried_once_more(server: ForkServer) -> None:
    pair = WarmPair(partial(opened, server), b"warm", b"fails")
    assert isinstance(ask(pair, b"a"), Returned)
    pair.close()


def test_close_ends_both_and_refuses(server: ForkServer) -> None:
    pair = WarmPair(partial(opened, server), b"warm")
    ask(pair, b"a")
    pair.close()
    with pytest.raises(DeviceError, match="closed"):
        ask(pair, b"b")


def test_a_request_that_closing_ends_is_blamed_on_nobody(server: ForkServer) -> None:
    pair = WarmPair(partial(opened, server), b"warm")
    asked, failed = threading.Event(), []

    def hang() -> None:
        try:
            pair.ask(b"hang aloud", 30.0, loss, lambda _: asked.set())
        except DeviceError as error:
            failed.append(str(error))

    thread = threading.Thread(target=hang)
    thread.start()
    assert asked.wait(30)
    pair.close()
    thread.join(30)
    assert len(failed) == 1 and "closed" in failed[0]


def test_a_lost_answer_is_handed_on(pair: WarmPair) -> None:
    assert isinstance(ask(pair, b"segfault"), Died)
