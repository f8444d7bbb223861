"""A driver without a GPU: the launch goes through the same ctypes call into a library built from cuda.h."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from workbench.compile.options import include_folders
from workbench.errors import GpuError
from workbench.gpu.driver import Driver, Function, entry_of
from workbench.gpu.kernels import Image, Kernels
from workbench.model import H100, TensorMeta, contiguous_strides
from workbench.plan.interpret import LibraryMeta, interpret, refuse_library
from workbench.plan.parse import parse
from workbench.plan.steps import Plan

SOURCE = Path(__file__).with_suffix(".cpp")
PARAMETERS = {"affine": (8, 8, 4, 4, 8, 1, 1), "twice": (8, 8, 4), "leave": (8, 8)}


@cache
def library() -> ctypes.CDLL:
    """Built once for this text."""
    name = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    path = Path(tempfile.mkdtemp(prefix="workbench-driver-")) / f"{name}.so"
    includes = [f"-I{folder}" for folder in include_folders()[1:]]
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", *includes, str(SOURCE), "-o", str(path)], check=True)
    return ctypes.CDLL(str(path))


class RecordedDriver(Driver):
    """Loads names into functions of the library; ``functions`` notes every load."""

    def __init__(self) -> None:
        self.library = library()
        self.launch = entry_of(self.library)
        self.functions: list[tuple[str, int, int, int]] = []
        self.made_current: list[int] = []
        self.most_threads = 1024
        self.together = 132
        self.static_shared_bytes = 0

    def kernels_of(self, image: bytes, names: Iterable[tuple[str, str]]) -> dict[str, Any]:
        return {name: name for name, _ in names}

    def function(self, kernel: Any, device: int, shared_bytes: int, cluster_blocks: int) -> Function:
        if shared_bytes > self.most_shared_bytes(device):
            raise GpuError("too much dynamic shared memory")
        self.functions.append((kernel, device, shared_bytes, cluster_blocks))
        address = ctypes.cast(getattr(self.library, kernel), ctypes.c_void_p).value
        assert address is not None
        return Function(address, PARAMETERS[kernel], 40, self.static_shared_bytes, self.most_threads)

    def most_shared_bytes(self, device: int) -> int:
        return H100.shared_bytes_per_block

    def most_together(self, function: Function, device: int, threads: int, shared_bytes: int) -> int:
        return self.together

    def make_current(self, device: int) -> None:
        self.made_current.append(device)

    def geometry(self) -> list[int]:
        """Grid, block, shared bytes, number of attributes, cluster, 1 for cooperative: of the last launch."""
        return [self.library.geometry(i) for i in range(12)]

    def refuse_next(self, code: int) -> None:
        """Answer the next launch with an error."""
        ctypes.c_int.in_dll(self.library, "answer").value = code

    def slow_down(self, microseconds: int) -> None:
        """Let every launch take a while."""
        ctypes.c_int.in_dll(self.library, "slow_us").value = microseconds


def plan_of(source: str, metas: dict[str, TensorMeta], library_meta: LibraryMeta = refuse_library) -> Plan:
    """The plan of a ``.cu`` text for tensors of some metadata."""
    return interpret(parse(source), metas, H100, library_meta)


def kernels_of(plan: Plan, driver: Driver) -> Kernels:
    """Every kernel of a plan under its own name."""
    consts = dict.fromkeys(consts for _, consts in plan.instances)
    images = [Image(c, b"", tuple((name, name) for name, of in plan.instances if of == c)) for c in consts]
    return Kernels(images, driver)


def f32(*shape: int) -> TensorMeta:
    """Metadata of a contiguous float32 tensor."""
    return TensorMeta(dtype="f32", shape=shape, strides=contiguous_strides(shape))
