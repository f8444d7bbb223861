"""The clock on a real card: which clock, which words, what it notices, what it costs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from softmax_problem import PROBLEM, RIGHT, case

from workbench.devices.cards import probed, usable
from workbench.devices.cuda import CudaDevice
from workbench.model import Kernel
from workbench.numerics.precision import precision
from workbench.problem.form import Argument, Form
from workbench.problem.reference import Reference
from workbench.referee.clock.contestants import AT_ONCE, LATER, Baselines
from workbench.referee.clock.graphs import replaying
from workbench.referee.clock.measure import Setting, measure
from workbench.referee.clock.options import INTERACTIVE, Physics
from workbench.referee.clock.rotation import rotated
from workbench.referee.clock.sanity import parts_of, unlike
from workbench.referee.clock.tracing import open_trace
from workbench.referee.gpu_judge import GpuOptions
from workbench.workers import ForkServer
from workbench.workers.shared import TORCH_MODULES

GPU, WHY_NOT = usable(probed())
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(GPU is None, reason=f"no usable GPU: {WHY_NOT}"),
    # torch.compile of torch 2.11 loads a module that warns of its own torch.jit.
    pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning"),
]

ELEMENTS = 8 * 2**20
SMALL = PROBLEM.model_copy(update={"cases": (case(512, 1024, declared=True),)})


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return torch.randn(ELEMENTS, device="cuda")


def doubled(x: torch.Tensor) -> Any:
    return lambda turn: (torch.mul(x, 2.0),)


def in_pieces(x: torch.Tensor) -> Any:
    """The same result by four kernels."""
    return lambda turn: (x.mul(4.0).mul_(0.5).mul_(2.0).mul_(0.5),)


def test_one_kernel_against_itself_by_cupti(x: torch.Tensor) -> None:
    timing = measure("itself", doubled(x), {"itself": doubled(x)}, INTERACTIVE)
    found = timing.measured
    assert found.rivals[0].verdict in ("SAME", "AMBIGUOUS"), found  # of many runs a few cannot tell
    assert found.suspicion == "" and timing.wrong == ""
    assert found.clock == ("cupti" if open_trace()[0] else "events"), found.missing
    assert 0.5 < found.crosschecks[0][1] / timing.time_us < 2.0


def test_several_kernels_by_events_and_slower(x: torch.Tensor) -> None:
    found = measure("pieces", in_pieces(x), {"one": doubled(x)}, INTERACTIVE).measured
    assert found.clock == "events"
    assert found.rivals[0].verdict == "SLOWER", found
    assert found.suspicion == "", found


def test_a_short_kernel_has_a_latency_and_a_graph() -> None:
    little = torch.randn(1024, device="cuda")
    found = measure("short", doubled(little), {"itself": doubled(little)}, INTERACTIVE).measured
    assert found.host_us is not None and 1.0 < found.host_us < 500.0
    # None where a replay is over within what a pair of events adds, as on an H100 on 2026-11-23.
    for graph_us in (found.graph_us, found.rivals[0].graph_us):
        assert graph_us is None or 0.5 < graph_us < 30.0


@pytest.mark.parametrize("dawdling_s", [0.0, 100e-6])
def test_work_on_another_stream_is_suspect(dawdling_s: float) -> None:
    """Also where the host takes longer for a call than the flush, but not longer than the work."""
    side = torch.cuda.Stream()
    x = torch.randn(8 * ELEMENTS, device="cuda")
    out = torch.empty_like(x)

    def sneaky(turn: int) -> Any:
        until = time.perf_counter() + dawdling_s
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.mul(x, 2.0, out=out)
        while time.perf_counter() < until:
            pass
        return (x[:16],)

    timing = measure("sneaky", sneaky, {}, INTERACTIVE, Setting(cupti=False, check=lambda outputs: ""))
    assert "disagree" in timing.measured.suspicion, timing.measured


def test_numbers_can_be_drawn_after_a_capture_that_failed(x: torch.Tensor) -> None:
    def waits(turn: int) -> Any:
        return (x[:4] * x[0].item(),)

    with replaying(waits) as replay:
        assert replay is None, "a call that waits for the device cannot be captured"
    assert torch.randn(8, device="cuda").isfinite().all()
    with replaying(doubled(x)) as replay:
        assert replay is not None


def test_beyond_the_memorys_peak_is_suspect(x: torch.Tensor) -> None:
    setting = Setting(physics=Physics(dram_bytes=1e9, dram_bytes_per_s=3.4e12))
    found = measure("magic", doubled(x), {"itself": doubled(x)}, INTERACTIVE, setting).measured
    assert found.suspicion.startswith("faster than the memory")


@pytest.mark.parametrize("contract", ["ieee-fp32", "tf32"])
def test_all_baselines_of_a_function_agree(contract: Any) -> None:
    reference = Reference(SMALL)
    baselines = Baselines(reference.form)
    with torch.no_grad(), precision(contract):
        sets = rotated({"x": torch.randn(512, 1024, device="cuda")}, INTERACTIVE)
        acts, missing = baselines.acts((*AT_ONCE, *LATER), sets)
        assert missing == ()
        wanted = parts_of((torch.softmax(sets[0]["x"], dim=1),))
        for name, act in acts.items():
            for turn in (0, 1, len(sets) + 1):
                assert unlike(parts_of(act(turn)), wanted) == "", name
    baselines.close()


def test_a_modules_weights_are_rotated_with_its_inputs() -> None:
    layer = torch.nn.Linear(64, 32).eval()
    form = Form(layer, (Argument("x", "", None, is_tensor=True),))
    baselines = Baselines(form)
    names = {name: held.value.detach() for name, held in form.held.items()}

    def fresh(scale: float) -> Mapping[str, torch.Tensor]:
        weights = {name: torch.full_like(value, scale).cuda() for name, value in names.items()}
        return {"x": torch.ones(8, 64, device="cuda"), **weights}

    with torch.no_grad(), precision("ieee-fp32"):
        acts, missing = baselines.acts(("eager", "compile"), [fresh(1.0), fresh(2.0)])
        assert missing == ()
        for act in acts.values():
            assert float(act(0)[0][0, 0]) == 65.0
            assert float(act(1)[0][0, 0]) == 130.0
            assert float(act(2)[0][0, 0]) == 65.0
    baselines.close()
    assert not next(layer.parameters()).is_cuda


def test_slow_baselines_then_stand_beside_a_kernel(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert GPU is not None
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
    server = ForkServer(TORCH_MODULES)
    device = CudaDevice(GPU.index, GPU.uuid, GpuOptions(hazards=False), server=server)
    try:
        (record,) = device.time_slow_baselines(SMALL)
        assert {track.name for track in record.raw.tracks} == {*AT_ONCE, *LATER}, record.missing
        evaluation = asyncio.run(device.evaluate(SMALL, Kernel(source=RIGHT), lambda stage: None))
        (time,) = evaluation.times
        assert time.measured is not None
        assert {rival.name for rival in time.measured.rivals} == {*AT_ONCE, *LATER}
    finally:
        asyncio.run(device.close())
        server.close()
