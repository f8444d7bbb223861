"""The shortest way from Python to a launch: a few lines of C, built once where there is a C compiler.

On an H100's host the driver took 3.4 us for a launch, and ctypes 0.8 more. Owns building, loading and the
bytes that a launch is copied from; without a compiler or Python's headers there is none, and ctypes does it.
For the process of whoever calls a kernel: the referee's own processes load nothing that was built here.
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

from workbench.compile.cache import Store, cache_folder

SwiftLaunch = Callable[..., int]
"""``launch(template, stream, *addresses)``: the driver's code."""
SOURCE = Path(__file__).with_name("swift_launch.c")
NAME = "swift_launch"
MOST_CELLS = 64
"""Arguments of a kernel; one with more goes through ctypes."""
BUILD_S = 30.0


@lru_cache(1)
def swift_launch() -> SwiftLaunch | None:
    """The function; None where it cannot be built. Takes a third of a second the first time on a machine."""
    try:
        return _loaded(_built())
    except (OSError, ImportError, subprocess.SubprocessError, LookupError):
        return None


def template_of(
    entry: Any, function: int, config: bytes, cells: Sequence[bytes], pointers: Sequence[int]
) -> bytes:
    """Everything of a launch but its stream and its pointers; ``pointers`` are the cells they go to."""
    address = ctypes.cast(entry, ctypes.c_void_p).value
    head = struct.pack("<4Q", address, function, len(cells), len(pointers))
    return head + config + struct.pack(f"<{len(pointers)}Q", *pointers) + b"".join(cells)


def _built() -> bytes:
    """The shared library, from the cache or from the compiler. Raises ``LookupError`` without one."""
    include = Path(sysconfig.get_paths()["include"])
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None or not (include / "Python.h").is_file():
        raise LookupError("a C compiler and Python.h")
    store = Store(cache_folder() / NAME)
    told = (SOURCE.read_text(), sys.version, sys.implementation.cache_tag, str(include))
    key = hashlib.sha256("\0".join(told).encode()).hexdigest()
    if (known := store.get(key)) is not None:
        return known
    with tempfile.TemporaryDirectory(prefix="workbench-swift-") as folder:
        library = Path(folder, f"{NAME}.so")
        command = [compiler, "-O2", "-shared", "-fPIC", f"-I{include}", str(SOURCE), "-o", str(library)]
        subprocess.run(command, check=True, capture_output=True, timeout=BUILD_S)
        body = library.read_bytes()
    store.put(key, body)
    return body


def _loaded(body: bytes) -> SwiftLaunch:
    with tempfile.TemporaryDirectory(prefix="workbench-swift-") as folder:
        path = Path(folder, f"{NAME}.so")
        path.write_bytes(body)
        loader = ExtensionFileLoader(NAME, str(path))
        spec = spec_from_loader(NAME, loader)
        assert spec is not None  # a loader was given
        module = module_from_spec(spec)
        loader.exec_module(module)
    function: SwiftLaunch = module.launch
    return function
