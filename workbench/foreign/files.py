"""Which files a foreign solution may see and whom it may signal: Landlock rules over what confine.py set up.

Owns the two lists, readable and writable. Everything not listed is refused: home folders, the session's
journal, the problem's file, other processes' entries in ``/proc``.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
import sysconfig
from pathlib import Path

from workbench.workers.confine import (
    ADD_RULE,
    CREATE_RULESET,
    PATH_BENEATH,
    RESTRICT_SELF,
    SCOPE_SIGNAL,
    landlock_version,
)

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
EVERY_RIGHT = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
"""All file rights by Landlock version; later versions add none to files."""
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | 1 << 14 | 1 << 15
"""Rights that make sense for something that is not a folder (with truncate and device ioctl)."""
LOOK = EXECUTE | READ_FILE | READ_DIR

SYSTEM = ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin", "/opt", "/nix", "/sys")
SETTINGS = (
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/alternatives",
    "/etc/localtime", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/OpenCL", "/etc/os-release",
)  # fmt: skip
FACTS = (
    "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version", "/proc/filesystems", "/proc/devices",
    "/proc/modules", "/proc/driver", "/proc/loadavg", "/proc/sys/vm", "/proc/sys/kernel",
)  # fmt: skip
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def limit_files(scratch: Path, readable: tuple[str, ...] = (), gpu: bool = False) -> str:
    """Leave this process, for good, what it needs to run Python, torch and a compiler.

    ``scratch`` may be written; ``readable`` are further paths to look at; for a ``gpu`` the process may name
    its own threads, which CUDA's first call does. Returns ``yes`` or ``no: why``.
    """
    version = landlock_version()
    if version == 0:
        return "no: this kernel has no Landlock"
    every = EVERY_RIGHT[min(version, 5)]
    libc = ctypes.CDLL(None, use_errno=True)
    attributes = struct.pack("=Q", every)
    if version >= 6:  # the worker's own domain holds the trusted side too, and lets signals reach it
        attributes += struct.pack("=QQ", 0, SCOPE_SIGNAL)
    ruleset = libc.syscall(CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return f"no: {os.strerror(ctypes.get_errno())}"
    cards = (str(path) for path in Path("/dev").glob("nvidia*"))
    rules = [(path, LOOK) for path in (*SYSTEM, *SETTINGS, *FACTS, *_python(), *readable, "/proc/self")]
    rules += [(path, LOOK | WRITE_FILE | 1 << 14 | 1 << 15) for path in (*DEVICES, *cards)]
    if gpu:
        rules.append(("/proc/self/task", LOOK | WRITE_FILE | 1 << 14))
    rules.append((str(scratch), every & ~(1 << 6 | 1 << 11)))
    refused = [path for path, rights in rules if not _allow(libc, ruleset, path, rights & every)]
    if libc.syscall(RESTRICT_SELF, ruleset, 0) != 0:
        return f"no: {os.strerror(ctypes.get_errno())}"
    os.close(ruleset)
    return f"yes, but no rule for {', '.join(refused)}" if refused else "yes"


def _python() -> tuple[str, ...]:
    """Where modules come from: the interpreter, its packages, and the workbench's own package."""
    places = {sys.prefix, sys.base_prefix, sys.exec_prefix, *sysconfig.get_paths().values()}
    places.add(str(Path(__file__).resolve().parents[1]))
    places |= {entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))}
    return tuple(sorted(places))


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> bool:
    """Add one rule; a path that does not exist needs none."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= OF_FILES
        rule = struct.pack("=Qi", rights, place)
        return bool(libc.syscall(ADD_RULE, ruleset, PATH_BENEATH, rule, 0) == 0)
    finally:
        os.close(place)
