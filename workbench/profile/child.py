"""The program that Nsight Compute watches: draws inputs, calls the plan until it is warm, then once more.

Only the last call lies between the profiler's start and stop. Usage:
``python -m workbench.profile.child REQUEST.json``, or ``... child FOLDER OWNER`` to be started beforehand:
then it waits in FOLDER for ``request.json``, says ``loaded`` once all is done that needs no GPU, and touches
the GPU after ``go``. It ends when the process OWNER has.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from workbench.gpu.kernels import Image, Kernels, images
from workbench.gpu.runner import PlanRunner
from workbench.numerics.dtypes import TORCH
from workbench.numerics.inputs import draw_on
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse
from workbench.plan.steps import Plan
from workbench.profile.request import GO, LOADED, REQUEST, ProfileRequest
from workbench.referee.librarymeta import library_meta

POLL_S = 0.01


@dataclass(frozen=True)
class Loaded:
    """A kernel compiled for its plan; no GPU was touched."""

    request: ProfileRequest
    plan: Plan
    images: tuple[Image, ...]


def load(text: str) -> Loaded:
    """Interpret the plan of a request and have its kernels compiled."""
    request = ProfileRequest.model_validate_json(text)
    metas = request.problem.metas(request.case)
    plan = interpret(parse(request.source), metas, request.target, library_meta)
    return Loaded(request, plan, images(request.source, plan.instances, request.target.arch))


def run(loaded: Loaded) -> None:
    """Call the plan on the GPU, the last time under the profiler's eyes."""
    request = loaded.request
    torch.cuda.set_device(request.device)
    tensors = {
        name: torch.empty_strided(meta.shape, meta.strides, dtype=TORCH[meta.dtype], device="cuda")
        for name, meta in request.problem.metas(request.case).items()
    }
    draw_on("cuda", request.problem, request.case, "normal", 0, tensors)
    runner = PlanRunner(loaded.plan, Kernels(loaded.images))
    for _ in range(request.warmups):
        runner(tensors)
    torch.cuda.synchronize()
    runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    runtime.cudaProfilerStart()
    runner(tensors)
    torch.cuda.synchronize()
    runtime.cudaProfilerStop()


def attend(folder: Path, owner: int, run: Callable[[Loaded], None] = run) -> None:
    """Wait for a request, load it, wait for leave to use the GPU, run it."""
    if not _appears(folder / REQUEST, owner):
        return
    loaded = load((folder / REQUEST).read_text(encoding="utf-8"))
    (folder / LOADED).touch()
    if _appears(folder / GO, owner):
        run(loaded)


def _appears(path: Path, owner: int) -> bool:
    """Wait for a file; False when the owner of the folder is gone."""
    while not path.exists():
        if not (path.parent.is_dir() and Path(f"/proc/{owner}").exists()):
            return False
        time.sleep(POLL_S)
    return True


def main(place: str, owner: str = "") -> None:
    """See the module."""
    if owner:
        attend(Path(place), int(owner))
    else:
        run(load(Path(place).read_text(encoding="utf-8")))


if __name__ == "__main__":
    main(*sys.argv[1:])
