"""What ``workbench doctor`` tells: which tools are here, which are not, and what to do about it.

Owns looking, never installing. Says of a key only whether it is set. Imports no torch and no CUDA.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
from importlib import metadata

from workbench.compile.cache import cache_folder
from workbench.compile.options import nvrtc_version
from workbench.compile.service import compile_kernel
from workbench.errors import DeviceError
from workbench.model import CompileFailed, Value

KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
"""Variables a language model needs; none of them is required."""
TRIVIAL = "__global__ void doctor(float* x) { x[0] = 1.0f; }"


class Fact(Value):
    """One line of the doctor's report."""

    name: str
    ok: bool
    """False where something is missing."""
    needed: bool
    """True when nothing works without it; False when only a part of the workbench does."""
    found: str
    """What is there, or why not and what to do."""


def toolchain_facts(arch: str = "sm_90a") -> tuple[Fact, ...]:
    """Look at everything; compiles one trivial kernel. Never raises."""
    return (_python(), _torch(), _nvrtc(arch), host_compiler(), _gpu(), _cache(), *map(_key, KEYS))


def _python() -> Fact:
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return Fact(name="python", ok=True, needed=True, found=found)


def _torch() -> Fact:
    try:
        return Fact(name="torch", ok=True, needed=True, found=metadata.version("torch"))
    except metadata.PackageNotFoundError:
        return Fact(name="torch", ok=False, needed=True, found="not installed; pip install torch")


def _nvrtc(arch: str) -> Fact:
    try:
        outcome = compile_kernel(TRIVIAL, [("doctor", ())], arch)
        if isinstance(outcome, CompileFailed):
            reason = outcome.diagnostics[0].message
            return Fact(name="nvrtc", ok=False, needed=True, found=f"cannot compile for {arch}: {reason}")
        return Fact(name="nvrtc", ok=True, needed=True, found=f"{nvrtc_version()}, compiles for {arch}")
    except DeviceError as error:
        return Fact(name="nvrtc", ok=False, needed=True, found=str(error))


def host_compiler() -> Fact:
    """The C++ compiler of the emulator."""
    path = shutil.which("g++")
    if path is None:
        missing = "g++ not found; install it (Debian, Ubuntu: apt install g++) for the emulator"
        return Fact(name="c++ compiler", ok=False, needed=True, found=missing)
    said = _first_line([path, "--version"])
    return Fact(
        name="c++ compiler", ok=said is not None, needed=True, found=f"{path}: {said or 'does not run'}"
    )


def _gpu() -> Fact:
    path = shutil.which("nvidia-smi")
    said = _first_line([path, "--query-gpu=name,driver_version", "--format=csv,noheader"]) if path else None
    if said is not None:
        return Fact(name="gpu", ok=True, needed=False, found=said)
    try:
        ctypes.CDLL("libcuda.so.1")
        reason = "the driver is installed, but nvidia-smi reports no device"
    except OSError:
        reason = "no NVIDIA driver (libcuda.so.1) on this machine"
    return Fact(
        name="gpu", ok=False, needed=False, found=f"{reason}; the emulator is used, times are modelled"
    )


def _cache() -> Fact:
    folder = cache_folder()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free_gb = shutil.disk_usage(existing).free / 1e9
    ok = os.access(existing, os.W_OK)
    note = f"{folder}, {free_gb:.0f} GB free" if ok else f"{folder} cannot be written; set WORKBENCH_CACHE"
    return Fact(name="cache", ok=ok, needed=False, found=note)


def _key(name: str) -> Fact:
    present = bool(os.environ.get(name))
    return Fact(
        name=name, ok=present, needed=False, found="set" if present else "not set; the playbook needs none"
    )


def _first_line(command: list[str]) -> str | None:
    """First line a tool prints; None when it fails or prints nothing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return next(iter(done.stdout.splitlines()), None)
