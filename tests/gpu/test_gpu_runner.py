"""A plan runner against a driver that records: layout of every launch, buffers, views, threads, errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch
from recorded_driver import PARAMETERS, RecordedDriver, f32, kernels_of, plan_of

from workbench.errors import GpuError, GpuFault
from workbench.gpu import library_calls
from workbench.gpu.runner import PlanRunner
from workbench.gpu.swift import swift_launch
from workbench.model import TensorMeta
from workbench.referee.librarymeta import library_meta

AFFINE = """/* plan
def plan(x):
    y = empty_like(x)
    launch("affine", grid=(2, 3, 4), block=(32, 2), smem=1024, args=[x, y, x.numel, 3, 0.5, True, 7])
    return y
*/
__global__ void affine(const float* x, float* y, int count, float factor, double shift, bool negate,
                       unsigned char more) {}
"""
TWICE = "__global__ void twice(const float* x, float* y, int count) {}"
RELU = f"""/* plan
def plan(x):
    s = library("aten.relu", x)
    y = empty_like(s)
    launch("twice", grid=1, block=32, args=[s, y, s.numel])
    return y
*/
{TWICE}
"""
LEAVE = "__global__ void leave(float* y, long long count) {}"


@pytest.fixture
def driver() -> Iterator[RecordedDriver]:
    made = RecordedDriver()
    yield made
    made.slow_down(0)
    made.refuse_next(0)


class Way:
    """How launches are made in the test that runs."""

    swift = False


@pytest.fixture(autouse=True, params=["ctypes", "C"])
def way(request: pytest.FixtureRequest) -> None:
    Way.swift = request.param == "C"
    assert not Way.swift or swift_launch() is not None, "no C compiler here, or no Python.h"


def runner_of(source: str, driver: RecordedDriver, **metas: TensorMeta) -> PlanRunner:
    plan = plan_of(source, metas, library_meta)
    return PlanRunner(plan, kernels_of(plan, driver), Way.swift)


def test_every_argument_arrives_as_its_own_type(driver: RecordedDriver) -> None:
    runner = runner_of(AFFINE, driver, x=f32(5, 7))
    x = torch.randn(5, 7)
    (y,) = runner({"x": x})
    torch.testing.assert_close(y, -(3 * x + 0.5 + 7))
    assert driver.geometry() == [2, 3, 4, 32, 2, 1, 1024, 0, 0, 0, 0, 0]


def test_clusters_travel_as_an_attribute(driver: RecordedDriver) -> None:
    source = AFFINE.replace("smem=1024", "cluster=(2, 1, 2)")
    runner = runner_of(source, driver, x=f32(4))
    runner({"x": torch.ones(4)})
    assert driver.geometry() == [2, 3, 4, 32, 2, 1, 0, 1, 2, 1, 2, 0]
    assert driver.functions == [("affine", -1, 0, 4)]


def test_a_cooperative_launch_says_so(driver: RecordedDriver) -> None:
    source = AFFINE.replace("smem=1024", "cooperative=True")
    runner_of(source, driver, x=f32(4))({"x": torch.ones(4)})
    assert driver.geometry() == [2, 3, 4, 32, 2, 1, 0, 1, 0, 0, 0, 1]


def test_blocks_that_do_not_fit_at_once_are_refused(driver: RecordedDriver) -> None:
    driver.together = 23
    source = AFFINE.replace("smem=1024", "cooperative=True")
    words = "24 blocks, cooperative=True; with its 40 registers a thread 23 are on this GPU at the same time"
    with pytest.raises(GpuError, match=words):
        runner_of(source, driver, x=f32(4))({"x": torch.ones(4)})
    driver.together = 24
    runner = runner_of(source, driver, x=f32(4))
    driver.refuse_next(720)
    with pytest.raises(GpuError, match="more blocks than are on this GPU at the same time"):
        runner({"x": torch.ones(4)})


def test_outputs_come_in_the_plans_order(driver: RecordedDriver) -> None:
    source = f"""/* plan
def plan(x):
    a, b = empty_like(x), zeros([3], f32)
    launch("twice", grid=1, block=32, args=[x, a, x.numel])
    launch("leave", grid=1, block=32, args=[b, 3])
    return b, a
*/
{TWICE}
{LEAVE}
"""
    x = torch.randn(4)
    zeros, doubled = runner_of(source, driver, x=f32(4))({"x": x})
    assert torch.equal(doubled, 2 * x)
    assert torch.equal(zeros, torch.zeros(3))


VIEWED = f"""/* plan
def plan(x):
    y = empty([4, 6], f32)
    launch("twice", grid=1, block=32, args=[view(x, [8], offset=4), view(view(y, [24]), [8], offset=8), 8])
    return view(y, [2, 3], strides=[4, 1], offset=8)
*/
{TWICE}
"""


def test_views_are_addresses_for_kernels_and_tensors_for_the_caller(driver: RecordedDriver) -> None:
    runner = runner_of(VIEWED, driver, x=f32(3, 4))
    x = torch.randn(5, 4)[2:]  # begins inside of its storage
    (out,) = runner({"x": x})
    written = 2 * x.flatten()[4:12]
    assert out.stride() == (4, 1)
    assert torch.equal(out, written.as_strided((2, 3), (4, 1)))


def test_a_returned_view_of_a_viewed_input_counts_from_the_inputs_first_element(
    driver: RecordedDriver,
) -> None:
    source = f"""/* plan
def plan(x):
    s = library("aten.add.Tensor", view(x, [3], offset=1), view(view(x, [4], offset=2), [3], offset=1))
    y = empty_like(s)
    launch("twice", grid=1, block=32, args=[s, y, 3])
    return y
*/
{TWICE}
"""
    x = torch.arange(20.0)[5:13]
    (out,) = runner_of(source, driver, x=f32(8))({"x": x})
    assert torch.equal(out, 2 * (x[1:4] + x[3:6]))


def test_a_marked_run_calls_behind_every_launch_and_library_call(driver: RecordedDriver) -> None:
    """Not behind views and new buffers, which start nothing on the device."""
    seen: list[list[int]] = []
    runner_of(AFFINE, driver, x=f32(5, 7))({"x": torch.randn(5, 7)})  # a launch of another grid
    made = runner_of(RELU, driver, x=f32(5))
    run = made.marked(lambda: seen.append(driver.geometry()[:3]), -1)
    x = torch.tensor([-1.0, 2.0, -3.0, 4.0, 5.0])
    (y,) = run({"x": x})
    assert seen == [[2, 3, 4], [1, 1, 1]]  # the library call, then the kernel
    assert torch.equal(y, made({"x": x})[0])
    assert len(seen) == 2


def test_library_steps_take_lists_dtypes_and_keywords(driver: RecordedDriver) -> None:
    source = f"""/* plan
def plan(x):
    s = library("aten.sum.dim_IntList", x, [0], keepdim=True, dtype=f32)
    y = empty_like(s)
    launch("twice", grid=1, block=32, args=[s, y, s.numel])
    return y
*/
{TWICE}
"""
    x = torch.randn(3, 4)
    (out,) = runner_of(source, driver, x=f32(3, 4))({"x": x})
    torch.testing.assert_close(out, 2 * x.sum(0, keepdim=True))


def test_a_library_call_gets_operands_that_begin_at_16_bytes(
    driver: RecordedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.Tensor] = []

    def relu(x: torch.Tensor) -> torch.Tensor:
        seen.append(x)
        return torch.relu(x)

    monkeypatch.setattr("workbench.gpu.library_calls.library_operator", lambda name: relu)
    x = torch.randn(13)[1:].view(3, 4)  # one element into its storage
    (out,) = runner_of(RELU, driver, x=f32(3, 4))({"x": x})
    assert torch.equal(out, 2 * torch.relu(x))
    assert x.data_ptr() % 16 != 0 and seen[0].data_ptr() % 16 == 0
    runner_of(RELU, driver, x=f32(3, 4))({"x": x.clone()})
    assert seen[1].data_ptr() % 16 == 0


@pytest.mark.parametrize("strides", [(4, 1), (1, 3), (0, 1), (6, 2)])
def test_an_aligned_copy_keeps_values_and_strides(strides: tuple[int, int]) -> None:
    tensor = torch.arange(32.0)[1:].as_strided((3, 4), strides)
    copy = library_calls.aligned(tensor)
    assert copy.data_ptr() % 16 == 0 and copy.stride() == strides and torch.equal(copy, tensor)
    assert library_calls.aligned(copy) is copy
    assert library_calls.aligned(torch.empty(0, 4)[:, 1:]).numel() == 0


def test_a_library_call_whose_strides_are_not_the_plans_is_refused(driver: RecordedDriver) -> None:
    runner = runner_of(RELU, driver, x=f32(3, 4))
    with pytest.raises(GpuError, match="strides"):
        runner({"x": torch.randn(4, 3).t()})


@pytest.mark.parametrize(
    ("dtype", "expected"), [("f32", "nan"), ("f16", "nan"), ("i32", "2139062143"), ("bool", "True")]
)
def test_poison_fills_new_buffers_and_leaves_zeros_alone(
    driver: RecordedDriver, dtype: str, expected: str
) -> None:
    source = f"""/* plan
def plan(x):
    a, b = empty([2, 3], {dtype}), zeros([2], {dtype})
    launch("leave", grid=1, block=32, args=[a, 6])
    launch("leave", grid=1, block=32, args=[b, 6])
    return a, b
*/
__global__ void leave(void* y, long long count) {{}}
"""
    runner = runner_of(source, driver, x=f32(2))
    filled, zero = runner({"x": torch.ones(2)}, poison=True)
    assert {str(value) for value in filled.flatten().tolist()} == {expected}
    assert not zero.any()


def test_threads_do_not_share_arguments_in_flight(driver: RecordedDriver) -> None:
    runner = runner_of(AFFINE, driver, x=f32(64))
    driver.slow_down(200)
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(25):
            x = torch.full((64,), float(number))
            if not torch.equal(runner({"x": x})[0], -(3 * x + 7.5)):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_thread_without_a_context_is_given_one(driver: RecordedDriver) -> None:
    runner = runner_of(AFFINE, driver, x=f32(4))
    driver.refuse_next(201)
    (y,) = runner({"x": torch.ones(4)})
    assert driver.made_current == [-1]
    assert y.tolist() == [-10.5] * 4


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [(701, GpuError, "registers"), (1, GpuError, "refuses"), (700, GpuFault, "broke the device's context")],
)
def test_refused_launches_say_which_kernel_and_where(
    driver: RecordedDriver, code: int, kind: type[GpuError], words: str
) -> None:
    runner = runner_of(AFFINE, driver, x=f32(4))
    driver.refuse_next(code)
    with pytest.raises(GpuError, match=words) as caught:
        runner({"x": torch.ones(4)})
    assert type(caught.value) is kind
    assert "affine" in str(caught.value)
    assert caught.value.line == 4
    assert runner({"x": torch.ones(4)})[0].tolist() == [-10.5] * 4  # the arguments' memory is still whole


def test_blocks_that_the_registers_do_not_allow_are_refused_before_the_launch(driver: RecordedDriver) -> None:
    driver.most_threads = 32
    with pytest.raises(GpuError, match=r"40 registers a thread.*32 threads, not 64"):
        runner_of(AFFINE, driver, x=f32(4))({"x": torch.ones(4)})


def test_static_and_dynamic_shared_memory_are_counted_together(driver: RecordedDriver) -> None:
    driver.static_shared_bytes = 8 * 1024
    source = AFFINE.replace("smem=1024", f"smem={222 * 1024}")
    with pytest.raises(GpuError, match="235,520 bytes of shared memory, 8,192 of them static"):
        runner_of(source, driver, x=f32(4))({"x": torch.ones(4)})


def test_a_kernel_is_loaded_once_and_again_only_for_more_shared_memory(driver: RecordedDriver) -> None:
    source = f"""/* plan
def plan(x):
    y = empty_like(x)
    for smem in [1024, 512, 2048, 2048]:
        launch("twice", grid=1, block=32, smem=smem, args=[x, y, x.numel])
    return y
*/
{TWICE}
"""
    runner = runner_of(source, driver, x=f32(4))
    runner({"x": torch.ones(4)})
    runner({"x": torch.ones(4)})
    assert [shared for _, _, shared, _ in driver.functions] == [1024, 2048]


def test_another_number_of_parameters_is_refused(
    driver: RecordedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PARAMETERS, "affine", (8, 8))
    with pytest.raises(GpuError, match="takes 2 arguments, 7 given"):
        runner_of(AFFINE, driver, x=f32(4))({"x": torch.ones(4)})
