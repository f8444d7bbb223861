"""What a GPU is doing: read from NVML where it answers, name and number alone where it does not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from workbench.devices import usage
from workbench.devices.usage import Usage, look


class PretendedNvml(SimpleNamespace):
    """Answers as pynvml does."""

    def nvmlInit(self) -> None:
        if self.refuses:
            raise RuntimeError("NVML_ERROR_NO_PERMISSION")

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes) -> bytes:
        assert uuid == b"GPU-1234"
        return uuid

    def nvmlDeviceGetMemoryInfo(self, _: bytes) -> SimpleNamespace:
        return SimpleNamespace(used=2 * 10**9, total=85 * 10**9)

    def nvmlDeviceGetUtilizationRates(self, _: bytes) -> SimpleNamespace:
        return SimpleNamespace(gpu=41)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Handles of other tests are not remembered here, nor these elsewhere."""
    usage._handle.cache_clear()
    yield
    usage._handle.cache_clear()


def test_memory_and_share_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", PretendedNvml(refuses=False))
    found = look("H100", 0, "1234")
    assert (found.used_bytes, found.total_bytes, found.busy_percent) == (2 * 10**9, 85 * 10**9, 41)


@pytest.mark.parametrize("nvml", [None, PretendedNvml(refuses=True)])
def test_a_card_that_cannot_be_seen_has_a_name(monkeypatch: pytest.MonkeyPatch, nvml: object) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert look("H100", 3, "1234") == Usage(card="H100", index=3)
