"""The doctor's facts, on a machine that has or lacks each tool."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from workbench.compile import toolchain
from workbench.compile.toolchain import Fact, toolchain_facts
from workbench.errors import DeviceError


def by_name() -> dict[str, Fact]:
    return {fact.name: fact for fact in toolchain_facts()}


def tool(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def empty_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH without tools."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_every_fact_and_no_value_of_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hidden")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    facts = by_name()
    assert list(facts) == ["python", "torch", "nvrtc", "c++ compiler", "gpu", "cache", *toolchain.KEYS]
    assert facts["OPENAI_API_KEY"].found == "set" and not facts["OPENAI_BASE_URL"].ok
    assert "sk-hidden" not in str(facts)
    assert facts["nvrtc"].ok and "sm_90a" in facts["nvrtc"].found
    assert facts["torch"].found == metadata.version("torch")


def test_tools_are_asked(empty_path: Path) -> None:
    tool(empty_path, "g++", "echo 'g++ 99.1'; echo more")
    tool(empty_path, "nvidia-smi", "echo 'NVIDIA H100, 580.1'")
    facts = by_name()
    assert facts["c++ compiler"].ok and facts["c++ compiler"].found.endswith(": g++ 99.1")
    assert facts["gpu"] == Fact(name="gpu", ok=True, needed=False, found="NVIDIA H100, 580.1")


def test_missing_and_failing_tools(empty_path: Path) -> None:
    tool(empty_path, "nvidia-smi", "exit 9")
    facts = by_name()
    assert facts["c++ compiler"].needed
    assert not facts["c++ compiler"].ok and "apt install g++" in facts["c++ compiler"].found
    assert not facts["gpu"].ok and "emulator" in facts["gpu"].found


def test_broken_nvrtc_is_a_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise DeviceError("libnvrtc is gone")

    monkeypatch.setattr(toolchain, "compile_kernel", broken)
    assert by_name()["nvrtc"] == Fact(name="nvrtc", ok=False, needed=True, found="libnvrtc is gone")
