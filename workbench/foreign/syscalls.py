"""System calls a foreign solution does not get, through libseccomp (binding: pyseccomp).

Owns the list. What an honest solution needs (files, threads, compilers as child processes, the GPU's
ioctl) stays allowed: this is the second fence behind Landlock and the namespaces, and the only one
against kernel interfaces that neither covers. Source: the default profile of Docker's runtime.
"""

from __future__ import annotations

import errno
import socket

try:  # a machine without libseccomp has no second fence, and the result says so
    import pyseccomp
except (ImportError, RuntimeError):
    pyseccomp = None
MISSING = "no: pyseccomp does not load: install it, and the system's libseccomp (Debian, Ubuntu: libseccomp2)"
"""Either of the two may be what is missing."""

REFUSED = (
    # other processes: look into, trace, take descriptors from
    "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp", "perf_event_open",
    # doors around this very filter
    "io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "bpf",
    # another view of the machine
    "unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen",
    "fsmount", "fsconfig", "open_by_handle_at", "name_to_handle_at",
    # the machine itself
    "reboot", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "swapon",
    "swapoff", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "acct", "quotactl", "syslog",
    "iopl", "ioperm", "sethostname", "setdomainname", "keyctl", "add_key", "request_key",
)  # fmt: skip
NEW_NAMESPACES = 0x7E020080
"""CLONE_NEW* flags of ``clone``: time, mount, cgroup, uts, ipc, user, pid, net."""


def refuse_syscalls() -> str:
    """Load the filter into this process, for good. Returns ``yes``, or ``no`` with the reason."""
    if pyseccomp is None:
        return MISSING
    denied = pyseccomp.ERRNO(errno.EPERM)
    rules = pyseccomp.SyscallFilter(defaction=pyseccomp.ALLOW)
    unknown = []
    for name in REFUSED:
        try:
            rules.add_rule(denied, name)
        except OSError:  # this architecture, or this libseccomp, has no such call
            unknown.append(name)
    rules.add_rule(denied, "socket", pyseccomp.Arg(0, pyseccomp.NE, int(socket.AF_UNIX)))
    for bit in range(32):
        if NEW_NAMESPACES >> bit & 1:
            flag = 1 << bit
            rules.add_rule(denied, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
    # Its flags lie in memory, where a filter cannot look; the C library then falls back to clone.
    rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    try:
        rules.load()
    except OSError as error:
        return f"no: the kernel refused the filter ({error.strerror})"
    return f"yes, but for {', '.join(unknown)}" if unknown else "yes"
