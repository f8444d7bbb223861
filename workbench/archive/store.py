"""Files of conclusions: one for each device and family, in the user's cache folder.

Owns the format: a line of JSON that names the version and the family, then a line a conclusion. A file is
written whole or not at all, holds a bounded number of conclusions, and is ignored with one warning when it
cannot be read. Never raises for the disk's sake: then nothing is remembered.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from workbench.compile.cache import cache_folder
from workbench.model import Value, Vector

VERSION = 1
MOST_CONCLUSIONS = 300
"""In one file; the oldest go first."""
MOST_FILES = 400
OFF = "off"


class Conclusion(Value):
    """One kernel of one session: what was tried, predicted and found."""

    problem: str
    """Name of the reference, for the words on a card."""
    structure: str
    """Digest of the graph; ``playbook/family.py``."""
    sizes: tuple[tuple[str, int], ...]
    """Of the first declared case."""
    vector: Vector
    operator: str
    technique: str = ""
    value: str = ""
    """What the hypothesis was about; empty where it was about nothing in the table."""
    predicted: float
    found: float | None
    """Factor over the parent; for a seed over one kernel an operation or the fastest baseline.
    None: not correct, or no time."""
    score: float
    """Over the fastest baseline; 0 when not correct."""
    source: str
    """``measured`` or ``model``."""
    day: str
    """When, as 2026-11-21."""

    @property
    def key(self) -> tuple[object, ...]:
        """A later conclusion with the same key takes this one's place."""
        return self.structure, self.sizes, self.vector, self.source


class Shelf(Value):
    """A file's first line."""

    version: int
    device: str
    family: str


def archive_folder() -> Path | None:
    """``$WORKBENCH_ARCHIVE``, or ``archive`` in the cache folder; None when that variable is ``off``."""
    given = os.environ.get("WORKBENCH_ARCHIVE", "")
    if given.lower() == OFF:
        return None
    return Path(given) if given else cache_folder() / "archive"


class Archive:
    """The files below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._warned = False

    def read(self, device: str, family: str) -> tuple[Conclusion, ...]:
        """Conclusions of a family, oldest first; none for a file that is missing or damaged."""
        shelf = self._read(self._path(device, family))
        return shelf[1] if shelf else ()

    def add(self, device: str, family: str, new: Iterable[Conclusion]) -> None:
        """Put conclusions behind those that are there."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._alone():
                kept = {one.key: one for one in self.read(device, family)}
                for one in new:
                    kept.pop(one.key, None)
                    kept[one.key] = one
                lines = [Shelf(version=VERSION, device=device, family=family), *kept.values()]
                self._write(self._path(device, family), [lines[0], *lines[1:][-MOST_CONCLUSIONS:]])
                self._bound()
        except OSError as error:
            self._warn(f"conclusions cannot be kept in {self.folder}: {error.strerror}")

    def shelves(self) -> list[tuple[Shelf, tuple[Conclusion, ...]]]:
        """Every readable file, by device and family."""
        found = [self._read(path) for path in sorted(self.folder.glob("*.jsonl"))]
        return sorted((one for one in found if one), key=lambda one: (one[0].device, one[0].family))

    def clear(self) -> int:
        """Remove every file; how many there were."""
        files = list(self.folder.glob("*.jsonl"))
        for path in files:
            path.unlink(missing_ok=True)
        return len(files)

    def _path(self, device: str, family: str) -> Path:
        digest = hashlib.sha256(f"{VERSION}\n{device}\n{family}".encode()).hexdigest()[:24]
        return self.folder / f"{digest}.jsonl"

    def _read(self, path: Path) -> tuple[Shelf, tuple[Conclusion, ...]] | None:
        try:
            first, *lines = path.read_text(encoding="utf-8").splitlines()
            shelf = Shelf.model_validate(json.loads(first))
            if shelf.version != VERSION:
                return None  # another workbench's
            return shelf, tuple(Conclusion.model_validate(json.loads(line)) for line in lines)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, ValidationError):
            self._warn(f"{path} is damaged and ignored; `workbench archive --clear` removes it")
            return None

    def _write(self, path: Path, lines: Sequence[Value]) -> None:
        handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=".new-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.writelines(line.model_dump_json() + "\n" for line in lines)
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _bound(self) -> None:
        """Forget the families that nobody has asked about for longest."""
        files = sorted(self.folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
        for path in files[:-MOST_FILES]:
            path.unlink(missing_ok=True)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One writer at a time, over processes; a machine without locks does without."""
        with (self.folder / ".lock").open("w") as file:
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _warn(self, message: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(message, stacklevel=3)
