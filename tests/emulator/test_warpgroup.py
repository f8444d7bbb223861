"""Hopper's asynchronous warp-group multiplications, written as inline PTX."""

from typing import Any

import pytest
import torch
from launching import KERNELS, Out, Shape, plan_of

from workbench.emulator.build import build
from workbench.emulator.execute import Execution, execute
from workbench.emulator.values import Options

MODES = pytest.mark.parametrize("mode", ["plain", "checked"])
FILE = "warpgroup.cu"


def statement(columns: int, adds: str = "1", a_in_shared: bool = False, spell: str = "f32.tf32.tf32") -> str:
    """One multiplication; a: ``a``, ``sum`` and ``b`` are what it names."""
    sums = columns // 2
    left, operands = f"{{%{sums}, %{sums + 1}, %{sums + 2}, %{sums + 3}}}", sums + 4
    inputs = ", ".join(f'"r"(a[{i}])' for i in range(4))
    if a_in_shared:
        left, operands, inputs = f"%{sums}", sums + 1, '"l"(a)'
    names = ", ".join(f"%{i}" for i in range(sums))
    outputs = ", ".join(f'"+f"(sum[{i}])' for i in range(sums))
    return (
        f'asm volatile(\n"wgmma.mma_async.sync.aligned.m64n{columns}k8.{spell} "\n'
        f'"{{{names}}}, {left}, %{operands}, {adds}, 1, 1;"\n: {outputs}\n: {inputs}, "l"(b));'
    )


def function(name: str, columns: int, a: str = "const unsigned (&a)[4]", **spelt: Any) -> str:
    head = f"__device__ void {name}(float (&sum)[{columns // 2}], {a}, Descriptor b)"
    return f"{head} {{\n{statement(columns, a_in_shared='&' not in a, **spelt)}\n}}\n"


def source() -> str:
    bodies = [function("multiply_add", columns) for columns in (8, 24, 64, 128, 256)]
    bodies += [function("multiply_add", 64, "Descriptor a"), function("multiply", 64, adds="0")]
    return (KERNELS / FILE).read_text() + "".join(bodies)


def run(kernel: str, shape: Shape, args: dict[str, Any], mode: Any = "checked", **options: Any) -> Execution:
    tensors = {name: arg for name, arg in args.items() if isinstance(arg, torch.Tensor)}
    module = build(source(), [(kernel, ())], mode)
    return execute(plan_of(kernel, shape, args), module, tensors, Options(case="test", **options))


def clean(execution: Execution) -> tuple[torch.Tensor, ...]:
    report = execution.report
    assert (report.hazards, report.trap, report.unwritten, report.stopped) == ((), None, (), False)
    return execution.outputs


def operands(columns: int, terms: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(columns)
    return torch.randn(64, terms, generator=generator), torch.randn(columns, terms, generator=generator)


def truncated(x: torch.Tensor) -> torch.Tensor:
    return (x.view(torch.int32) & ~0x1FFF).view(torch.float32).double()


def rounded(x: torch.Tensor) -> torch.Tensor:
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def product(columns: int, row_bytes: int, wrong: str = "NOTHING", **options: Any) -> Execution:
    x, w = operands(columns, row_bytes // 4 or 16)
    args = {"x": x, "w": w, "y": Out((64, columns))}
    tile = columns * (row_bytes or 64)
    return run(f"product<{columns}, {row_bytes}, {wrong}>", Shape(1, 128, tile), args, **options)


def expected(columns: int, row_bytes: int) -> torch.Tensor:
    x, w = operands(columns, row_bytes // 4 or 16)
    return (1 + truncated(x) @ truncated(w).T).float()


@MODES
@pytest.mark.parametrize("columns", [8, 24, 64, 128, 256])
def test_sums_of_every_width(columns: int, mode: Any) -> None:
    (y,) = clean(product(columns, 128, mode=mode))
    torch.testing.assert_close(y, expected(columns, 128), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("row_bytes", [128, 64, 32, 0])
def test_tiles_of_every_swizzle(row_bytes: int) -> None:
    (y,) = clean(product(64, row_bytes, races=True))
    torch.testing.assert_close(y, expected(64, row_bytes), rtol=1e-5, atol=1e-5)
