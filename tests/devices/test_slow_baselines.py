"""Baselines that take long are timed once and then stand beside every kernel; a pretended GPU."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from pretended_gpu import CARD
from softmax_problem import PROBLEM, RIGHT

from workbench.devices.cuda import CudaDevice
from workbench.errors import DeviceError
from workbench.model import Case, Kernel
from workbench.referee import gpu_baselines
from workbench.referee.gpu_judge import GpuOptions
from workbench.referee.later_baselines import followed, followed_in
from workbench.referee.receipts import read_receipt
from workbench.workers import Died, Returned

CASE = Case(label="8x64", sizes=(("s0", 8), ("s1", 64)))
SMALL = PROBLEM.model_copy(update={"cases": (CASE,)})


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def device() -> Iterator[CudaDevice]:
    opened = CudaDevice(options=GpuOptions(hazards=False), serve="pretended_gpu:serve")
    yield opened
    asyncio.run(opened.close())


def told(device: CudaDevice) -> dict[str, str]:
    """What the pretended process was told of other baselines."""
    evaluation = asyncio.run(device.evaluate(SMALL, Kernel(source=RIGHT), lambda stage: None))
    (time,) = evaluation.times
    assert time.measured is not None
    return dict(time.measured.missing)


def test_they_are_missing_first_and_then_beside_every_kernel(device: CudaDevice) -> None:
    assert told(device) == dict.fromkeys(gpu_baselines.LATER, "not timed yet")
    (record,) = device.time_slow_baselines(SMALL)
    assert record.key.card == CARD.target.name
    assert [track.name for track in record.raw.tracks] == [*gpu_baselines.AT_ONCE, *gpu_baselines.LATER]
    assert device.time_slow_baselines(SMALL) == (), "once a problem, case, card and torch"
    assert told(device) == dict.fromkeys((*gpu_baselines.AT_ONCE, *gpu_baselines.LATER), "timed earlier")


def test_what_is_timed_in_turns_with_the_kernel_is_not_called_missing() -> None:
    """As the grid does: its rows said `not timed yet` of baselines whose times they told."""
    rivals = (*gpu_baselines.AT_ONCE, *gpu_baselines.LATER[:2])
    options = GpuOptions(hazards=False, baselines=rivals)
    opened = CudaDevice(options=options, serve="pretended_gpu:serve")
    try:
        assert told(opened) == {gpu_baselines.LATER[2]: "not timed yet"}
    finally:
        asyncio.run(opened.close())


def test_another_card_or_torch_has_its_own() -> None:
    first = gpu_baselines.key_of(SMALL, CASE, CARD)
    assert first != gpu_baselines.key_of(SMALL, CASE, CARD.model_copy(update={"torch": "2.99"}))
    other = CARD.target.model_copy(update={"name": "NVIDIA H200"})
    assert first != gpu_baselines.key_of(SMALL, CASE, CARD.model_copy(update={"target": other}))


def test_what_cannot_be_timed_is_not_remembered() -> None:
    for result in (Died(message="gone"), Returned(payload=b"{}"), Returned(payload=b"nonsense")):
        with pytest.raises(DeviceError, match="baselines of 8x64"):
            gpu_baselines.kept(SMALL, CASE, CARD, result)
    assert gpu_baselines.known(SMALL, CASE, CARD)[0] is None
    assert gpu_baselines.is_lost(Died(message="gone")) and gpu_baselines.is_lost(
        Returned(payload=b"nonsense")
    )
    assert not gpu_baselines.is_lost(Returned(payload=b"{}"))


def test_a_damaged_record_is_timed_again(device: CudaDevice) -> None:
    device.time_slow_baselines(SMALL)
    from workbench.compile.cache import cache_folder

    for file in Path(cache_folder(), "baselines").rglob("*"):
        if file.is_file():
            file.write_bytes(b"torn")
    assert len(device.time_slow_baselines(SMALL)) == 1


def test_kernels_judged_before_are_held_against_them_too(device: CudaDevice, tmp_path: Path) -> None:
    folder = tmp_path / "receipts"
    device.keep_receipts(folder)
    told(device)
    assert list(followed_in(folder, SMALL, CARD)) == []
    (record,) = device.time_slow_baselines(SMALL)
    ((kernel, measured),) = followed_in(folder, SMALL, CARD)
    found = measured["8x64"]
    assert kernel == Kernel(source=RIGHT).digest
    assert [rival.name for rival in found.rivals] == ["eager", "compile", *gpu_baselines.LATER]
    assert [round(rival.ratio, 9) for rival in found.rivals[1:]] == [1.8, 1.6, 1.4, 1.2]
    assert found.missing == ()
    fuller = read_receipt(tmp_path / found.receipt)
    assert fuller.cases[0].baselines == record.raw and fuller.command.endswith(fuller.file_name)
    assert fuller.cases[0].measured.rivals == found.rivals
    assert followed(fuller, CARD) is None
    assert list(followed_in(folder, SMALL, CARD)) == [], "the newest receipt of a kernel counts"
    (folder / "torn.json").write_text("{")
    other = PROBLEM.model_copy(update={"cases": (CASE,), "name": "other"})
    assert list(followed_in(folder, other, CARD)) == []


def test_a_case_that_could_not_be_timed_stays_as_it_was(device: CudaDevice, tmp_path: Path) -> None:
    device.keep_receipts(tmp_path)
    second = Case(label="4x32", sizes=(("s0", 4), ("s1", 32)))
    both = SMALL.model_copy(update={"cases": (CASE, second)})
    asyncio.run(device.evaluate(both, Kernel(source=RIGHT), lambda stage: None))
    device._time_baselines(both, second)
    ((_, measured),) = followed_in(tmp_path, both, CARD)
    assert {case: len(found.rivals) for case, found in measured.items()} == {"8x64": 1, "4x32": 5}
    assert dict(measured["8x64"].missing)["graph of eager"] == gpu_baselines.NOT_YET
    assert measured["4x32"].missing == ()
