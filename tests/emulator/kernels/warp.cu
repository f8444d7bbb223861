// Warp intrinsics, cooperative groups, waiting loops.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// Indices of the positive elements; the lanes that are there add up their count first.
__global__ void compact_activemask(const int* x, int* count_and_indices) {
  int i = threadIdx.x;
  if (x[i] > 0) {
    unsigned lanes = __activemask();
    int leader = __ffs(lanes) - 1, rank = __popc(lanes & ((1u << (i & 31)) - 1)), base = 0;
    if ((i & 31) == leader) base = atomicAdd(&count_and_indices[0], __popc(lanes));
    base = __shfl_sync(lanes, base, leader);
    count_and_indices[1 + base + rank] = i;
  }
}
__global__ void compact_coalesced_group(const int* x, int* count_and_indices) {
  int i = threadIdx.x;
  if (x[i] > 0) {
    auto group = cg::coalesced_threads();
    int base = 0;
    if (group.thread_rank() == 0) base = atomicAdd(count_and_indices, (int)group.size());
    base = group.shfl(base, 0);
    count_and_indices[1 + base + group.thread_rank()] = i;
  }
}
__global__ void sum_tiles_of_8(const float* x, float* y) {
  auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  float v = x[threadIdx.x];
  for (int d = 4; d; d >>= 1) v += tile.shfl_down(v, d);
  if (tile.thread_rank() == 0) y[tile.meta_group_rank()] = v;
}
__global__ void votes(int* y) {
  int i = threadIdx.x;
  unsigned thirds = __ballot_sync(~0u, i % 3 == 0), fours = __match_any_sync(~0u, i / 4);
  int sum = __reduce_add_sync(~0u, (unsigned)i);
  bool some_not_all = __any_sync(~0u, i == 7) && !__all_sync(~0u, i == 7);
  y[i] = __popc(thirds) + 100 * __popc(fours) + 10000 * sum + some_not_all;
}
__global__ void reductions(const int* x, int* y) {
  int v = x[threadIdx.x], equal;
  int results[6] = {__reduce_min_sync(~0u, v), __reduce_max_sync(~0u, v), (int)__reduce_or_sync(~0u, (unsigned)v),
                    (int)__reduce_and_sync(~0u, (unsigned)v), (int)__reduce_xor_sync(~0u, (unsigned)v),
                    (int)__match_all_sync(~0u, 5, &equal)};
  if (threadIdx.x == 0) {
    for (int i = 0; i < 6; i++) y[i] = results[i];
    y[6] = equal;
  }
}
__global__ void count_positive(const int* x, int* y) {
  int count = __syncthreads_count(x[threadIdx.x] > 0);
  int any = __syncthreads_or(x[threadIdx.x] > 100), all = __syncthreads_and(x[threadIdx.x] > -100);
  if (threadIdx.x == 0) { y[0] = count; y[1] = any; y[2] = all; }
}
// Every thread of every block takes one lock.
__global__ void spin_lock(int* lock, int* y) {
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      y[0] = y[0] + 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}
// Block b waits for block b - 1: a chained scan.
__global__ void look_back(volatile int* flag, float* y) {
  if (threadIdx.x == 0) {
    if (blockIdx.x > 0) while (flag[blockIdx.x - 1] == 0) {}
    y[blockIdx.x] = (blockIdx.x ? y[blockIdx.x - 1] : 0.f) + 1.f;
    __threadfence();
    flag[blockIdx.x] = 1;
  }
}
__global__ void ragged(const float* x, float* y, const int* length, int width) {
  int row = threadIdx.x;
  float sum = 0;
  for (int k = 0; k < length[row]; k++) sum += x[row * width + k];
  y[row] = sum;
}
