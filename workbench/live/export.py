"""What a person takes away: the best kernel, the journal, the report. Copies, never moves."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from workbench.errors import SessionError, UsageError, nearest
from workbench.live.parts import ExportFormat, best_of
from workbench.model import Kernel

if TYPE_CHECKING:
    from workbench.live.known import Known
    from workbench.tree import Tree

FILES = (".py", ".cu", ".html")
"""Endings of names that nobody gives a folder."""


def exported(live: Known, path: Path, format: ExportFormat) -> Path:
    """Write the session's best kernel in a format; returns ``path``. Raises ``WorkbenchError``."""
    known_format(format)
    if format == "folder" and path.suffix in FILES and not path.is_dir():
        raise UsageError(
            f"{path} is the name of a file, and the format 'folder' writes a folder with kernel, journal and "
            "report. One file with a class ModelNew: format 'kernelbench'"
        )
    return export(live, path) if format == "folder" else export_kernelbench(live.tree, path)


def known_format(format: str) -> None:
    """Raises ``UsageError`` for a format that is not known."""
    if format not in get_args(ExportFormat):
        known = get_args(ExportFormat)
        raise UsageError(f"format is one of {', '.join(known)}, not {format!r}.{nearest(format, known)}")


def export_kernelbench(tree: Tree, file: Path) -> Path:
    """Write the best kernel as one file with a class ``ModelNew``; returns ``file``.

    Raises ``SessionError`` when there is no correct kernel yet or the disk refuses, ``UsageError`` for a
    problem or a kernel that such a file cannot hold.
    """
    from workbench.export import kernelbench_file

    best, opened = best_of(tree), tree.opened
    if best is None or opened is None:
        name = opened.problem.name if opened else "the session"
        raise SessionError(f"{name} has no correct kernel yet; there is nothing to export")
    text = kernelbench_file(opened.problem, Kernel(source=best.source), opened.target)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SessionError(f"cannot write {file}: {error.strerror or error}") from error
    return file


def export(live: Known, folder: Path) -> Path:
    """Fill ``folder`` with ``NAME.cu``, ``reference.py``, ``journal.jsonl`` and ``report.html``.

    Raises ``SessionError`` when there is no correct kernel yet or the disk refuses.
    """
    best = live.best
    if best is None:
        raise SessionError(f"{live.name} has no correct kernel yet; there is nothing to export")
    opened = live.tree.opened
    assert opened is not None  # a live session is open
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{live.name}.cu").write_text(best.source, encoding="utf-8")
        (folder / "reference.py").write_text(opened.problem.source, encoding="utf-8")
        shutil.copyfile(live.folder / "journal.jsonl", folder / "journal.jsonl")
        live.to_html(folder / "report.html", scripts=False)
    except OSError as error:
        doing = "read" if error.filename == str(live.folder / "journal.jsonl") else "write"
        raise SessionError(f"cannot {doing} {error.filename or folder}: {error.strerror or error}") from error
    return folder
