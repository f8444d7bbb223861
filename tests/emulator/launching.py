"""One launch of a kernel in kernels/, without a plan's text: what every test here starts from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from workbench.emulator.buffers import TORCH_DTYPES
from workbench.emulator.build import build
from workbench.emulator.execute import Execution, execute
from workbench.emulator.values import Consts, Mode, Options
from workbench.model import DType, TensorMeta, contiguous_strides
from workbench.plan.steps import Allocate, BufferArg, Dim3, Launch, Plan, ScalarArg

KERNELS = Path(__file__).parent / "kernels"
DTYPES: dict[torch.dtype, DType] = {torch_dtype: name for name, torch_dtype in TORCH_DTYPES.items()}


@dataclass(frozen=True)
class Out:
    """An output argument: undefined before the launch, or zero."""

    shape: tuple[int, ...]
    dtype: DType = "f32"
    zero: bool = False


@dataclass(frozen=True)
class Shape:
    """Grid, block and dynamic shared memory."""

    grid: int | tuple[int, ...]
    block: int | tuple[int, ...]
    shared_bytes: int = 0


def meta_of(tensor: torch.Tensor) -> TensorMeta:
    return TensorMeta(dtype=DTYPES[tensor.dtype], shape=tuple(tensor.shape), strides=tuple(tensor.stride()))


def dim3(size: int | tuple[int, ...]) -> Dim3:
    x, y, z = ((size,) if isinstance(size, int) else size) + (1,) * (
        2 if isinstance(size, int) else 3 - len(size)
    )
    return x, y, z


def line_of(file: str, marker: str) -> int:
    """Number of the only line that holds a text."""
    lines = (KERNELS / file).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if marker in line]
    return number


def plan_of(kernel: str, shape: Shape, args: dict[str, Any], consts: Consts = ()) -> Plan:
    """Tensors are inputs, ``Out`` values outputs, numbers scalars; the order is the kernel's own."""
    outs = {
        name: f"%{i}" for i, name in enumerate(name for name, arg in args.items() if isinstance(arg, Out))
    }
    allocations = tuple(
        Allocate(
            buffer=outs[name],
            meta=TensorMeta(dtype=arg.dtype, shape=arg.shape, strides=contiguous_strides(arg.shape)),
            zero=arg.zero,
            line=1,
        )
        for name, arg in args.items()
        if isinstance(arg, Out)
    )
    launch = Launch(
        kernel=kernel,
        grid=dim3(shape.grid),
        block=dim3(shape.block),
        shared_bytes=shape.shared_bytes,
        args=tuple(
            BufferArg(buffer=outs.get(name, name))
            if isinstance(arg, Out | torch.Tensor)
            else ScalarArg(value=arg, ctype="")
            for name, arg in args.items()
        ),
        consts=consts,
        line=2,
    )
    inputs = tuple((name, meta_of(arg)) for name, arg in args.items() if isinstance(arg, torch.Tensor))
    return Plan(arguments=inputs, steps=(*allocations, launch), outputs=tuple(outs.values()))


def built_together(source: str, expression: str) -> list[str]:
    """All plain kernels of a file, so that its tests share one compilation."""
    plain = re.findall(r"^__global__ void (\w+)\(", source, re.MULTILINE)
    plain += [f"{name}_of" for name in re.findall(r"^FUNCTION\((\w+)", source, re.MULTILINE)]
    return plain if expression in plain else [expression]


def run(
    kernel: str,
    shape: Shape,
    args: dict[str, Any],
    mode: Mode = "checked",
    consts: Consts = (),
    **options: Any,
) -> Execution:
    """Launch ``file.cu:expression`` once."""
    file, expression = kernel.split(":", 1)
    plan = plan_of(expression, shape, args, consts)
    source = (KERNELS / file).read_text()
    module = build(source, [(name, consts) for name in built_together(source, expression)], mode)
    tensors = {name: arg for name, arg in args.items() if isinstance(arg, torch.Tensor)}
    return execute(plan, module, tensors, Options(case="test", **options))
