"""What every build needs once: the compiler, CUDA's headers, the runtime library, the precompiled header.

Owns the flags and the shared files in the cache. Never sees a kernel.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from workbench.compile.options import SHIM, include_folders
from workbench.emulator.values import Mode
from workbench.errors import DeviceError

HERE = Path(__file__).parent
MAX_KERNELS = 4000
RUNTIME_SOURCES = tuple(sorted((HERE / "runtime").glob("*.cpp")))

_COMMON = (
    "-std=c++17", "-O2", "-fPIC", "-fpermissive", "-fno-exceptions", "-fno-strict-aliasing",
    # The only warnings that anybody reads: see diagnostics.remarks.
    "-Wuninitialized", "-Wmaybe-uninitialized",
    # NVRTC contracts a * b + c by default.
    "-ffp-contract=fast",
    # Where a card makes something else of a float than this machine does: see runtime/conversions.cpp.
    "-fsanitize=float-cast-overflow",
    # __shared__ is thread_local: one definition a module, reached without a call where possible.
    "-fno-gnu-unique", "-fno-extern-tls-init", "-mtls-dialect=gnu2",
    "-g1", "-gdwarf-4",
)  # fmt: skip
_PLAIN = ("-march=native", "-mf16c")
_CHECKED = (
    # A volatile read may wait for another thread, and has to let it run.
    "-fsanitize=thread", "--param=tsan-distinguish-volatile=1", "-mfma", "-mf16c",
    # Else a float4 load is seen as four loads.
    "-fno-tree-sra", "-fno-ipa-sra",
    # These would merge the accesses of several iterations into one, or into a call of memset.
    "-fno-tree-vectorize", "-fno-tree-loop-distribute-patterns",
    # Addresses follow the source and every access has its own: the replay of a warp relies on both.
    "-fno-reorder-blocks", "-fno-reorder-blocks-and-partition", "-fno-jump-tables",
    "-fno-crossjumping", "-fno-tree-tail-merge",
)  # fmt: skip
RUNTIME_FLAGS = (
    "-std=c++20", "-O2", "-march=native", "-fPIC", "-shared", "-pthread", "-fno-exceptions", "-w",
)  # fmt: skip
FLAGS: dict[Mode, tuple[str, ...]] = {"plain": _COMMON + _PLAIN, "checked": _COMMON + _CHECKED}


def cache_folder() -> Path:
    """Folder of built files, made if it is missing: ``$WORKBENCH_CACHE`` or ``~/.cache/workbench``."""
    root = os.environ.get("WORKBENCH_CACHE")
    folder = (Path(root) if root else Path.home() / ".cache" / "workbench") / "emulator"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@cache
def compiler() -> str:
    """Path of g++. Raises ``DeviceError`` when the emulator cannot work on this machine."""
    if platform.machine() not in ("x86_64", "AMD64"):
        raise DeviceError(
            f"the emulator runs on x86-64 only, not on {platform.machine()}: use a CUDA device."
        )
    found = shutil.which("g++")
    if found is None:
        raise DeviceError(
            "no C++ compiler found: install g++ "
            "(Debian and Ubuntu: apt install g++; Fedora: dnf install gcc-c++)."
        )
    return found


@cache
def poisoned_locals() -> tuple[str, ...]:
    """Registers start undefined too: a variable that nobody has set holds a huge number, not a zero by luck.

    Known to g++ 12 and later; nothing before.
    """
    flag = "-ftrivial-auto-var-init=pattern"
    command = [compiler(), flag, "-fsyntax-only", "-x", "c++", os.devnull]
    return (flag,) if subprocess.run(command, capture_output=True).returncode == 0 else ()


def flags(mode: Mode) -> tuple[str, ...]:
    """What a kernel and the precompiled header are compiled with."""
    return (*FLAGS[mode], *poisoned_locals())


@cache
def cuda_includes() -> tuple[Path, ...]:
    """Folders of CUDA's headers: one, or several where the wheels were installed apart."""
    try:
        folders = [Path(folder) for folder in include_folders()]
    except DeviceError as error:
        raise DeviceError(f"CUDA's headers are missing: {error}") from error
    found = [folder for folder in folders if folder != SHIM]
    if not any((folder / "vector_types.h").exists() for folder in found):
        raise DeviceError("CUDA's headers are missing: pip install nvidia-cuda-runtime nvidia-cuda-crt.")
    return tuple(found)


