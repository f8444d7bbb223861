"""What a kernel prints comes back: in the order of blocks, bounded, from several launches together."""

from typing import Any

import pytest
from launching import Out, Shape, run

from workbench.emulator.result import MOST_PRINTED


@pytest.mark.parametrize("mode", ["plain", "checked"])
@pytest.mark.parametrize("workers", [1, 3])
def test_printed_text_is_in_the_order_of_blocks(mode: Any, workers: int) -> None:
    report = run("printing.cu:greets", Shape(40, 32), {"y": Out((40,))}, mode, workers=workers).report
    assert report.printed is not None and report.hazards == ()
    lines = [f'block {block}: "{block / 2:.1f}" 100%' for block in range(40)]
    assert report.printed.text == "".join(f"{line}\n" for line in lines)
    assert (report.printed.calls, report.printed.case) == (40, "test")


@pytest.mark.parametrize("workers", [1, 3])
def test_of_a_flood_the_beginning_is_kept(workers: int) -> None:
    printed = run("printing.cu:floods", Shape(64, 32), {"y": Out((64,))}, workers=workers).report.printed
    assert printed is not None and printed.calls == 64 * 32
    assert len(printed.text) == MOST_PRINTED
    assert printed.text.startswith("".join(f"0 {thread} {'x' * 20}\n" for thread in range(32)) + "1 0 x")


def test_a_kernel_that_prints_nothing_has_printed_nothing() -> None:
    assert run("printing.cu:is_silent", Shape(1, 32), {"y": Out((1,))}).report.printed is None
