"""The store: whole entries or none, and never an exception."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from workbench.compile.cache import Store, cache_folder

KEY = "ab" * 32


def test_round_trip(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.get(KEY) is None
    assert store.put(KEY, b"body\nwith lines") and store.get(KEY) == b"body\nwith lines"
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [KEY[2:]]


@pytest.mark.parametrize("damage", [b"", b"\xff", b"0" * 64, b"0" * 64 + b"\nother body"])
def test_damaged_entry_is_a_miss_and_goes(tmp_path: Path, damage: bytes) -> None:
    store = Store(tmp_path)
    store.put(KEY, b"body")
    (path,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    path.write_bytes(damage)
    assert store.get(KEY) is None and not path.exists()


def test_full_disk_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store = Store(tmp_path)
    monkeypatch.setattr(os, "fdopen", full)
    assert store.put(KEY, b"body") is False
    monkeypatch.undo()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert Store(tmp_path / "file" / "below").put(KEY, b"body") is False


def test_folder_is_the_environments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("WORKBENCH_CACHE")
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache_folder() == Path("/home/someone/.cache/workbench")