def digest(*parts: str | bytes) -> str:
    """Short name of some content."""
    state = hashlib.sha256()
    for part in parts:
        state.update(part.encode() if isinstance(part, str) else part)
        state.update(b"\0")
    return state.hexdigest()[:24]


@cache
def machine() -> str:
    """Names compiler and processor: a home folder may be shared by several machines."""
    path = Path(compiler()).resolve()
    try:
        cpu = Path("/proc/cpuinfo").read_text()
    except OSError:
        cpu = ""
    features = re.search(r"^flags\s*:.*$", cpu, re.MULTILINE)
    return digest(str(path), str(path.stat().st_mtime_ns), features.group() if features else "")


@cache
def headers() -> str:
    """Names the content of every header a kernel sees."""
    files = sorted([*(HERE / "include").rglob("*.h"), *(HERE / "shim").rglob("*.h")])
    return digest(machine(), *map(str, cuda_includes()), *(file.read_bytes() for file in files))


def run(command: list[str], folder: Path | None = None) -> str:
    """Run a compiler step; returns its warnings. Raises ``CompilerFailed`` with what it printed."""
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, errors="replace"
    )
    if done.returncode:
        raise CompilerFailed(done.stderr)
    return done.stderr


class CompilerFailed(Exception):
    """A compiler step failed; the text is its standard error. Never leaves this package."""


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder on the cache's own file system, so that results can be renamed into place."""
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix="tmp-") as folder:
        yield Path(folder)


