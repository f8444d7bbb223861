"""Names of ``__device__`` variables out of a cubin, and whether their values changed."""

from __future__ import annotations

import pytest

from workbench.compile import load_cubin
from workbench.gpu.variables import Watched, plain, variables_of

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
    names = {plain(name) for name in variables_of(cubin)}
    assert names == {"calls", "kept", "seen", "turns"}


def test_what_is_no_cubin_has_none() -> None:
    assert variables_of(b"PTX") == ()


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
    values = {"calls": b"\0", "_ZN5inner4seenE": b"\0", "kept": b"1"}
    watched = Watched([(tuple(values), lambda name: values[name])])
    assert watched.changed() == ()
    values["_ZN5inner4seenE"] = b"\1"
    assert watched.changed() == ("seen",)
