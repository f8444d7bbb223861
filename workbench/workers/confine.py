"""Shuts a child off from other processes and from the network, with Landlock (Linux 5.13 and later).

A scrubbed environment is not enough: any process of the same user may read the notebook's
``/proc/PID/environ``, where the keys are. A process in a Landlock domain may not look into, trace
or (Linux 6.12) signal processes outside it, nor (Linux 6.7) open TCP connections. Where the notebook
runs as root, the capabilities that overrule this are dropped too. Not covered: reading and writing
files, UDP. Source: Linux, Documentation/userspace-api/landlock.rst.
"""

from __future__ import annotations

import ctypes
import os
import struct
from functools import cache

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""System call numbers, the same on every architecture."""
CREATE_RULESET_VERSION = 1
PR_SET_NO_NEW_PRIVS = 38

MAKE_CHAR, MAKE_BLOCK = 1 << 6, 1 << 11
"""A domain must forbid something to exist: making device nodes, which no worker does."""
REFER = 1 << 13
"""Moving a file to another folder: every domain forbids it unless a rule allows it (Landlock 2 on)."""
PATH_BENEATH = 1
BIND_TCP, CONNECT_TCP = 1, 2
SCOPE_ABSTRACT_UNIX_SOCKET, SCOPE_SIGNAL = 1, 2

CAPABILITY_VERSION = 0x20080522
LOOK_INTO_OTHERS = 1 << 19 | 1 << 21 | 1 << 38
"""CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON."""


@cache
def landlock_version() -> int:
    """Version of Landlock in the running kernel; 0 when it has none or it is turned off."""
    version = ctypes.CDLL(None).syscall(CREATE_RULESET, None, 0, CREATE_RULESET_VERSION)
    return max(0, int(version))


def confine(network: bool) -> None:
    """Put this process, for good, into a domain of its own, as far as the kernel has domains.

    Raises ``OSError`` when the kernel has Landlock and refuses.
    """
    drop_capabilities(LOOK_INTO_OTHERS)
    version = landlock_version()
    if version == 0:
        return
    refer = REFER if version >= 2 else 0
    attributes = struct.pack("=Q", MAKE_CHAR | MAKE_BLOCK | refer)
    if version >= 4:
        attributes += struct.pack("=Q", 0 if network else BIND_TCP | CONNECT_TCP)
    if version >= 6:
        attributes += struct.pack("=Q", SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL)
    libc = ctypes.CDLL(None, use_errno=True)
    ruleset = libc.syscall(CREATE_RULESET, attributes, len(attributes), 0)
    # Without new privileges, so that no set-user-id program leads out of the domain.
    refused = (
        ruleset < 0
        or (refer and not _allowed_everywhere(libc, ruleset, refer))
        or libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
        or libc.syscall(RESTRICT_SELF, ruleset, 0) != 0
    )
    if refused:
        raise OSError(ctypes.get_errno(), "the kernel refused to confine a worker")
    libc.close(ruleset)


def _allowed_everywhere(libc: ctypes.CDLL, ruleset: int, access: int) -> bool:
    """Add a rule that allows ``access`` below the root folder; False when the kernel refuses."""
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        rule = struct.pack("=Qi", access, root)
        return bool(libc.syscall(ADD_RULE, ruleset, PATH_BENEATH, rule, 0) == 0)
    finally:
        os.close(root)


def drop_capabilities(unwanted: int) -> None:
    """Give up a set of capabilities; a process that has none of them is left as it is."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = struct.pack("=Ii", CAPABILITY_VERSION, 0)
    data = ctypes.create_string_buffer(24)
    if libc.capget(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capabilities cannot be read")
    # Two halves of 32 bits, each with an effective, a permitted and an inheritable word.
    words = struct.unpack("=6I", data.raw)
    kept = [word & ~(unwanted >> (32 * (i // 3))) & 0xFFFFFFFF for i, word in enumerate(words)]
    if libc.capset(header, struct.pack("=6I", *kept)) != 0:
        raise OSError(ctypes.get_errno(), "capabilities cannot be dropped")
