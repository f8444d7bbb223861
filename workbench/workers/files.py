"""Takes a process's files away: it may read below a few folders, and write, make, remove or run nothing.

Owns the Landlock rules for a process that runs strangers' code. Descriptors that are open already stay
usable; so does memory. Nothing happens on a kernel without Landlock (before Linux 5.13).
Source: Linux, Documentation/userspace-api/landlock.rst.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable

from workbench.workers.confine import (
    ADD_RULE,
    CREATE_RULESET,
    PATH_BENEATH,
    PR_SET_NO_NEW_PRIVS,
    RESTRICT_SELF,
    landlock_version,
)

LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")
"""What the dynamic linker reads."""

READ_FILE, READ_DIR = 1 << 2, 1 << 3
FIRST_VERSION = (1 << 13) - 1
"""Execute, write, read, list, remove, and make every kind of file."""
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
NETWORK = 0b11
SCOPES = 0b11


def read_only(readable: Iterable[str]) -> None:
    """Leave this process only the reading of what lies below ``readable``; for good.

    TCP and, where the kernel can, signals and abstract sockets to processes outside are refused too.
    Raises ``OSError`` when the kernel has Landlock and refuses.
    """
    version = landlock_version()
    if version == 0:
        return
    handled = FIRST_VERSION | (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)
    handled |= IOCTL_DEV if version >= 5 else 0
    attributes = struct.pack("=Q", handled)
    attributes += struct.pack("=Q", NETWORK) if version >= 4 else b""
    attributes += struct.pack("=Q", SCOPES) if version >= 6 else b""
    libc = ctypes.CDLL(None, use_errno=True)
    ruleset = libc.syscall(CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "the kernel refused to make a Landlock domain")
    for folder in readable:
        _allow_reading(libc, ruleset, folder)
    # Without new privileges, so that no set-user-id program leads out of the domain.
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.syscall(RESTRICT_SELF, ruleset, 0):
        raise OSError(ctypes.get_errno(), "the kernel refused to take a process's files away")
    libc.close(ruleset)


def _allow_reading(libc: ctypes.CDLL, ruleset: int, path: str) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # this system has no such folder
    try:
        access = READ_FILE | READ_DIR if os.path.isdir(path) else READ_FILE  # noqa: PTH112
        if libc.syscall(ADD_RULE, ruleset, PATH_BENEATH, struct.pack("=Qi", access, place), 0):
            raise OSError(ctypes.get_errno(), f"the kernel refused a Landlock rule for {path}")
    finally:
        os.close(place)
