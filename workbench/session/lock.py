"""One session, one writer: a lock on the session's folder.

Owns the file ``lock``. The kernel's file lock is the truth, so that a dead holder leaves nothing
behind; the process number in the file is only for the message.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import weakref
from pathlib import Path

from workbench.errors import SessionError
from workbench.session.journal import write_error


class FolderLock:
    """Held from construction to ``release`` or the end of the process."""

    def __init__(self, folder: Path) -> None:
        """Take the lock. Raises ``SessionError`` that names the process which has it."""
        self.path = folder / "lock"
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise write_error(self.path, error) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._file, 100, 0).decode(errors="replace").strip()
            self.forget()
            raise SessionError(_taken(folder, holder)) from error
        self._sign()
        _HELD.add(self)

    def _sign(self) -> None:
        # Without the signature the lock still holds; only the message to others is poorer.
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    @property
    def held(self) -> bool:
        """True until it was let go."""
        return self._file >= 0

    def release(self) -> None:
        """Let go; idempotent. The file stays: deleting it would let two processes lock two files."""
        if self.held:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            self.forget()

    def forget(self) -> None:
        """Close the file without letting go for others who share it."""
        os.close(self._file)
        self._file = -1


def _taken(folder: Path, holder: str) -> str:
    if holder == str(os.getpid()):
        return f"session {folder} is already open in this process; close it first or use that one"
    who = f"process {holder}" if holder.isdigit() else "another process"
    return f"session {folder} is open in {who}; stop that one first, or choose another folder"


_HELD: weakref.WeakSet[FolderLock] = weakref.WeakSet()


def _let_go_in_child() -> None:
    """A forked child shares the lock: left open there, it would outlive the session's own process."""
    for lock in _HELD:
        if lock.held:
            lock.forget()


os.register_at_fork(after_in_child=_let_go_in_child)
