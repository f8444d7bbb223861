"""The built browser assets: up to date with their sources, small, and buildable to the same bytes."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

import workbench.views

VIEWS = Path(workbench.views.__file__).parent
SOURCES, STATIC = VIEWS / "src", VIEWS / "static"
LIMITS = {"panel.js": 40_000, "editor.js": 700_000, "page.js": 45_000}
LEFT_OUT = ("node_modules", "test")


def kept() -> list[Path]:
    """Everything the built files come from, in the order of build.mjs."""
    folders = [sorted(path for path in (SOURCES / name).rglob("*") if path.is_file())
               for name in ("panel", "editor", "page")]  # fmt: skip
    return [
        *(path for folder in folders for path in folder),
        SOURCES / "package-lock.json",
        SOURCES / "build.mjs",
    ]


def test_the_built_files_are_of_these_sources() -> None:
    digest = hashlib.sha256()
    for path in kept():
        digest.update(f"{path.relative_to(SOURCES).as_posix()}\n".encode() + path.read_bytes())
    told = json.loads((STATIC / "assets.json").read_text())
    assert told["sources"] == digest.hexdigest(), "run `make assets` and commit workbench/views/static"


@pytest.mark.parametrize("name", LIMITS)
def test_the_built_files_are_small(name: str) -> None:
    size = len((STATIC / name).read_bytes())
    assert size < LIMITS[name]
    assert size == json.loads((STATIC / "assets.json").read_text())["bytes"][name]


def test_the_lock_file_names_no_host() -> None:
    lock = (SOURCES / "package-lock.json").read_text()
    assert "resolved" not in lock
    assert "integrity" in lock


@pytest.mark.browser
def test_building_again_gives_the_same_bytes() -> None:
    if shutil.which("node") is None or not (SOURCES / "node_modules").is_dir():
        pytest.skip("needs node and `npm ci` in workbench/views/src")
    before = {name: (STATIC / name).read_bytes() for name in (*LIMITS, "assets.json")}
    subprocess.run(["node", "build.mjs"], cwd=SOURCES, check=True, capture_output=True)
    assert {name: (STATIC / name).read_bytes() for name in before} == before
