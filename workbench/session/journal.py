"""The journal: one event a line, appended and never changed.

Owns the bytes on disk. Never folds events and never decides. What ``append`` returned from is on disk;
what it raised for is not in the file. Every line ends with the moment it was written, which is the
journal's own note and no part of the event: ``read_times`` tells it, nothing follows from it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from workbench.errors import SessionError
from workbench.events import EVENT, Event

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_AT = re.compile(rb',"at":(\d+\.\d+)\}$')
"""The end of a line: seconds since 1970. Journals of earlier versions are without it."""


class Entry(NamedTuple):
    """One line of a journal."""

    event: Event
    at: int
    """Its first byte."""
    size: int
    """Bytes, with the end of the line."""


class Journal:
    """An open journal file. One writer at a time: the session's lock sees to that."""

    def __init__(self, path: Path, size: int, clock: Callable[[], float] = time.time) -> None:
        """Open for appending after ``size`` good bytes; what follows them, a torn line, is cut off."""
        self.path = path
        self._clock = clock
        self._size = size
        self._broken = False
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            os.ftruncate(self._file, size)
            _sync_folder(path.parent)
        except OSError as error:
            raise write_error(path, error) from error

    def append(self, events: Iterable[Event], durable: bool = True) -> tuple[int, ...]:
        """Write the events in one go; ``durable`` waits until the disk has them. The first byte of each.

        Raises ``SessionError`` when the disk refuses: then none of them is in the file.
        """
        if self._broken:
            raise SessionError(f"{self.path} could not be mended after a failed write; resume the session")
        end = b',"at":%.3f}\n' % self._clock()
        lines = [EVENT.dump_json(event)[:-1] + end for event in events]
        data = b"".join(lines)
        try:
            self._write(data)
            if durable:
                os.fsync(self._file)
        except OSError as error:
            self._cut()
            raise write_error(self.path, error) from error
        places = accumulate((len(line) for line in lines[:-1]), initial=self._size)
        found = tuple(places) if lines else ()
        self._size += len(data)
        return found

    def _write(self, data: bytes) -> None:
        position = self._size
        while data:
            written = os.pwrite(self._file, data, position)
            position, data = position + written, data[written:]

    def _cut(self) -> None:
        """Take back a half-written line, so that the next one does not end up behind it."""
        try:
            os.ftruncate(self._file, self._size)
        except OSError:
            self._broken = True

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def write_error(path: Path, error: OSError) -> SessionError:
    """What to tell the person when a file of the session cannot be written."""
    if error.errno in _FULL:
        what, remedy = "the disk is full", "free some space, then resume the session"
    else:
        what, remedy = error.strerror or str(error), "mend it, then resume the session"
    return SessionError(f"cannot write {path}: {what}. All that was recorded before is safe: {remedy}.")


def read_journal(path: Path) -> tuple[tuple[Event, ...], int]:
    """Events of a journal and the number of bytes they take; a torn last line is left out of both.

    Raises ``SessionError`` naming file and line for anything else that is no event.
    """
    entries = tuple(read_entries(path))
    return tuple(entry.event for entry in entries), sum(entry.size for entry in entries)


def read_entries(path: Path) -> Iterator[Entry]:
    """The same one by one, each with its place in the file, so that a long journal is never all in memory.

    Raises ``SessionError`` as ``read_journal`` does.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise SessionError(f"there is no session in {path.parent}; check the path") from None
    except OSError as error:
        raise SessionError(f"cannot read {path}: {error.strerror}") from error
    with file:
        at, number, line = 0, 0, file.readline()
        while line.endswith(b"\n"):  # what follows the last newline was torn by a crash
            after = file.readline()
            number += 1
            event = _parse(line[:-1], f"{path}, line {number}", last=not after.endswith(b"\n"))
            if event is None:
                break
            yield Entry(event, at, len(line))
            at, line = at + len(line), after


def read_times(path: Path) -> tuple[float | None, ...]:
    """When each event of a journal was written, seconds since 1970; None where it does not say.

    Raises ``SessionError``.
    """
    try:
        lines = path.read_bytes().split(b"\n")[: len(read_journal(path)[0])]
    except OSError as error:
        raise SessionError(f"cannot read {path}: {error.strerror}") from error
    found = (_AT.search(line) for line in lines)
    return tuple(float(at[1]) if at is not None else None for at in found)


def _parse(line: bytes, where: str, last: bool) -> Event | None:
    """One event; None for a last line that is not even JSON, as a power cut leaves it."""
    try:
        return EVENT.validate_json(_AT.sub(b"}", line))
    except ValidationError as error:
        if last and not _is_json(line):
            return None
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        problem = f"{place}: {first['msg']}" if place else first["msg"]
        raise SessionError(f"{where} is no event ({problem}); restore the file or start again") from error


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """Make a new file's name survive a power cut, not only its content."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
