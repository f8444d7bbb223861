"""Which GPU is picked and what is said where none is, from what a driver might answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.compile.options import nvrtc_version
from workbench.devices import cards, select
from workbench.devices.cards import Probe, Seen, keep_card, kept_card, told, usable
from workbench.devices.cuda import CudaDevice
from workbench.errors import UsageError
from workbench.model import H100
from workbench.referee.gpu_judge import GpuOptions
from workbench.referee.gpu_protocol import Card

MAJOR = nvrtc_version().split(".")[0]
GPU = Seen(
    index=1, name="NVIDIA H100 80GB HBM3", uuid="ab", capability=(9, 0), total_bytes=85_000_000_000, others=0
)
GOOD = Probe(driver=f"{MAJOR}.0", gpus=(GPU,))


def gpu(**changes: object) -> Probe:
    return GOOD.model_copy(update={"gpus": (GPU.model_copy(update=changes),)})


NONE: dict[str, tuple[Probe, str]] = {
    "no driver": (Probe(problem="no NVIDIA driver (libcuda.so.1) on this machine"), "no NVIDIA driver"),
    "no gpu": (
        Probe(driver="13.0", problem="the NVIDIA driver is installed but finds no GPU"),
        "finds no GPU",
    ),
    "old gpu": (gpu(name="Tesla T4", capability=(7, 5)), "Tesla T4 is of sm_75"),
    "prohibited": (gpu(prohibited=True), "PROHIBITED"),
    "old driver": (GOOD.model_copy(update={"driver": "11.8"}), "install a newer driver"),
}


@pytest.mark.parametrize("name", NONE)
def test_why_there_is_no_usable_gpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    probe, words = NONE[name]
    found, reason = usable(probe)
    assert found is None and words in reason and "\n" not in reason
    monkeypatch.setattr(select, "probed", lambda: probe)
    assert select.open_device("auto").name == "emulator"
    with pytest.raises(UsageError, match="--device emulator") as refused:
        select.open_device("cuda")
    assert words in str(refused.value)
    assert select.told().startswith("emulator") and words in select.told()


def test_a_usable_gpu_is_picked(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[int, str]] = []

    def instead(self: CudaDevice, index: int, uuid: str, options: GpuOptions) -> None:
        assert options.slow_baselines, "a person's device times them in the background"
        opened.append((index, uuid))

    monkeypatch.setattr(select, "probed", lambda: GOOD)
    monkeypatch.setattr(CudaDevice, "__init__", instead)
    for name in ("auto", "cuda"):
        assert select.open_device(name).name == "cuda"
    assert opened == [(1, "ab")] * 2
    assert select.told().startswith("cuda, measured times: NVIDIA H100")


def test_the_first_usable_of_several() -> None:
    old = GPU.model_copy(update={"index": 0, "capability": (7, 0)})
    assert usable(GOOD.model_copy(update={"gpus": (old, GPU)})) == (GPU, "")


@pytest.mark.parametrize(("others", "words"), [(0, ""), (1, "another process"), (3, "3 other processes")])
def test_a_gpu_in_use_by_others_is_allowed_and_said(others: int, words: str) -> None:
    probe = gpu(others=others)
    found, _ = usable(probe)
    assert found is not None and words in told(found, probe)
    assert ("in use" in told(found, probe)) == bool(others)


def test_a_newer_driver_is_fine() -> None:
    assert usable(GOOD.model_copy(update={"driver": "99.1"}))[0] == GPU


def test_doctor_says_what_auto_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(select, "probed", lambda: GOOD)
    assert "measured)" not in select.device_fact().found
    keep_card(
        Card(
            target=H100,
            uuid="ab",
            driver="13.0",
            torch="2",
            dram_peak_bytes_per_s=3.35e12,
            free_bytes=1,
            copy_measured=True,
        )
    )
    assert "copies 3.03 TB/s (measured)" in select.device_fact().found
    monkeypatch.setattr(select, "probed", lambda: NONE["no driver"][0])
    assert select.device_fact().found.startswith("auto is emulator, modelled times: no NVIDIA driver")


def test_this_machine_answers() -> None:
    probe = cards.probed()
    assert bool(probe.gpus) != bool(probe.problem)


def test_a_measured_card_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    card = Card(target=H100, uuid="ab", driver="13.0", torch="2", dram_peak_bytes_per_s=3.35e12, free_bytes=1)
    keep_card(card)
    assert kept_card("ab") is None
    measured = card.model_copy(update={"copy_measured": True})
    keep_card(measured)
    assert kept_card("ab") == measured and kept_card("other") is None
