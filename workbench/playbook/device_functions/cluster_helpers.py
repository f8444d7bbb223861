"""CUDA functions of clusters: how their blocks meet, and join what each has found.

Owns their texts; cuda_helpers.py puts them among the others.
"""

from __future__ import annotations

from collections.abc import Mapping

CLUSTERS: Mapping[str, str] = {
    "cluster_meet": """
// The blocks of a cluster meet. In cluster.sync() a fence of the whole card stands before every warp's
// arrival; here before the first warp's alone, which has left something for other blocks.
__device__ inline void cluster_meet() {
    if (threadIdx.x < 32) {
        __cluster_barrier_arrive();
    } else {
        __cluster_barrier_arrive_relaxed();
    }
    __cluster_barrier_wait();
}
""",
    "cluster_reduce": """
// The blocks of a cluster leave a value each in shared memory. Every warp reads all of them at once, a lane
// each: a way to another multiprocessor takes long, and a loop would go it once a block.
template <typename Op, int BLOCKS, typename T>
__device__ T cluster_reduce(T value) {
    __shared__ T mine;
    value = block_reduce<Op>(value);
    if (threadIdx.x == 0) {
        mine = value;
    }
    cluster_meet();
    value = *cooperative_groups::this_cluster().map_shared_rank(&mine, threadIdx.x % BLOCKS);
    value = warp_reduce<Op, BLOCKS>(value);
    __cluster_barrier_arrive_relaxed();  // mine may be written again, and its block may end, only
    __cluster_barrier_wait();            // when everybody has used it
    return value;
}
""",
    "cluster_in_turn": """
// The same for blocks that stay for many rows, with one meeting a value: two places take turns, and who
// comes to a meeting has used what was left for the one before.
template <typename Op, int BLOCKS, typename T>
__device__ T cluster_reduce(T value, int turn) {
    __shared__ T mine[2];
    value = block_reduce<Op>(value);
    if (threadIdx.x == 0) {
        mine[turn] = value;
    }
    cluster_meet();
    value = *cooperative_groups::this_cluster().map_shared_rank(&mine[turn], threadIdx.x % BLOCKS);
    return warp_reduce<Op, BLOCKS>(value);
}
""",
}