def once(target: Path, make: Callable[[Path], None]) -> Path:
    """Return ``target``, made by ``make(temporary path)`` if it does not exist.

    Several processes may ask at once: one makes it, the others wait. It appears complete or not at all.
    """
    if target.exists():
        return target
    with target.with_name(f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            with scratch() as folder:
                made = folder / target.name
                make(made)
                made.rename(target)
    return target


def runtime_path() -> Path:
    """Where the runtime library lies, or will lie."""
    sources = [*RUNTIME_SOURCES, *sorted((HERE / "runtime").glob("*.h")), HERE / "include" / "abi.h"]
    name = digest(machine(), *RUNTIME_FLAGS, *(source.read_bytes() for source in sources))
    return cache_folder() / f"runtime-{name}.so"


def runtime() -> Path:
    """The runtime library, compiled on first use (some seconds).

    As one translation unit: half the time of nine, and the access checks inline into the hooks.
    """

    def make(path: Path) -> None:
        whole = path.with_suffix(".cpp")
        whole.write_text("".join(f'#include "{source}"\n' for source in RUNTIME_SOURCES))
        include = ["-I", str(HERE / "include"), "-I", str(HERE / "runtime")]
        soname = f"-Wl,-soname,{path.name}"
        _run_own([compiler(), *RUNTIME_FLAGS, *include, soname, str(whole), "-o", str(path)])

    return once(runtime_path(), make)


def prepare(*modes: Mode) -> None:
    """Build what every kernel shares: some seconds with an empty cache, nothing afterwards."""
    with ThreadPoolExecutor(1 + len(modes)) as pool:
        parts = [pool.submit(runtime), *(pool.submit(precompiled, mode) for mode in modes)]
        for part in parts:
            part.result()


def prune(keep: int = MAX_KERNELS, younger_than_s: float = 3600.0) -> None:
    """Delete the oldest kernels beyond ``keep``; never one that another process may be about to load.

    Follows every build, so their ages are looked at only once there are too many of them.
    """
    names = _kernels()
    if len(names) <= keep:
        return
    paths = [cache_folder() / name for name in names]
    ages = {path: age for path in paths if (age := _age_s(path)) is not None}
    oldest = sorted(ages, key=lambda path: -ages[path])[: max(len(ages) - keep, 0)]
    for path in oldest:
        if ages[path] > younger_than_s:
            path.unlink(missing_ok=True)
            path.with_suffix(".so").unlink(missing_ok=True)


def _kernels() -> list[str]:
    """Names of the files with what is known of each kernel in the cache."""
    with os.scandir(cache_folder()) as entries:
        names = [entry.name for entry in entries]
    return [name for name in names if name.startswith("kernel-") and name.endswith(".json")]


def _age_s(path: Path) -> float | None:
    """Seconds since a kernel was last used; None when another process has just deleted it."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return None


def include_flags() -> list[str]:
    """Search path of a kernel: the emulator's stand-ins first, then CUDA's own headers."""
    folders = (HERE / "shim", HERE / "include", half_headers(), *cuda_includes())
    return [flag for folder in folders for flag in ("-I", str(folder))]


def precompiled(mode: Mode) -> Path:
    """The emulator's header, precompiled for one mode; include it first with ``-include``."""
    name = digest(headers(), *flags(mode))

    def make(folder: Path) -> None:
        folder.mkdir()
        header = folder / "emulator.h"
        header.write_text(f'#include "{HERE / "include" / "emulator.h"}"\n')
        output = ["-x", "c++-header", str(header), "-o", f"{header}.gch"]
        _run_own([compiler(), *flags(mode), *include_flags(), *output])

    return once(cache_folder() / f"header-{name}", make) / "emulator.h"


def half_headers() -> Path:
    """Patched copies of the half and bfloat16 headers, made from the installed ones, never shipped.

    A half2 is copied as one word (the original copies two halves, which would be counted as two
    accesses), and conversions use the processor's own instructions (F16C: x86-64 since 2013).
    """
    names = [f"cuda_{kind}.{end}" for kind in ("fp16", "bf16") for end in ("h", "hpp")]
    places = [[folder / name for folder in cuda_includes()] for name in names]
    originals = [next((p for p in found if p.exists()), found[0]) for found in places]
    name = digest(_PATCHES_VERSION, *(original.read_bytes() for original in originals))

    def make(folder: Path) -> None:
        folder.mkdir()
        for original in originals:
            (folder / original.name).write_text(_patched(original.name, original.read_text()))

    return once(cache_folder() / f"half-{name}", make)


_PATCHES_VERSION = "3"
# Not <immintrin.h>: it would double the precompiled header, and with it the time of every compilation.
_F16C = """#pragma once
static inline __attribute__((always_inline)) float emu_half_to_float(unsigned short h) {
  typedef short halves __attribute__((vector_size(16)));
  halves all = {(short)h};
  return __builtin_ia32_vcvtph2ps(all)[0];
}
static inline __attribute__((always_inline)) unsigned short emu_float_to_half(float f) {
  typedef float floats __attribute__((vector_size(16)));
  floats all = {f};
  return (unsigned short)__builtin_ia32_vcvtps2ph(all, 0)[0];
}
"""
_HALF_TO_FLOAT = r"(static inline float __internal_half2float\(const unsigned short h\)\s*\{)"
_FLOAT_TO_HALF = r"(__CUDA_HOSTDEVICE_FP16_DECL__ __half __float2half(?:_rn)?\(const float a\)\s*\{)"


def _patched(name: str, text: str) -> str:
    whole_word = "__builtin_memcpy((void*)this, (const void*)&src, 4);"
    text = re.sub(r"this->x = src\.x;\s*this->y = src\.y;", whole_word, text)
    if name == "cuda_fp16.hpp":
        text = _F16C + text
        text = re.sub(_HALF_TO_FLOAT, r"\1\n    return emu_half_to_float(h);\n", text)
        text = re.sub(
            _FLOAT_TO_HALF, r"\1\n    { __half_raw r; r.x = emu_float_to_half(a); return r; }\n", text
        )
    for kind in ("FP16", "BF16"):
        macro = f"__CUDA_HOSTDEVICE_{kind}_DECL__"
        text = text.replace(
            f"{macro} static __attribute__ ((unused))", f"{macro} static inline __attribute__ ((unused))"
        )
    return text


def _run_own(command: list[str]) -> None:
    """Compile a part of the emulator itself: a failure is the machine's, not the kernel's."""
    try:
        run(command)
    except CompilerFailed as error:
        first = next((line for line in str(error).splitlines() if "error" in line), str(error)[:300])
        raise DeviceError(f"the emulator could not be built with {compiler()}: {first}") from None
