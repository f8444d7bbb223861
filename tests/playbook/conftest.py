"""Generated kernels are compiled quickly here: what is checked are addresses and numbers, not speed."""

from collections.abc import Iterator

import pytest

from workbench.emulator import toolchain
from workbench.emulator.values import Mode

MODES: tuple[Mode, ...] = ("plain", "checked")


@pytest.fixture(scope="module", autouse=True)
def quick_to_compile() -> Iterator[None]:
    """The first level of optimisation in place of the second, in both modes."""
    with pytest.MonkeyPatch.context() as patch:
        for mode in MODES:
            quick = tuple("-O1" if flag == "-O2" else flag for flag in toolchain.FLAGS[mode])
            patch.setitem(toolchain.FLAGS, mode, quick)
        yield
