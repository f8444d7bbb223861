"""The JupyterLab extension as shipped: built from these sources, whole, small, and where Jupyter looks."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTENSION = ROOT / "extension"
BUILT = EXTENSION / "labextension"
INSTALLED = Path(sys.prefix) / "share" / "jupyter" / "labextensions" / "cuda-workbench"
SCRIPTS_BYTES = 30_000


def test_the_built_files_are_of_these_sources() -> None:
    folders = [path for name in ("src", "style") for path in sorted((EXTENSION / name).iterdir())]
    kept = [*folders, *(EXTENSION / name for name in ("package-lock.json", "package.json", "tsconfig.json"))]
    digest = hashlib.sha256()
    for path in kept:
        digest.update(f"{path.relative_to(EXTENSION).as_posix()}\n".encode() + path.read_bytes())
    told = json.loads((BUILT / "sources.json").read_text())
    assert told["sources"] == digest.hexdigest(), "run `make assets` and commit extension/labextension"


def test_jupyter_finds_every_file_it_is_told_of() -> None:
    told = json.loads((BUILT / "package.json").read_text())["jupyterlab"]["_build"]
    assert (BUILT / told["load"]).is_file()
    scripts = list((BUILT / "static").glob("*.js"))
    assert sum(path.stat().st_size for path in scripts) < SCRIPTS_BYTES


def test_an_installation_brings_it_along() -> None:
    """Holds for editable ones, too; after a change of the extension: ``pip install -e .`` again."""
    found = {path.relative_to(INSTALLED).as_posix() for path in INSTALLED.rglob("*") if path.is_file()}
    built = {path.relative_to(BUILT).as_posix() for path in BUILT.rglob("*") if path.is_file()}
    assert found == built | {"install.json"}
    said = json.loads((INSTALLED / "install.json").read_text())
    assert said["packageName"] == "cuda-workbench"


def test_the_lock_file_names_no_host() -> None:
    lock = (EXTENSION / "package-lock.json").read_text()
    assert "resolved" not in lock
    assert "integrity" in lock
