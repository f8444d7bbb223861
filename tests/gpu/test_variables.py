"""Names of ``__device__`` variables out of a cubin, and whether their values changed."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from workbench.compile import load_cubin
from workbench.errors import GpuError
from workbench.gpu import driver
from workbench.gpu.variables import Section, Watched, plain, sections_of

SOURCE = """
__device__ int calls;
__device__ float kept[3] = {1.0f, 2.0f, 3.0f};
namespace inner { static __device__ unsigned seen; }
__constant__ float table[4];
__global__ void count(float* y) {
    __shared__ float part[8];
    static __device__ int turns;
    part[threadIdx.x] = table[1] + inner::seen++ + turns++;
    y[0] = part[0] + kept[0] + calls++;
}
"""


@pytest.fixture(scope="module")
def cubin() -> bytes:
    answer = load_cubin(SOURCE, (), ["count"])
    assert isinstance(answer, tuple)
    return answer[0]


def test_every_writable_variable_is_found_and_nothing_else(cubin: bytes) -> None:
    sections = sections_of(cubin)
    names = {plain(name) for section in sections for name, _, _ in section.places}
    assert names == {"calls", "kept", "seen", "turns"}
    assert sorted(section.nbytes for section in sections) == [12, 12]
    for section in sections:
        taken = sorted((first, first + nbytes) for _, first, nbytes in section.places)
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(taken))
        assert taken[-1][1] == section.nbytes


def test_a_header_brings_a_thousand_in_two_pieces() -> None:
    """Copied one by one they took three seconds of each judgement of a kernel with a grid barrier."""
    source = (
        "#include <cooperative_groups.h>\n__global__ void k() { cooperative_groups::this_grid().sync(); }"
    )
    answer = load_cubin(source, (), ["k"])
    assert isinstance(answer, tuple)
    sections = sections_of(answer[0])
    assert len(sections) == 2 and sum(len(section.places) for section in sections) > 500


def test_what_is_no_cubin_has_none() -> None:
    assert sections_of(b"PTX") == ()


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("calls", "calls"),
        ("_ZN5inner4seenE", "seen"),
        ("_ZZ5countPfE5turns", "turns"),
        ("_ZN35_INTERNAL_00000000_9_kernel_cu_kept5inner4seenE", "seen"),
    ],
)
def test_plain(mangled: str, name: str) -> None:
    assert plain(mangled) == name


def test_changed_tells_which() -> None:
    held = bytearray(b"\0\0\0\0\1\1")
    section = Section(6, (("calls", 0, 2), ("_ZN5inner4seenE", 2, 2), ("kept", 4, 1)))
    watched = Watched([(section, lambda _: bytes(held))])
    assert watched.changed() == ()
    held[5] = 9  # between variables
    assert watched.changed() == ()
    held[3] = 9
    assert watched.changed() == ("seen",)


class _Module:
    """The driver's functions for one section at address 100, in one piece or not, copied whole or not."""

    def __init__(self, apart: int, whole: bool) -> None:
        self.addresses = {b"first": 100, b"second": 104 + apart}
        self.memory = {100: b"ABCD", 104 + apart: b"EFGH"}
        self.whole, self.copies = whole, 0

    def CUdeviceptr(self, address: int) -> int:
        return address

    def CUkernel(self, handle: int) -> int:
        return handle

    def cuKernelGetLibrary(self, kernel: int) -> tuple[int, int]:
        return 0, 7

    def cuLibraryGetGlobal(self, library: int, name: bytes) -> tuple[int, int, int]:
        return 0, self.addresses[name], 4

    def cuMemcpyDtoH(self, into: int, address: int, nbytes: int) -> tuple[int]:
        if nbytes == 8 and not self.whole:
            return (1,)
        self.copies += 1
        held = b"ABCDEFGH" if nbytes == 8 else self.memory[address]
        ctypes.memmove(into, held, nbytes)
        return (0,)


@pytest.mark.parametrize(("apart", "whole", "copies"), [(0, True, 1), (0, False, 2), (256, True, 2)])
def test_a_section_is_copied_at_once_where_it_is_in_one_piece(
    apart: int, whole: bool, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = _Module(apart, whole)
    monkeypatch.setattr(driver, "_bindings", lambda: module)
    monkeypatch.setattr(driver.Driver, "current", lambda self, device: contextlib.nullcontext())
    monkeypatch.setattr(driver, "_check", _checked)
    section = Section(8, (("first", 0, 4), ("second", 4, 4)))
    subject = driver.Driver.__new__(driver.Driver)
    assert subject.section(SimpleNamespace(handle=1), 0, section) == b"ABCDEFGH"
    assert module.copies == copies


def _checked(answer: tuple[Any, ...]) -> Any:
    if answer[0]:
        raise GpuError("refused")
    return answer[1] if len(answer) == 2 else answer[1:]
