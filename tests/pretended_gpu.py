"""A worker function for the cuda device on a machine without a GPU.

It answers as the process with the GPU does; the CPU stands in for the card, torch's softmax for the kernel.
A const BREAK of a launch tells how to fail.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from workbench.gpu.program import poisoned
from workbench.model import H100, Measured, Rival
from workbench.plan.steps import Plan
from workbench.referee.clock.samples import RawTimes, Track
from workbench.referee.gpu_preparing import prepared
from workbench.referee.gpu_protocol import (
    REQUEST,
    BaselineReport,
    BaselineRequest,
    Card,
    CheckReport,
    CubinImage,
    PrepareRequest,
    TimeReport,
    TimeRequest,
    WarmRequest,
)
from workbench.referee.gpu_trial import Run, checked, expectations_of

CARD = Card(
    target=H100.model_copy(update={"name": "NVIDIA Pretended 80GB"}),
    uuid="0123",
    driver="13.0",
    torch="2",
    dram_peak_bytes_per_s=3.35e12,
    free_bytes=80_000_000_000,
)
RIVAL = Rival(name="eager", time_us=20.0, ratio=2.0, low=1.9, high=2.1, verdict="FASTER", blocks=10)


class Cpu:
    """The CPU as the card; a kernel instance with the const BREAK breaks the context."""

    device = "cpu"

    def runner(self, images: tuple[CubinImage, ...], plan: Plan) -> Run:
        assert all(image.cubin[:4] == b"\x7fELF" for image in images)

        def run(tensors: Mapping[str, Tensor], poison: bool = False) -> tuple[Tensor, ...]:
            word = dict(plan.launches[0].consts).get("BREAK", "")
            if word == "1":
                raise RuntimeError("CUDA error: an illegal memory access was encountered")
            if word == "2":
                os.abort()
            return (poisoned(torch.empty_like(tensors["x"])).copy_(torch.softmax(tensors["x"], dim=1)),)

        return run

    def marked(self, run: Run, mark: Callable[[], None]) -> Run:
        raise NotImplementedError  # nothing is timed here

    def kept(self, plan: Plan) -> tuple[str, ...]:
        return ()

    def wait(self, limit_s: float) -> None:
        pass

    def release(self) -> None:
        pass

    def peak_bytes(self) -> int:
        return 0


def serve(payload: bytes, send: Callable[[bytes], None]) -> bytes:
    request = REQUEST.validate_json(payload)
    if isinstance(request, WarmRequest):
        return CARD.model_dump_json().encode()
    if isinstance(request, PrepareRequest):
        return prepared(request, expectations_of(request.problem, "cpu")).model_dump_json().encode()
    answer: CheckReport | TimeReport | BaselineReport
    if isinstance(request, TimeRequest):
        measured = Measured(
            clock="events", low_us=9.0, high_us=11.0, samples=30, relative_stdev=0.01, rivals=(RIVAL,)
        )
        earlier = request.earlier.tracks if request.earlier else ()
        told = tuple((track.name, "timed earlier") for track in earlier) + request.missing
        measured = measured.model_copy(update={"missing": told})
        tracks = (Track(name="kernel", blocks=((10.0, 10.0),)), Track(name="eager", blocks=((20.0, 20.0),)))
        raw = RawTimes(case=request.case.label, tracks=tracks)
        answer = TimeReport(time_us=10.0, measured=measured, raw=raw, flags=(("cudnn.allow_tf32", False),))
    elif isinstance(request, BaselineRequest):
        named = enumerate(request.baselines)
        tracks = tuple(Track(name=name, blocks=((20.0 - 2 * place,) * 2,)) for place, name in named)
        answer = BaselineReport(raw=RawTimes(case=request.case.label, tracks=tracks), clock="events")
    else:
        answer = checked(request, send, Cpu())
    return answer.model_dump_json().encode()
