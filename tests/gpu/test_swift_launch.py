"""A launch in one call from Python: what it turns away, and what happens where it cannot be built."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
import torch
from recorded_driver import RecordedDriver, f32, kernels_of, plan_of
from test_gpu_runner import AFFINE

from workbench.gpu import swift
from workbench.gpu.program import CONFIG_WORDS
from workbench.gpu.runner import PlanRunner


@pytest.fixture
def launch() -> swift.SwiftLaunch:
    found = swift.swift_launch()
    assert found is not None, "no C compiler here, or no Python.h"
    return found


def template(pointers: list[int], cells: int = 2) -> bytes:
    driver = RecordedDriver()
    address = ctypes.cast(driver.library.leave, ctypes.c_void_p).value
    assert address is not None
    return swift.template_of(driver.launch, address, bytes(8 * CONFIG_WORDS), [bytes(8)] * cells, pointers)


def test_a_template_is_copied_and_the_code_comes_back(launch: swift.SwiftLaunch) -> None:
    driver = RecordedDriver()
    assert launch(template([0]), 0, 64) == 0
    driver.refuse_next(701)
    assert launch(template([0]), 0, 64) == 701
    assert launch(template([0, 1]), 2**63, 2**64 - 1, 1) == 0


def test_what_is_no_template_is_turned_away(launch: swift.SwiftLaunch) -> None:
    good = template([0])
    for given, error in (
        ((), TypeError),
        (("text", 0, 1), TypeError),
        ((b"short", 0, 1), ValueError),
        ((good[:-1], 0, 1), ValueError),
        ((good, 0), ValueError),
        ((good, 0, 1, 2), ValueError),
        ((template([2]), 0, 1), ValueError),
        ((template([], swift.MOST_CELLS + 1), 0), ValueError),
        ((good, 0, -1), OverflowError),
        ((good, 0, "address"), TypeError),
    ):
        with pytest.raises(error):
            launch(*given)


def test_without_a_compiler_ctypes_launches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(swift.shutil, "which", lambda name: None)
    swift.swift_launch.cache_clear()
    try:
        assert swift.swift_launch() is None
        x = torch.randn(5, 7)
        plan = plan_of(AFFINE, {"x": f32(5, 7)})
        (y,) = PlanRunner(plan, kernels_of(plan, RecordedDriver()), applied=True)({"x": x})
        torch.testing.assert_close(y, -(3 * x + 0.5 + 7))
    finally:
        swift.swift_launch.cache_clear()


def test_it_is_built_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    first = swift._built()

    def built_again(*_: object, **__: object) -> None:
        raise AssertionError("built twice")

    monkeypatch.setattr(swift.subprocess, "run", built_again)
    assert swift._built() == first
