"""A kernel with counters of its own, called from several streams: who waits for whom."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from recorded_driver import RecordedDriver, f32, plan_of

from workbench.errors import GpuError
from workbench.gpu import driver as cuda
from workbench.gpu import program
from workbench.gpu.kernels import Image, Kernels, load
from workbench.gpu.runner import PlanRunner
from workbench.gpu.turn import NotNow

PLAN = """/* plan
def plan(x):
    y = empty_like(x)
    launch("twice", grid=cdiv(x.numel, 128), block=128, args=[x, y, x.numel])
    return y
*/
"""
KERNEL = """extern "C" __global__ void twice(const float* x, float* y, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = 2.0f * x[i];
"""
PLAIN = PLAN + KERNEL + "}\n"
COUNTING = PLAN + "__device__ unsigned done;\n" + KERNEL + "    atomicInc(&done, gridDim.x - 1);\n}\n"
X = torch.arange(256.0)


class Streams(RecordedDriver):
    """Notes who was made to wait for whom; ``captures`` are the streams in a capture, with its number."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[tuple[int, int]] = []
        self.captures: dict[int, int] = {}
        self.asked = 0

    def capture_of(self, stream: int, device: int) -> int:
        self.asked += 1
        return self.captures.get(stream, 0)

    def event(self, device: int) -> Any:
        return object()

    def follow(self, later: int, earlier: int, event: Any, device: int) -> None:
        within = self.captures.get(earlier, 0)
        assert within == self.captures.get(later, 0), "a wait across the border of a capture spoils it"
        self.waits.append((later, earlier))


class Caller:
    """Calls a kernel in the stream of the moment."""

    def __init__(self, source: str, monkeypatch: pytest.MonkeyPatch, applied: bool = True) -> None:
        self.driver, self.stream = Streams(), 7
        monkeypatch.setattr(program, "_no_stream", lambda device: self.stream)
        plan = plan_of(source, {"x": f32(256)})
        self.kernels = load(source, [plan], driver=self.driver)
        self.runner = PlanRunner(plan, self.kernels, applied)

    def __call__(self, *streams: int) -> list[tuple[int, int]]:
        """Call in one stream after the other; the waits so far."""
        for self.stream in streams:
            (y,) = self.runner({"x": X})
            assert torch.equal(y, 2 * X)
        return self.driver.waits


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Caller:
    return Caller(COUNTING, monkeypatch)


def test_another_stream_waits_for_the_one_before(call: Caller) -> None:
    assert call(7, 7, 7) == []
    assert call(9, 9, 7) == [(9, 7), (7, 9)]


def test_calls_in_one_stream_ask_nobody(call: Caller) -> None:
    call(7)
    asked = call.driver.asked
    call(*[7] * 20)
    assert call.driver.asked == asked


def test_kernels_without_variables_and_judged_ones_have_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    for source, applied in ((PLAIN, True), (COUNTING, False)):
        call = Caller(source, monkeypatch, applied)
        assert call(7, 9, 7) == [] and call.driver.asked == 0
        assert "turn" not in call.runner.prepare(-1).run.__code__.co_names


def test_all_shapes_of_a_kernel_share_its_turn(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    call(7)
    plan = plan_of(COUNTING, {"x": f32(2, 128)})
    other = PlanRunner(plan, call.kernels, applied=True)
    call.stream = 9
    other({"x": X.view(2, 128)})
    assert call.driver.waits == [(9, 7)]


def test_a_capture_is_no_launch_and_waits_for_none(call: Caller) -> None:
    call(7)
    call.driver.captures = {9: 1}
    assert call(9, 9) == []
    call.driver.captures = {}
    assert call(7) == []  # nothing has run in between
    assert call(9) == [(9, 7)]


def test_the_streams_of_one_capture_wait_for_each_other(call: Caller) -> None:
    call(7)
    call.driver.captures = {8: 1, 9: 1}
    assert call(8, 9, 9, 8) == [(9, 8), (8, 9)]
    call.driver.captures = {8: 2, 9: 2}
    call.driver.waits.clear()
    assert call(9) == []  # the graph before is another one
    assert call(8) == [(8, 9)]


def test_a_capture_may_begin_in_the_stream_of_the_last_call(call: Caller) -> None:
    call(7)
    call.driver.captures = {7: 1, 9: 1}
    assert call(7, 9, 7) == [(9, 7), (7, 9)]
    call.driver.captures = {}
    call.driver.waits.clear()
    assert call(7) == [] and call(9) == [(9, 7)]


def test_no_stream_can_wait_for_one_that_is_being_captured(call: Caller) -> None:
    call(7)
    call.driver.captures = {7: 1}
    with pytest.raises(NotNow, match="in one stream until the capture ends"):
        call(9)
    call.driver.captures = {}
    assert call(9) == [(9, 7)]


def test_a_wait_that_is_refused_is_not_taken_for_one(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    call(7)

    def refuse(*_: object) -> None:
        raise GpuError("no such stream")

    with monkeypatch.context() as patch:
        patch.setattr(call.driver, "follow", refuse)
        for _ in range(2):
            with pytest.raises(GpuError):
                call(9)
    assert call(9) == [(9, 7)]


class Bindings:
    """Stands for ``cuda.bindings.driver``: notes calls, and refuses one."""

    CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)
    CUstream = CUresult = staticmethod(int)

    def __init__(self, refused: str = "", captured: int = 0) -> None:
        self.calls: list[str] = []
        self.refused, self.captured = refused, captured

    def __getattr__(self, name: str) -> Callable[..., tuple[Any, ...]]:
        def call(*given: Any) -> tuple[Any, ...]:
            self.calls.append(" ".join([name, *map(str, given)]))
            code = 400 if name == self.refused else 0
            if name == "cuStreamGetCaptureInfo":
                return code, 1 if self.captured else 0, self.captured, None, [], 0
            return code, "event" if name == "cuEventCreate" else "context"

        return call


def bound(monkeypatch: pytest.MonkeyPatch, bindings: Bindings) -> Bindings:
    monkeypatch.setattr(cuda, "_bindings", lambda: bindings)
    return bindings


def test_what_the_driver_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = object.__new__(cuda.Driver)
    monkeypatch.setattr(cuda, "_primary_context", lambda device: f"context{device}")
    around = ["cuCtxPushCurrent context3", "cuCtxPopCurrent"]
    free = bound(monkeypatch, Bindings())
    driver.follow(9, 7, driver.event(3), 3)
    assert free.calls[3:] == [around[0], "cuEventRecord event 7", "cuStreamWaitEvent 9 event 0", around[1]]
    assert free.calls[1] == "cuEventCreate 2"
    assert [driver.capture_of(stream, 3) for stream in (0, 1, 9)] == [0, 0, 0]
    assert sum("CaptureInfo" in call for call in free.calls) == 1
    bound(monkeypatch, Bindings(captured=12))
    assert driver.capture_of(9, 3) == 12
    gone = bound(monkeypatch, Bindings("cuEventRecord"))
    driver.follow(9, 7, "event", 3)  # the stream is no more: all that it was given is waited for
    assert gone.calls[-2:] == ["cuCtxSynchronize", around[1]]


def test_threads_take_turns(call: Caller) -> None:
    """Between the wait for a launch and that launch nobody else launches."""
    running: list[int] = []
    launches: list[int] = []
    own = call.driver.follow
    lay = call.runner.prepare(-1)
    turn = call.kernels.turn(call.runner.plan, -1)
    assert turn is not None

    def follow(later: int, earlier: int, event: Any, device: int) -> None:
        assert turn.lock._is_owned()  # type: ignore[attr-defined]
        running.append(later)
        own(later, earlier, event, device)

    call.driver.follow = follow  # type: ignore[method-assign]
    streams = threading.local()
    lay.run.__globals__["stream_of"] = lambda device: streams.own

    def work(number: int) -> None:
        streams.own = number
        for _ in range(30):
            lay.run([X])
            launches.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in (3, 5, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(launches) == 90
    followed = [later for later, _ in call.driver.waits]
    assert followed == running
    assert all(later != earlier for later, earlier in call.driver.waits)
    chain = [call.driver.waits[0][1], *followed] if followed else []
    assert [(b, a) for a, b in pairwise(chain)] == call.driver.waits


def test_variables_are_found_by_the_code_they_come_with() -> None:
    plan = plan_of(PLAIN, {"x": f32(256)})
    assert Kernels([Image((), b"", (("twice", "twice"),))], Streams()).turn(plan, -1) is None
