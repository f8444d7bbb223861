"""Matrices that the lanes of a warp hold together, multiplied and read by inline PTX."""

from typing import Any

import pytest
import torch
from launching import KERNELS, Out, Shape, line_of, plan_of

from workbench.emulator.build import build
from workbench.emulator.execute import Execution, execute
from workbench.emulator.ptx import with_known
from workbench.emulator.values import Options
from workbench.errors import EmulatorUnsupported

MODES = pytest.mark.parametrize("mode", ["plain", "checked"])
FILE = "warp_matrices.cu"
TOGETHER = (
    *("halves<__half>", "halves<__nv_bfloat16>", "in_tf32<8>", "in_tf32<4>", "eight_halves"),
    *("half_a_warp", "between_borders"),
)
"""Compiled once for all tests."""


def run(kernel: str, args: dict[str, Any], mode: Any, **options: Any) -> Execution:
    tensors = {name: arg for name, arg in args.items() if isinstance(arg, torch.Tensor)}
    module = build((KERNELS / FILE).read_text(), [(name, ()) for name in TOGETHER], mode)
    return execute(plan_of(kernel, Shape(1, 32), args), module, tensors, Options(case="test", **options))


def result(execution: Execution) -> torch.Tensor:
    report = execution.report
    assert (report.hazards, report.trap, report.unwritten, report.stopped) == ((), None, (), False)
    (made,) = execution.outputs
    return made


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(shape[0]))


@MODES
@pytest.mark.parametrize(
    ("name", "dtype"), [("halves<__half>", torch.float16), ("halves<__nv_bfloat16>", torch.bfloat16)]
)
def test_fragments_out_of_shared_memory(name: str, dtype: torch.dtype, mode: str) -> None:
    x, w = drawn(16, 32).to(dtype), drawn(32, 8).to(dtype)
    made = result(run(name, {"x": x, "w": w, "y": Out((16, 8))}, mode))
    torch.testing.assert_close(made.double(), x.double() @ w.double(), rtol=1e-6, atol=1e-6)


def test_products_are_counted_and_nobody_waits_for_a_shuffle() -> None:
    args = {"x": drawn(16, 32).half(), "w": drawn(32, 8).half(), "y": Out((16, 8))}
    (launch,) = run("halves<__half>", args, "checked").report.launches
    assert (launch.unit_products, launch.warp_operations) == (16 * 8 * 32, 0)


@MODES
@pytest.mark.parametrize("terms", [8, 4])
def test_tf32_is_cut_off_and_what_was_there_is_added_to(terms: int, mode: str) -> None:
    x, w = drawn(16, terms), drawn(8, terms)
    made = result(run(f"in_tf32<{terms}>", {"x": x, "w": w, "y": Out((16, 8))}, mode))
    a, b = ((one.view(torch.int32) & ~0x1FFF).view(torch.float32).double() for one in (x, w))
    torch.testing.assert_close(made.double(), a @ b.t() + 1.0, rtol=1e-6, atol=1e-6)
    assert not torch.allclose(made.double(), x.double() @ w.double().t() + 1.0, rtol=1e-6, atol=1e-6)


@MODES
def test_eight_terms_of_16_bits(mode: str) -> None:
    x, w = drawn(16, 8).half(), drawn(8, 8).half()
    args = {"x": x.view(torch.float32), "w": w.view(torch.float32), "y": Out((16, 8))}
    made = result(run("eight_halves", args, mode))
    torch.testing.assert_close(made.double(), x.double() @ w.double().t(), rtol=1e-6, atol=1e-6)


@MODES
def test_lanes_that_have_returned_are_missed(mode: str) -> None:
    report = run("half_a_warp", {"x": drawn(32), "y": Out((32,))}, mode).report
    assert "ldmatrix without all lanes of its warp" in (report.trap or "")


def test_rows_begin_at_borders() -> None:
    report = run("between_borders", {"x": drawn(32), "y": Out((32,))}, "checked").report
    (hazard,) = report.hazards
    assert hazard.hazard == "misaligned" and hazard.line == line_of(FILE, "// borders")


@pytest.mark.parametrize(
    "statement",
    [
        'asm("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0}, {%1}, {%1}, {%0};" : "=r"(a) : "r"(b));',
        'asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0}, {%1}, {%2}, {%3};" : "=r"(a) : "r"(b));',
        'asm("ldmatrix.sync.aligned.m8n8.x3.shared.b16 {%0}, [%1];" : "=r"(a) : "r"(b));',
        'asm("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0}, [%1];" : "=r"(a) : "r"(b));',
    ],
)
def test_what_it_does_not_know_stays_as_it_is(statement: str) -> None:
    kernel = f"__global__ void f(unsigned a, unsigned b) {{ {statement} }}"
    assert with_known(kernel) == kernel
    with pytest.raises(EmulatorUnsupported, match="inline PTX"):
        build(kernel, [("f", ())], "plain")
