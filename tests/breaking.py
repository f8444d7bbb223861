"""Kernels that break a GPU's process in every way we know of, each with the outcome it must get."""

from __future__ import annotations

from dataclasses import dataclass

from softmax_problem import PROBLEM, STORE, changed, storing

from workbench.model import Case, Kernel, Problem


@dataclass(frozen=True)
class Breaking:
    """A kernel, the kinds of outcome it may get, and a word of the message."""

    kernel: Kernel
    outcomes: tuple[str, ...]
    word: str = ""


def _case(rows: int, columns: int) -> Case:
    return Case(label=f"{rows}x{columns}", sizes=(("s0", rows), ("s1", columns)), origin="declared")


SOFTMAX: Problem = PROBLEM.model_copy(update={"cases": (_case(4096, 1024), _case(64, 4096))})
"""The small problem with declared sizes that a test can afford."""

_WHILE = "for (int i = threadIdx.x; i < cols; i += BLOCK)"
_MANY = (
    """float kept[160];
    #pragma unroll
    for (int k = 0; k < 160; ++k) kept[k] = row[(threadIdx.x * 7 + k * 13) % cols];
    __syncthreads();
    float odd = 0.0f;
    #pragma unroll
    for (int k = 0; k < 160; ++k) odd += kept[k] * kept[159 - k] * scratch[k % BLOCK];
    if (odd == 12345.678f) out[0] = odd;
    """
    + STORE
)

KERNELS: dict[str, Breaking] = {
    "illegal address": Breaking(
        storing(f"{_WHILE} out[i + (1LL << 42)] = expf(row[i] - top) / sum;"),
        ("crashed", "hazard"),
        "illegal address",
    ),
    "null pointer": Breaking(
        storing(f"{_WHILE} *(volatile float*)(size_t)(4 * i) = sum;"),
        ("crashed", "hazard"),
        "illegal address",
    ),
    "misaligned access": Breaking(
        storing("*(volatile double*)((char*)out + 4) = sum;"), ("crashed", "hazard"), "misaligned"
    ),
    "trap": Breaking(storing("__trap();"), ("crashed",)),
    "endless loop": Breaking(
        storing("volatile float* spin = out; while (spin[0] != 12345.0f) {}"), ("timed_out",), "during"
    ),
    "shared overrun": Breaking(
        changed("scratch[threadIdx.x] = value;", "scratch[threadIdx.x + (1 << 20)] = value;"),
        ("crashed", "mismatch", "hazard"),  # a hazard where the emulator beside the card sees it first
    ),
    "too much static shared memory": Breaking(
        changed("__shared__ float scratch[BLOCK];", "__shared__ float scratch[80000];"),
        ("launch_failed", "compile_failed"),
        "shared",
    ),
    "too many registers": Breaking(
        Kernel(source=storing(_MANY).source.replace("128", "1024")), ("launch_failed",), "registers"
    ),
    "more memory than the card": Breaking(
        changed("y = empty_like(x)", "y = empty_like(x)\n    z = zeros((400000000000,), f32)"),
        ("launch_failed", "compile_failed", "crashed"),
    ),
    "writes into its input": Breaking(
        storing(f"{_WHILE} {{ out[i] = expf(row[i] - top) / sum; ((float*)row)[i] = 1.0f; }}"),
        ("hazard", "mismatch"),
        "input",
    ),
    "does nothing": Breaking(storing(""), ("mismatch",), "never written"),
}
