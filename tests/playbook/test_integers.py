"""Operations on whole numbers: right to the last digit, in every width, and accepted by NVRTC."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, plan_of
from workbench.compile import compile_kernel
from workbench.model import CompileReport
from workbench.playbook.generate import generate

Tensors = dict[str, Tensor]
LONG, BYTE, SHORT = (torch.arange(-9, 9), torch.arange(18, dtype=torch.uint8), torch.int16)

REFERENCES: dict[str, tuple[Call, Callable[[], Tensors]]] = {
    "rolled": (lambda t: t["x"].roll(2, 1).flip(0), lambda: {"x": torch.randn(5, 9)}),
    "long": (
        lambda t: (torch.fmod(t["i"], 7) + t["i"] ** 15, t["i"] ** (t["i"] % 5), 3 ** (t["b"] % 4)),
        lambda: {"i": LONG, "b": BYTE},
    ),
    "byte": (
        lambda t: (t["b"] // 3 - t["b"] % -7, torch.sign(t["b"]), torch.where(t["b"] > 2, t["b"], -1)),
        lambda: {"b": BYTE},
    ),
    "short": (
        lambda t: (t["s"] // 3 + t["s"] % -4, t["s"].amax(1), torch.sign(t["s"])),
        lambda: {"s": torch.arange(-60, 60, dtype=SHORT).view(3, 40)},
    ),
    "shifted by numbers": (
        lambda t: ((t["i"] >> 2) + (t["i"] << 3), (t["b"] >> 1) & 5 | (t["b"] << 6), -t["s"] >> 3),
        lambda: {"i": LONG, "b": BYTE, "s": torch.arange(-60, 60, dtype=SHORT)},
    ),
    "shifted by tensors, beyond the width too": (
        lambda t: (t["i"] << t["n"], t["i"] >> t["n"], t["b"] << t["n"].byte(), t["b"] >> t["n"].byte()),
        lambda: {"i": LONG, "b": BYTE * 13, "n": torch.tensor([0, 1, 5, 7, 8, 31, 33, 63, 64] * 2)},
    ),
    "of floats beyond the type's range": (
        lambda t: tuple(t["x"].to(dtype) for dtype in (torch.uint8, torch.int8, SHORT, torch.int32)),
        lambda: {"x": torch.cat([torch.randn(60) * 300, torch.randn(60) * 1e6, torch.arange(-6.0, 6.0)])},
    ),
    "products with quotients and rests": (
        lambda t: (
            t["i"] * torch.div(t["j"], 4, rounding_mode="trunc"),
            t["i"] * torch.fmod(t["j"], 5),
            t["i"] * (t["j"] * 3) + (t["i"] - t["j"]),
        ),
        lambda: {"i": LONG.int(), "j": LONG.int() * 7},
    ),
    "the ends of the type": (
        lambda t: (
            t["i"].masked_fill(t["i"] > 3, -(2**31)).amax(1),
            t["i"].masked_fill(t["i"] < 3, 2**31 - 1).amin(1),
        ),
        lambda: {"i": torch.arange(-9, 9, dtype=torch.int32).view(3, 6)},
    ),
    "double": (lambda t: t["x"] % 0.3, lambda: {"x": torch.randn(5, 9, dtype=torch.float64)}),
}


@pytest.mark.many(11)
@pytest.mark.parametrize("name", REFERENCES)
def test_whole_numbers(name: str) -> None:
    call, tensors = REFERENCES[name]
    torch.manual_seed(0)
    given = tensors()
    source = generate(problem_of(call, given, name), ()).kernel.source
    check(call, source, given)
    report = compile_kernel(source, plan_of(source, given).instances)
    assert isinstance(report, CompileReport), report
    assert not report.warnings


@pytest.mark.parametrize(("dtype", "through"), [(torch.float32, True), (torch.int32, False)])
def test_floats_become_bytes_by_way_of_int(dtype: torch.dtype, through: bool) -> None:
    """At once, a conversion to unsigned makes 0 of -5 on a card, and 251 on a CPU."""
    given = {"x": torch.arange(-300, 300).to(dtype)}
    source = generate(problem_of(lambda t: t["x"].to(torch.uint8), given, "byte"), ()).kernel.source
    check(lambda t: t["x"].to(torch.uint8), source, given)
    assert ("static_cast<unsigned char>(static_cast<int>(" in source) == through
