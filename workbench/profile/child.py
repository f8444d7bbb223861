"""The program that Nsight Compute watches: draws inputs, calls the plan until it is warm, then once more.

Only the last call lies between the profiler's start and stop. Usage:
``python -m workbench.profile.child REQUEST.json``
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from workbench.gpu.kernels import load
from workbench.gpu.runner import PlanRunner
from workbench.numerics.inputs import draw
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse
from workbench.profile.request import ProfileRequest
from workbench.referee.librarymeta import library_meta


def main(path: str) -> None:
    """Run the request that lies at ``path``."""
    request = ProfileRequest.model_validate_json(Path(path).read_text(encoding="utf-8"))
    torch.cuda.set_device(request.device)
    metas = request.problem.metas(request.case)
    plan = interpret(parse(request.source), metas, request.target, library_meta)
    runner = PlanRunner(plan, load(request.source, [plan], request.target.arch))
    drawn = draw(request.problem, request.case, "normal", 0)
    tensors = {name: tensor.cuda() for name, tensor in drawn.items()}
    for _ in range(request.warmups):
        runner(tensors)
    torch.cuda.synchronize()
    runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    runtime.cudaProfilerStart()
    runner(tensors)
    torch.cuda.synchronize()
    runtime.cudaProfilerStop()


if __name__ == "__main__":
    main(sys.argv[1])
