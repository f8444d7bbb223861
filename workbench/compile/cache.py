"""A content-addressed store on disk: the same question is never compiled twice.

Owns files under the cache folder. Never raises for the disk's sake: a full, read-only or damaged
disk means that nothing is remembered, not that nothing works.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path


def cache_folder() -> Path:
    """``$WORKBENCH_CACHE``, or ``~/.cache/workbench``."""
    given = os.environ.get("WORKBENCH_CACHE")
    return Path(given) if given else Path("~/.cache/workbench").expanduser()


class Store:
    """Entries by key. A key is a hex digest of everything that decides the entry."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, key: str) -> bytes | None:
        """Return an entry; None when there is none or when it is damaged."""
        path = self._path(key)
        try:
            digest, _, body = path.read_bytes().partition(b"\n")
        except OSError:
            return None
        if digest.decode(errors="replace") == hashlib.sha256(body).hexdigest():
            return body
        with suppress(OSError):
            path.unlink()
        return None

    def put(self, key: str, body: bytes) -> bool:
        """Write an entry whole or not at all; False when the disk does not take it."""
        path = self._path(key)
        temporary = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
            Path(temporary).replace(path)
        except OSError:
            if temporary is not None:
                Path(temporary).unlink(missing_ok=True)
            return False
        return True

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / key[2:]
