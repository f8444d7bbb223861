"""What a stage usually takes here: from the journals of earlier sessions beside a new one. Reads only."""

from __future__ import annotations

import itertools
import json
import statistics
from collections.abc import Iterator
from pathlib import Path

from workbench.errors import WorkbenchError
from workbench.events import SessionOpened
from workbench.model import Stage
from workbench.session import read_tree
from workbench.views.progress import STAGES, usual_s

LOOKED_AT, USED = 12, 3
"""The newest sessions whose first line is read, and of those that are alike the newest that count."""
MOST_BYTES = 20_000_000
"""A longer journal is not worth reading for this."""


def with_history(opened: SessionOpened, folder: Path) -> SessionOpened:
    """The first event with medians of the newest sessions beside ``folder``, same device and brain."""
    judged = filter(None, map(_usual, _alike(opened, folder)))
    known = list(itertools.islice(judged, USED))
    found = {stage: [one[stage] for one in known if stage in one] for stage in STAGES}
    told = tuple((stage, round(statistics.median(times), 3)) for stage, times in found.items() if times)
    return opened.model_copy(update={"usual": told})


def _alike(opened: SessionOpened, folder: Path) -> Iterator[Path]:
    """Journals of such sessions, newest first."""
    found = [
        path for path in folder.absolute().parent.glob("*/journal.jsonl") if path.parent.name != folder.name
    ]
    for path in sorted(found, key=_written, reverse=True)[:LOOKED_AT]:
        try:
            with path.open(encoding="utf-8") as lines:
                first = json.loads(lines.readline())
        except (OSError, ValueError):
            continue  # not a journal, or gone meanwhile
        if isinstance(first, dict) and (first.get("device"), first.get("brain")) == (
            opened.device,
            opened.brain,
        ):
            yield path


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _usual(journal: Path) -> dict[Stage, float]:
    """Medians of one session; empty where it judged nothing or cannot be read."""
    try:
        return usual_s(read_tree(journal.parent)) if journal.stat().st_size < MOST_BYTES else {}
    except (OSError, WorkbenchError):
        return {}
