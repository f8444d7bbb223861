"""Worker's side of an applied kernel: one call on the emulator, tensors in and out as files.

Imports torch and the emulator; never imported by the notebook process.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.errors import EmulatorError, NotCovered, PlanError
from workbench.live.kernel_call import Call, Output
from workbench.model import TensorMeta
from workbench.numerics.dtypes import TORCH
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse
from workbench.referee.librarymeta import library_meta


def call_in_child(payload: bytes) -> bytes:
    """Worker function: a ``Call`` in; ``outputs``, or why there are none, out. Nothing in, nothing out."""
    if not payload:
        return b""
    call = Call.model_validate_json(payload)
    try:
        return json.dumps({"outputs": [output.model_dump() for output in _run(call)]}).encode()
    except NotCovered as error:
        return json.dumps({"refused": str(error)}).encode()
    except (PlanError, EmulatorError, _Stopped) as error:
        return json.dumps({"refused": f"the kernel was not run: {error}"}).encode()


class _Stopped(Exception):
    """A fault ended the kernel."""


def _run(call: Call) -> list[Output]:
    folder = Path(call.folder)
    metas = dict(call.tensors)
    plan = interpret(parse(call.source), metas, call.target, library_meta)
    module = build(call.source, plan.instances, "plain")
    tensors = {name: _read(folder / f"{name}.bin", meta) for name, meta in metas.items()}
    execution = execute(plan, module, tensors)
    if execution.report.stopped:
        raise _Stopped(execution.report.trap or "a fault ended the kernel")
    return [_write(folder / f"out{i}.bin", tensor) for i, tensor in enumerate(execution.outputs)]


def _read(path: Path, meta: TensorMeta) -> torch.Tensor:
    """The elements lie in row-major order; the tensor gets the strides the plan was told."""
    tensor = torch.empty_strided(meta.shape, meta.strides, dtype=TORCH[meta.dtype])
    data = bytearray(path.read_bytes())
    if data:
        tensor.copy_(torch.frombuffer(data, dtype=TORCH[meta.dtype]).view(meta.shape))
    return tensor


def _write(path: Path, tensor: torch.Tensor) -> Output:
    path.write_bytes(tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return Output(shape=tuple(tensor.shape), strides=tuple(tensor.stride()))
