"""Generated kernels are compiled quickly here: what is checked are addresses and numbers, not speed."""

import re
from collections.abc import Iterator

import pytest

from workbench.emulator import toolchain
from workbench.emulator.values import Mode

MODES: tuple[Mode, ...] = ("plain", "checked")
TOLD_BY_LINE = re.compile(r"\b(counts|warnings)\b")
"""What a run reports of each line: who asks for it needs to know which line an instruction is of."""


@pytest.fixture(scope="module", autouse=True)
def quick_to_compile(request: pytest.FixtureRequest) -> Iterator[None]:
    """The first level of optimisation in place of the second, in both modes; lines where asked for."""
    lines = TOLD_BY_LINE.search(request.path.read_text()) is not None
    with pytest.MonkeyPatch.context() as patch:
        for mode in MODES:
            flags = (flag for flag in toolchain.FLAGS[mode] if lines or not flag.startswith("-g"))
            quick = tuple("-O1" if flag == "-O2" else flag for flag in flags)
            patch.setitem(toolchain.FLAGS, mode, quick)
        yield
