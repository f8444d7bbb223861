"""Shuts a forked process in before any foreign code runs, and says fence by fence what holds.

Owns the order: namespaces, limits, files, capabilities, system calls. What this kernel does not offer is
told in the result and never skipped in silence. Not covered by any of it: a fault of the Linux kernel or
of the GPU driver, and how much of the machine's time, memory bandwidth and caches the process uses.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from workbench.foreign.files import limit_files
from workbench.foreign.syscalls import refuse_syscalls
from workbench.foreign.values import Allowance, Fence
from workbench.workers.child import private_bytes
from workbench.workers.confine import PR_SET_NO_NEW_PRIVS, drop_capabilities, landlock_version

NEW_NS = 0x00020000
NEW_IPC, NEW_USER, NEW_PID, NEW_NET = 0x08000000, 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 2, 4, 8, 0x4000, 0x40000
PR_SET_PDEATHSIG, PR_GET_NO_NEW_PRIVS = 1, 39
EVERY_CAPABILITY = (1 << 64) - 1
LOST = 71
"""Exit code of a process that could not be shut in (EX_OSERR)."""

ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    # No pools of compiler processes that outlive a call.
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "MAX_JOBS": "2",
}
KEPT = (
    "PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH",
    "CUDA_DEVICE_ORDER", "CC", "CXX", "TRITON_LIBCUDA_PATH", "TORCH_CUDA_ARCH_LIST",
)  # fmt: skip
CACHES = ("TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH",
          "XDG_CACHE_HOME", "TRITON_HOME", "MPLCONFIGDIR")  # fmt: skip


def enter(
    scratch: Path, allowance: Allowance, owner: int, work: Callable[[tuple[Fence, ...]], None]
) -> NoReturn:
    """In a fresh fork of ``owner``: shut in, run ``work`` with what holds, end. Descends two more forks.

    The first process waits for the second, which is the first of its own process namespace and takes in
    orphans: when it ends, the kernel ends everything in it. The third runs ``work``.
    """
    try:
        gpu = allowance.driver_bytes > 0
        spaces = _namespaces(gpu)
        end_with(owner)  # not before: what a process gains in a user namespace makes the kernel forget it
        _descend()
        if gpu and spaces["own process numbers"] == "yes":
            _mount_proc()
        _descend()
        fences = _shut_in(scratch, allowance, spaces)
        work(fences)
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(LOST)
    os._exit(0)


def _descend() -> None:
    """Fork; the child goes on, the parent waits for it, reaps orphans and ends as the child ended."""
    keeper = os.getpid()
    child = os.fork()
    if child == 0:
        end_with(keeper)
        return
    os.closerange(0, 1024)  # the channel ends when the last process of the inside ends, not with this one
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            os._exit(LOST)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def end_with(parent: int) -> None:
    """This process, forked from ``parent``'s main thread, ends when that does; at once if it has already."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() not in (parent, 0):  # 0: the parent lies outside this process namespace
        os._exit(LOST)


def _namespaces(gpu: bool) -> dict[str, str]:
    """Own network, process numbers and shared memory, in an own user namespace where that is allowed.

    CUDA names its threads through ``/proc/self/task/NUMBER/comm`` and gives up (error 304) when it cannot, so
    for a GPU new process numbers need a ``/proc`` that shows them: without one the old numbers stay.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    flags = NEW_USER | NEW_NET | NEW_PID | NEW_IPC
    numbers = "yes"
    if gpu:
        ways = (flags | NEW_NS, (flags | NEW_NS) & ~NEW_USER)  # the second for root where /proc is masked
        able = next((way for way in ways if _proc_mounts(way)), 0)
        numbers = "yes" if able else "no: /proc cannot be mounted anew here, which CUDA would need"
        flags = able or flags & ~NEW_PID
    user, group = os.getuid(), os.getgid()
    if libc.unshare(flags) == 0:
        if flags & NEW_USER:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        return {"own network": "yes", "own process numbers": numbers}
    why = f"no: this kernel or container refuses user namespaces ({os.strerror(ctypes.get_errno())})"
    return {"own network": why, "own process numbers": why}


def _proc_mounts(flags: int) -> bool:
    """Try in a process of its own whether new namespaces may have a ``/proc`` of theirs."""

    def tried() -> bool:
        return ctypes.CDLL(None).unshare(flags) == 0 and _in_child(_mount_proc)

    return _in_child(tried)


def _in_child(work: Callable[[], bool]) -> bool:
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _mount_proc() -> bool:
    """A fresh ``/proc`` over the old one, seen by this mount namespace only."""
    libc = ctypes.CDLL(None, use_errno=True)
    alone = libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) == 0
    made = alone and libc.mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None) == 0
    return bool(made)


def _shut_in(scratch: Path, allowance: Allowance, spaces: dict[str, str]) -> tuple[Fence, ...]:
    _environment(scratch)
    os.chdir(scratch)
    limits = _limits(allowance)
    readable = (*allowance.readable, *(entry for entry in sys.path if _holds_packages(Path(entry))))
    files = limit_files(scratch, readable, gpu=allowance.driver_bytes > 0)
    drop_capabilities(EVERY_CAPABILITY)
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    privileges = "yes" if libc.prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 else "no: the kernel refused"
    calls = refuse_syscalls()
    others = "yes" if landlock_version() >= 6 else "in part: no Landlock 6, signals reach the same user"
    found = {
        **spaces,
        "files (Landlock)": files,
        "other processes (Landlock)": others if landlock_version() else "no: this kernel has no Landlock",
        "system calls (seccomp)": calls,
        "no new privileges": privileges,
        **limits,
        "scrubbed environment": "yes",
    }
    return tuple(Fence(name=name, holds=holds) for name, holds in found.items())


def _holds_packages(folder: Path) -> bool:
    """True for a folder that packages were installed into, wherever it lies."""
    return folder.is_absolute() and any(folder.glob("*.dist-info"))


def tighten(memory_bytes: int) -> None:
    """Allow this process so much private memory beyond what it holds now; for good."""
    most = private_bytes() + memory_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _environment(scratch: Path) -> None:
    """An allow-list, with every cache inside the scratch folder."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    places = {name: str(scratch / ".cache" / name.lower()) for name in CACHES}
    os.environ.clear()
    os.environ.update(kept | places | ENVIRONMENT | {"HOME": str(scratch), "TMPDIR": str(scratch)})
    tempfile.tempdir = str(scratch)  # the forking process has looked it up already


def _limits(allowance: Allowance) -> dict[str, str]:
    """CPU time, memory, file size and descriptors of each process; the number of processes."""
    most = private_bytes() + allowance.memory_bytes + allowance.driver_bytes
    wanted = (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, allowance.cpu_s),
        (resource.RLIMIT_FSIZE, allowance.file_bytes),
        (resource.RLIMIT_NOFILE, 1024),
        (resource.RLIMIT_DATA, most),
        (resource.RLIMIT_NPROC, allowance.processes),
    )
    for which, value in wanted:
        _, ceiling = resource.getrlimit(which)
        value = value if ceiling == resource.RLIM_INFINITY else min(value, ceiling)
        resource.setrlimit(which, (value, value))
    own = (
        "yes, each process" if os.getuid() else "yes, each process; the watcher alone counts root's processes"
    )
    return {
        "cpu, memory, processes": own,
        "control group": "no: limits hold for a process, not for their sum",
    }
