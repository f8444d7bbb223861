// Stands in for CUDA's cooperative_groups.h: clusters, thread blocks, tiles of at most a warp, coalesced groups.
#pragma once

namespace cooperative_groups {

struct thread_block {
  static void sync() { __syncthreads(); }
  static unsigned thread_rank() { return emu_thread_rank(); }
  static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  static unsigned num_threads() { return size(); }
  static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  static dim3 group_dim() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
  static dim3 dim_threads() { return group_dim(); }
};
EMU_INLINE thread_block this_thread_block() { return {}; }

struct cluster_group {
  static void sync() {
    EMU_FENCE;
    emu_cluster_barrier();
    EMU_FENCE;
  }
  static unsigned block_rank() { return emu_cluster_rank(); }
  static dim3 dim_blocks() {
    emu_index size = emu_cluster_size();
    return dim3(size.x, size.y, size.z);
  }
  static unsigned num_blocks() {
    dim3 size = dim_blocks();
    return size.x * size.y * size.z;
  }
  static dim3 block_index() {
    dim3 size = dim_blocks();
    unsigned rank = block_rank();
    return dim3(rank % size.x, rank / size.x % size.y, rank / (size.x * size.y));
  }
  static unsigned num_threads() { return num_blocks() * thread_block::size(); }
  static unsigned size() { return num_threads(); }
  static unsigned thread_rank() { return block_rank() * thread_block::size() + emu_thread_rank(); }
  template <class T>
  static T* map_shared_rank(T* pointer, int rank) {
    return (T*)emu_map_shared((const void*)pointer, (unsigned)rank);
  }
};
EMU_INLINE cluster_group this_cluster() { return {}; }

struct grid_group {
  static void sync() {
    EMU_FENCE;
    emu_grid_barrier();
    EMU_FENCE;
  }
  static bool is_valid() { return emu_is_cooperative(); }
  static dim3 group_dim() { return dim3(gridDim.x, gridDim.y, gridDim.z); }
  static dim3 dim_blocks() { return group_dim(); }
  static dim3 block_index() { return thread_block::group_index(); }
  static unsigned long long num_blocks() {
    return (unsigned long long)gridDim.x * gridDim.y * gridDim.z;
  }
  static unsigned long long block_rank() {
    return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
  }
  static unsigned long long num_threads() { return num_blocks() * thread_block::size(); }
  static unsigned long long size() { return num_threads(); }
  static unsigned long long thread_rank() {
    return block_rank() * thread_block::size() + emu_thread_rank();
  }
};
EMU_INLINE grid_group this_grid() { return {}; }

template <unsigned N, class Parent = void>
struct thread_block_tile {
  static_assert(N <= 32 && (N & (N - 1)) == 0,
                "the emulator cannot run this yet: tiles of more than one warp");
  static unsigned first_lane() { return (emu_thread_rank() & 31) / N * N; }
  static unsigned mask() { return (N == 32 ? ~0u : (1u << (N & 31)) - 1u) << first_lane(); }
  static unsigned thread_rank() { return emu_thread_rank() % N; }
  static constexpr unsigned size() { return N; }
  static constexpr unsigned num_threads() { return N; }
  static unsigned meta_group_rank() { return emu_thread_rank() / N; }
  static unsigned meta_group_size() { return (thread_block::size() + N - 1) / N; }
  static void sync() { __syncwarp(mask()); }
  template <class T>
  static T shfl(T value, int source) {
    return __shfl_sync(mask(), value, source, N);
  }
  template <class T>
  static T shfl_down(T value, unsigned delta) {
    return __shfl_down_sync(mask(), value, delta, N);
  }
  template <class T>
  static T shfl_up(T value, unsigned delta) {
    return __shfl_up_sync(mask(), value, delta, N);
  }
  template <class T>
  static T shfl_xor(T value, unsigned bits) {
    return __shfl_xor_sync(mask(), value, bits, N);
  }
  static int any(int predicate) { return __any_sync(mask(), predicate); }
  static int all(int predicate) { return __all_sync(mask(), predicate); }
  static unsigned ballot(int predicate) {
    return (__ballot_sync(mask(), predicate) & mask()) >> first_lane();
  }
  template <class T>
  static unsigned match_any(T value) {
    return __match_any_sync(mask(), value) >> first_lane();
  }
};
template <unsigned N>
EMU_INLINE thread_block_tile<N> tiled_partition(thread_block) {
  return {};
}
template <unsigned N, unsigned M, class Parent>
EMU_INLINE thread_block_tile<N> tiled_partition(thread_block_tile<M, Parent>) {
  return {};
}

struct coalesced_group {
  unsigned lanes;
  unsigned size() const { return __popc(lanes); }
  unsigned num_threads() const { return size(); }
  unsigned thread_rank() const { return __popc(lanes & ((1u << (emu_thread_rank() & 31)) - 1)); }
  void sync() const { __syncwarp(lanes); }
  int lane_of(int rank) const {
    unsigned rest = lanes;
    while (rank--) rest &= rest - 1;
    return __ffs(rest) - 1;
  }
  template <class T>
  T shfl(T value, int rank) const {
    return __shfl_sync(lanes, value, lane_of(rank));
  }
  int any(int predicate) const { return __any_sync(lanes, predicate); }
  int all(int predicate) const { return __all_sync(lanes, predicate); }
};
EMU_INLINE coalesced_group coalesced_threads() { return {__activemask()}; }

template <class Group>
EMU_INLINE void sync(const Group& group) {
  group.sync();
}
template <class T>
struct plus {
  T operator()(T a, T b) const { return a + b; }
};
template <class T>
struct greater {
  T operator()(T a, T b) const { return a > b ? a : b; }
};
template <class T>
struct less {
  T operator()(T a, T b) const { return a < b ? a : b; }
};
template <class T>
struct bit_and {
  T operator()(T a, T b) const { return a & b; }
};
template <class T>
struct bit_or {
  T operator()(T a, T b) const { return a | b; }
};
template <class T>
struct bit_xor {
  T operator()(T a, T b) const { return a ^ b; }
};

template <unsigned N, class Parent, class T, class Op>
EMU_INLINE T reduce(const thread_block_tile<N, Parent>& tile, T value, Op op) {
  for (unsigned bits = N / 2; bits; bits >>= 1) value = op(value, tile.shfl_xor(value, bits));
  return value;
}
template <class T, class Op>
EMU_INLINE T reduce(const coalesced_group& group, T value, Op op) {
  T result = group.shfl(value, 0);
  for (unsigned rank = 1; rank < group.size(); rank++) result = op(result, group.shfl(value, rank));
  return result;
}
template <unsigned N, class Parent, class T, class Op>
EMU_INLINE T inclusive_scan(const thread_block_tile<N, Parent>& tile, T value, Op op) {
  for (unsigned delta = 1; delta < N; delta <<= 1) {
    T other = tile.shfl_up(value, delta);
    if (tile.thread_rank() >= delta) value = op(other, value);
  }
  return value;
}
template <unsigned N, class Parent, class T>
EMU_INLINE T inclusive_scan(const thread_block_tile<N, Parent>& tile, T value) {
  return inclusive_scan(tile, value, plus<T>());
}
template <unsigned N, class Parent, class T>
EMU_INLINE T exclusive_scan(const thread_block_tile<N, Parent>& tile, T value) {
  T scanned = tile.shfl_up(inclusive_scan(tile, value), 1);
  return tile.thread_rank() ? scanned : T(0);
}
}  // namespace cooperative_groups
