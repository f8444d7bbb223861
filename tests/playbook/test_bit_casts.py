"""Bits read as another type: exact on the emulator, in one kernel, and accepted by NVRTC."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import plan_of, run
from workbench.compile import compile_kernel
from workbench.model import CompileReport, Vector
from workbench.playbook.generate import generate

WHOLE = {torch.float16: torch.int16, torch.bfloat16: torch.int16, torch.float32: torch.int32}
WHOLE[torch.float64] = torch.int64
SPECIAL = [0.0, -0.0, torch.nan, torch.inf, -torch.inf, 1e-40, 6e-8, -1.5]
VECTORS: tuple[Vector, ...] = ((), (("vector_width", "4"),), (("fusion", "none"),))


def drawn(dtype: torch.dtype) -> dict[str, Tensor]:
    torch.manual_seed(0)
    x = torch.randn(5, 40, dtype=torch.float64)
    x[1, : len(SPECIAL)] = torch.tensor(SPECIAL, dtype=torch.float64)
    y = torch.randint(-(2**14), 2**14, (5, 40))
    return {"x": x.to(dtype), "y": y.to(WHOLE[dtype])}


def read(t: dict[str, Tensor]) -> Tensor:
    return (t["x"].view(t["y"].dtype) ^ t["y"]).t()


def made(t: dict[str, Tensor]) -> Tensor:
    return (t["y"] & 0x3F0).view(t["x"].dtype)


def both(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    bits = t["x"].abs().view(t["y"].dtype)
    return (bits & -16).view(t["x"].dtype) * 2, t["x"][:, 1:9].view(t["y"].dtype).sum(1)


def sums(t: dict[str, Tensor]) -> Tensor:
    return (t["x"].view(t["y"].dtype) & 7).sum(1, keepdim=True) + t["y"]


def looked_up(t: dict[str, Tensor]) -> Tensor:
    return t["x"][t["y"].long() % 5, 0].view(t["y"].dtype)


def exactly(got: Tensor, want: Tensor) -> bool:
    return got.dtype == want.dtype and torch.equal(got.nan_to_num(7), want.nan_to_num(7))


@pytest.mark.many(23)
@pytest.mark.parametrize("vector", VECTORS, ids=["plain", "vectors", "unfused"])
@pytest.mark.parametrize("dtype", WHOLE, ids=str)
@pytest.mark.parametrize("call", [read, made, both, sums, looked_up])
def test_bits_are_those_of_torch(call: Call, dtype: torch.dtype, vector: Vector) -> None:
    given = drawn(dtype)
    if call is both:  # a NaN that was computed may be any
        given["x"] = given["x"].nan_to_num(1)
    source = generate(problem_of(call, given), vector).kernel.source
    assert "library(" not in source
    found, wanted = run(source, given).outputs, call(given)
    for got, want in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        assert exactly(got, want)


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
def test_nvrtc_knows_the_functions(dtype: torch.dtype) -> None:
    given = drawn(dtype)
    source = generate(problem_of(both, given), ()).kernel.source
    report = compile_kernel(source, plan_of(source, given).instances)
    assert isinstance(report, CompileReport), report
    assert not report.warnings


CALLS: dict[str, tuple[Call, Tensor, str]] = {
    "a half as a bfloat16": (
        lambda t: t["x"].view(torch.bfloat16),
        torch.randn(5, 9, dtype=torch.float16),
        "__short_as_bfloat16(__half_as_short(x[i]))",
    ),
    "there and back": (
        lambda t: t["x"].view(torch.float16).view(torch.int16) + 1,
        torch.arange(-(2**15), 2**15, dtype=torch.int16),
        "x[i] + 1",
    ),
    "bytes": (
        lambda t: t["x"].view(torch.int8) // 2,
        torch.arange(256, dtype=torch.uint8),
        "signed char",
    ),
    "bools as bytes": (
        lambda t: t["x"].view(torch.uint8) + 3,
        torch.arange(9) % 2 == 0,
        "unsigned char",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_other_pairs_of_a_size(name: str) -> None:
    call, x, text = CALLS[name]
    source = generate(problem_of(call, {"x": x}), ()).kernel.source
    assert "library(" not in source and text in source
    (got,), want = run(source, {"x": x}).outputs, call({"x": x})
    assert isinstance(want, Tensor) and exactly(got, want)


def test_elements_of_another_size_are_left_to_the_library() -> None:
    for call, x in (
        (lambda t: t["x"].view(torch.uint8) // 2, torch.randn(5, 8)),
        (lambda t: ~t["x"].view(torch.bool), torch.zeros(9, dtype=torch.uint8)),
    ):
        source = generate(problem_of(call, {"x": x}), ()).kernel.source
        assert "aten.view.dtype" in source
        (got,), want = run(source, {"x": x}).outputs, call({"x": x})
        assert torch.equal(got, want)
