"""The program that compute-sanitizer watches: calls of a plan on small inputs, and where their tensors lay.

Usage: ``python -m workbench.profile.sanitized REQUEST.json``
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor

from workbench.gpu.kernels import Image, Kernels
from workbench.gpu.runner import PlanRunner
from workbench.numerics.inputs import draw
from workbench.profile.sanitizer import SanitizedCall, SanitizeRequest
from workbench.profile.sanitizer_reports import CASE, told_of

CARD = "cuda"


def main(path: str) -> None:
    """Run the request that lies at ``path``, one call after the other."""
    request = SanitizeRequest.model_validate_json(Path(path).read_text(encoding="utf-8"))
    torch.cuda.set_device(request.device)
    torch.cuda.init()  # type: ignore[no-untyped-call]
    # Every tensor in an allocation of its own: without its cache torch asks cudaMalloc for exactly the bytes
    # it needs (c10/cuda/CUDACachingAllocator.cpp, uncached_allocate), and memcheck knows where they end.
    torch.cuda.memory.caching_allocator_enable(False)
    kernels = Kernels(Image(one.consts, one.cubin, one.names) for one in request.images)
    for call in request.calls:
        called(request, call, kernels)


def called(request: SanitizeRequest, call: SanitizedCall, kernels: Kernels) -> None:
    """One call; whatever goes wrong in it is told before the next begins."""
    print(CASE, call.case.label, flush=True)
    plan = call.plan
    drawn = draw(request.problem, call.case, "normal", request.seed)
    inputs = {spec.name for spec in request.problem.tensors if spec.role == "input"}
    tensors = {name: on_gpu(tensor, call.unaligned and name in inputs) for name, tensor in drawn.items()}
    for name, meta in plan.arguments:
        print(told_of(name, tensors[name].data_ptr(), meta), flush=True)
    outputs = PlanRunner(plan, kernels)(tensors)
    names = ["output"] if len(outputs) == 1 else [f"output_{number}" for number in range(len(outputs))]
    for name, key, output in zip(names, plan.outputs, outputs, strict=True):
        print(told_of(name, output.data_ptr(), plan.meta_of(key)), flush=True)
    torch.cuda.synchronize()


def on_gpu(tensor: Tensor, unaligned: bool) -> Tensor:
    """A copy on the card whose allocation ends with its last element; ``unaligned``: it begins one later."""
    span = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    room = torch.empty(max(span, 0) + unaligned, dtype=tensor.dtype, device=CARD)
    return room.as_strided(tensor.shape, tensor.stride(), int(unaligned)).copy_(tensor)


if __name__ == "__main__":
    main(sys.argv[1])
