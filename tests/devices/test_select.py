from __future__ import annotations

import pytest

from workbench.devices.select import NAMES, open_device
from workbench.errors import UsageError


@pytest.mark.parametrize(
    ("name", "opened"), [("auto", "emulator"), ("emulator", "emulator"), ("null", "null")]
)
def test_names(name: str, opened: str) -> None:
    assert open_device(name).name == opened


def test_cuda_is_not_there_yet_and_says_what_to_use() -> None:
    with pytest.raises(UsageError, match="emulator"):
        open_device("cuda")


def test_a_misspelt_name_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match="Did you mean 'emulator'"):
        open_device("emulater")
    assert "auto" in NAMES
