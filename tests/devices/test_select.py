from __future__ import annotations

import pytest

from workbench.devices import select
from workbench.devices.cards import Probe
from workbench.devices.select import NAMES, open_device
from workbench.errors import UsageError


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "probed", lambda: Probe(problem="no NVIDIA driver on this machine"))


@pytest.mark.parametrize(
    ("name", "opened"), [("auto", "emulator"), ("emulator", "emulator"), ("null", "null")]
)
def test_names(name: str, opened: str) -> None:
    assert open_device(name).name == opened


def test_cuda_without_a_gpu_says_why_and_what_to_use() -> None:
    with pytest.raises(UsageError, match=r"no NVIDIA driver .* --device emulator"):
        open_device("cuda")


def test_a_misspelt_name_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match="Did you mean 'emulator'"):
        open_device("emulater")
    assert "auto" in NAMES
