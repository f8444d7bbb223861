"""Times all baselines of one case against each other, in the process that holds the GPU."""

from __future__ import annotations

import torch

from workbench.model import Case, Problem
from workbench.numerics.dtypes import TORCH
from workbench.numerics.inputs import draw_on
from workbench.numerics.operators import leaves_open
from workbench.numerics.precision import precision
from workbench.referee.clock.contestants import told
from workbench.referee.clock.measure import Setting, Timing, measure
from workbench.referee.clock.rotation import rotated
from workbench.referee.clock.samples import KERNEL, RawTimes
from workbench.referee.gpu_expectation import Expectations
from workbench.referee.gpu_faults import fault_of
from workbench.referee.gpu_protocol import BaselineReport, BaselineRequest
from workbench.referee.gpu_timing import SEED, baselines_of
from workbench.referee.gpu_trial import Hardware, with_room


def timed(request: BaselineRequest, expectations: Expectations, hardware: Hardware) -> BaselineReport:
    """Whatever fails is in the report."""
    hardware.release()
    try:
        with torch.no_grad(), precision(request.problem.contract):
            return with_room(lambda: _timed(request, expectations, hardware.device), hardware)
    except Exception as error:
        fault = fault_of(error)
        return BaselineReport(machine=told(error), lost=fault is None or fault.lost)
    finally:
        hardware.release()


def _timed(request: BaselineRequest, expectations: Expectations, device: str) -> BaselineReport:
    sets = rotated(inputs(request.problem, request.case, device), request.clock)
    baselines = baselines_of(expectations)
    try:
        acts, missing = baselines.acts(request.baselines, sets)
        if not acts:
            return BaselineReport(machine="; ".join(why for _, why in missing))
        pivot = next(iter(acts))
        left_open = leaves_open(request.problem.graph)
        setting = Setting(contract=request.problem.contract, missing=missing, left_open=left_open)
        others = {name: act for name, act in acts.items() if name != pivot}
        timing = measure(request.case.label, acts[pivot], others, request.clock, setting)
    finally:
        baselines.close()
    return BaselineReport(
        raw=_renamed(timing, pivot),
        clock=timing.measured.clock,
        conditions=timing.measured.conditions,
        missing=timing.measured.missing,
    )


def inputs(problem: Problem, case: Case, device: str) -> dict[str, torch.Tensor]:
    """Fresh tensors of a case, drawn where they will be used."""
    metas = problem.metas(case).items()
    made = {
        name: torch.empty_strided(meta.shape, meta.strides, dtype=TORCH[meta.dtype], device=device)
        for name, meta in metas
    }
    draw_on(device, problem, case, "normal", SEED, made)
    return made


def _renamed(timing: Timing, pivot: str) -> RawTimes:
    """The clock calls whoever comes first the kernel; here it is a baseline."""
    tracks = tuple(
        track.model_copy(update={"name": pivot}) if track.name == KERNEL else track
        for track in timing.raw.tracks
    )
    return RawTimes(case=timing.raw.case, tracks=tracks)
