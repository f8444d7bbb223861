"""What a person takes away: the best kernel, the journal, the report. Copies, never moves."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import SessionError

if TYPE_CHECKING:
    from workbench.live.live_session import LiveSession


def export(live: LiveSession, folder: Path) -> Path:
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
        raise SessionError(f"cannot write to {folder}: {error.strerror or error}") from error
    return folder
