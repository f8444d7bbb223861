"""The program that compute-sanitizer watches: one call of a plan on small inputs, and where its tensors lay.

Usage: ``python -m workbench.profile.sanitized REQUEST.json``
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from workbench.gpu.kernels import Image, Kernels
from workbench.gpu.runner import PlanRunner
from workbench.numerics.inputs import draw
from workbench.profile.sanitizer import SanitizeRequest, told_of


def main(path: str) -> None:
    """Run the request that lies at ``path``."""
    request = SanitizeRequest.model_validate_json(Path(path).read_text(encoding="utf-8"))
    torch.cuda.set_device(request.device)
    plan = request.plan
    runner = PlanRunner(plan, Kernels(Image(one.consts, one.cubin, one.names) for one in request.images))
    drawn = draw(request.problem, request.case, "normal", request.seed)
    tensors = {name: tensor.cuda() for name, tensor in drawn.items()}
    for name, meta in plan.arguments:
        print(told_of(name, tensors[name].data_ptr(), meta), flush=True)
    outputs = runner(tensors)
    names = ["output"] if len(outputs) == 1 else [f"output {number}" for number in range(len(outputs))]
    for name, key, output in zip(names, plan.outputs, outputs, strict=True):
        print(told_of(name.replace(" ", "_"), output.data_ptr(), plan.meta_of(key)), flush=True)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main(sys.argv[1])
