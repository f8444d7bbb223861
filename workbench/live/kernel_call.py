"""Caller's side of an applied kernel: tensors to files, one worker call, files to tensors.

Without a GPU a kernel runs on the emulator, in a process of its own. Imports torch only when called.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.model import Target, TensorMeta, Value
from workbench.workers import Died, Expired, Limits, Raised, Returned, torch_ready

if TYPE_CHECKING:
    from torch import Tensor

LIMITS = Limits(cpu_s=240, memory_bytes=4 * 2**30)
FUNCTION = "workbench.live.kernel_child:call_in_child"


class Call(Value):
    """One execution of a kernel on tensors that lie in ``folder`` as ``NAME.bin``, row-major."""

    source: str
    target: Target
    tensors: tuple[tuple[str, TensorMeta], ...]
    folder: str


class Output(Value):
    """An output in ``outN.bin``, row-major, and the strides it had."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]


class NotRun(Exception):
    """The kernel gave no result; the message says why in one line."""


def run_kernel(
    source: str, target: Target, tensors: Mapping[str, Tensor], outputs: tuple[str, ...]
) -> tuple[Tensor, ...]:
    """What the kernel returns for CPU tensors; ``outputs`` are the dtypes it must have.

    Raises ``NotRun`` when the plan turns the tensors away or the kernel fails, ``DeviceError`` when no
    worker can be had.
    """
    with tempfile.TemporaryDirectory(prefix="workbench-call-") as name:
        folder = Path(name)
        metas = tuple((name, _store(folder / f"{name}.bin", tensor)) for name, tensor in tensors.items())
        call = Call(source=source, target=target, tensors=metas, folder=name)
        made = [Output.model_validate(entry) for entry in _ask(call)]
        return tuple(
            _load(folder / f"out{i}.bin", output, dtype)
            for i, (output, dtype) in enumerate(zip(made, outputs, strict=True))
        )


def meta_of(tensor: Tensor) -> TensorMeta:
    """Metadata of a tensor, as a plan sees it. Raises ``NotRun`` for a dtype no kernel takes."""
    from workbench.numerics.dtypes import NAMES

    if tensor.dtype not in NAMES:
        raise NotRun(f"dtype {tensor.dtype} is not one of the plan language")
    address = tensor.data_ptr() or 256
    return TensorMeta(
        dtype=NAMES[tensor.dtype],
        shape=tuple(tensor.shape),
        strides=tuple(tensor.stride()),
        alignment=min(256, address & -address),
    )


def _store(path: Path, tensor: Tensor) -> TensorMeta:
    import torch

    path.write_bytes(tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return meta_of(tensor)


def _load(path: Path, output: Output, dtype: str) -> Tensor:
    import torch

    from workbench.numerics.dtypes import TORCH

    tensor = torch.empty_strided(output.shape, output.strides, dtype=TORCH[dtype])  # type: ignore[index]
    data = bytearray(path.read_bytes())
    if data:
        tensor.copy_(torch.frombuffer(data, dtype=tensor.dtype).view(output.shape))
    return tensor


def _ask(call: Call) -> list[object]:
    result = torch_ready().call(FUNCTION, call.model_dump_json().encode(), LIMITS)
    match result:
        case Returned(payload=answer):
            told = json.loads(answer)
            if "outputs" not in told:
                raise NotRun(told["refused"])
            return list(told["outputs"])
        case Expired(limit_s=seconds):
            raise NotRun(f"the kernel did not end within {seconds:g} s on the emulator")
        case Died(message=message):
            raise NotRun(f"the kernel crashed: {message}")
        case Raised(type=kind, message=message):
            raise NotRun(f"the kernel could not be run: {kind}: {message}")
