"""CUDA functions of splits: groups of a block that share its results, and the block that is done last.

Owns their texts; cuda_helpers.py puts them among the others.
"""

from __future__ import annotations

from collections.abc import Mapping

SPLITS: Mapping[str, str] = {
    "across_groups": """
// Groups of LANES threads hold values of the same results, PER_THREAD neighbours a thread. Thread i of the
// block gets what all groups together have for result i.
template <typename Op, int LANES, int PER_THREAD, typename T>
__device__ T across_groups(const T (&values)[PER_THREAD]) {
    constexpr int RESULTS = LANES * PER_THREAD;
    __shared__ T partial[THREADS / LANES][RESULTS];
#pragma unroll
    for (int k = 0; k < PER_THREAD; ++k) {
        partial[threadIdx.x / LANES][threadIdx.x % LANES * PER_THREAD + k] = values[k];
    }
    __syncthreads();
    T value = partial[0][threadIdx.x % RESULTS];
    for (int group = 1; group < THREADS / LANES; ++group) {
        value = Op::join(value, partial[group][threadIdx.x % RESULTS]);
    }
    __syncthreads();  // partial may be written again only when everybody has read it
    return value;
}
""",
    "arrives_last": """
// True in all threads of the block that arrives last: what the others have left can then be read. Nobody
// waits for anybody. The fences stand between a block's result and its arrival, and between the last arrival
// and what is read after it. atomicInc counts to blocks - 1 and then starts at 0 again: for the next launch.
__device__ bool arrives_last(unsigned int* arrived, unsigned int blocks) {
    __shared__ bool last;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicInc(arrived, blocks - 1) == blocks - 1;
        __threadfence();
    }
    __syncthreads();
    return last;
}
""",
}
