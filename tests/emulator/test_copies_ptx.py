"""Copies to shared memory (cp.async) that are written as inline PTX."""

import pytest
import torch
from launching import KERNELS, Out, Shape, plan_of

from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.ptx import with_known
from workbench.emulator.values import Options

SOURCE = (KERNELS / "copies_ptx.cu").read_text()


def copied(width: int, read: int, waits: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.arange(1.0, 64.0 * width + 1)
    kernel = f"copied<{width}, {str(waits).lower()}>"
    plan = plan_of(kernel, Shape(1, 64), {"x": x, "y": Out(x.shape), "n": 64, "read": read})
    module = build(SOURCE, [(kernel, ())], "checked")
    run = execute(plan, module, {"x": x}, Options(case="test"))
    (y,) = run.outputs
    return x.view(64, width), y.view(64, width)


@pytest.mark.parametrize("width", [1, 2, 4])
def test_copies_bring_what_is_read_and_zeros_behind(width: int) -> None:
    for read in range(width + 1):
        x, y = copied(width, read)
        assert torch.equal(y[:, :read], x[:, :read])
        assert not y[:, read:].any()


def test_a_copy_that_is_not_waited_for_is_not_there() -> None:
    x, y = copied(4, 4, waits=False)
    assert not torch.isclose(x, y).any()


@pytest.mark.parametrize(
    "text",
    [
        '"cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "l"(place), "l"(from), "r"(read)',  # 64 bits
        '"cp.async.bulk.shared.global [%0], [%1], 16;" :: "r"(place), "l"(from)',
        '"cp.async.cg.shared.global [%0], [%1], 16, %2, %3;" :: "r"(to), "l"(from), "r"(read), "l"(policy)',
    ],
)
def test_other_copies_stay_as_they_are(text: str) -> None:
    assert with_known(f"asm volatile({text});") == f"asm volatile({text});"
