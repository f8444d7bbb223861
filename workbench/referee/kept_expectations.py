"""What must come of a check's inputs, kept on disk for the next kernel of the same problem.

The oracle of an attention block takes a minute on a processor, and every kernel of a search asks it the same.
Children that judge end with their kernel, so what they found lies in a folder of the device's. Two kernels
that are judged at once do not make the same twice: one waits for the other. Every file is signed with a
secret that the process with the kernel never hears of. Owns the use of the folder; what is expected is
expectation.py's.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import pickle
from collections.abc import Callable, Hashable
from contextlib import suppress
from pathlib import Path

from workbench.errors import ProblemError
from workbench.referee.expectation import Expectation
from workbench.referee.protocol import Kept

MOST_BYTES = 2**26
"""Of one expectation; a larger one is made again, as reading it would take as long."""
_SIGNATURE = 32
_Found = tuple[Expectation | None] | str
"""An expectation, or why the reference refuses the check."""


def kept(where: Kept, check: Hashable, make: Callable[[], Expectation | None]) -> Expectation | None:
    """What ``make`` gives for a check, which ``check`` tells from all others by its text.

    Raises ``ProblemError`` where the reference refuses the check, as ``make`` does.
    """
    name = hashlib.blake2b(repr(check).encode(), digest_size=16).hexdigest()
    path = Path(where.folder, name)
    try:
        lock = path.with_suffix(".lock").open("w")
    except OSError:  # the device was closed meanwhile, or its disk is full
        return make()
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = _read(path, where.secret)
        if found is None:
            try:
                found = (make(),)
            except ProblemError as refusal:
                found = str(refusal)
            _write(path, where.secret, found)
    if isinstance(found, str):
        raise ProblemError(found)
    return found[0]


def _read(path: Path, secret: str) -> _Found | None:
    """None where there is nothing, or what is there was not written here."""
    with suppress(OSError):
        told = path.read_bytes()
        if hmac.compare_digest(told[:_SIGNATURE], _signed(path, secret, told[_SIGNATURE:])):
            found: _Found = pickle.loads(told[_SIGNATURE:])
            return found
    return None


def _write(path: Path, secret: str, found: _Found) -> None:
    told = pickle.dumps(found, pickle.HIGHEST_PROTOCOL)
    if len(told) <= MOST_BYTES:
        with suppress(OSError):
            path.write_bytes(_signed(path, secret, told) + told)


def _signed(path: Path, secret: str, told: bytes) -> bytes:
    return hmac.digest(secret.encode(), path.name.encode() + told, "sha256")
