// Stands in for CUB's collectives: reductions and scans of a block or a warp. The originals are written in
// PTX. As there, a result is valid in the first thread only, and storage may be used again after a barrier.
#pragma once

namespace cub {

struct emu_add {
  template <class T>
  EMU_INLINE_MEMBER T operator()(const T& a, const T& b) const {
    return a + b;
  }
};

// A shuffle of any size, word by word.
template <class T>
EMU_INLINE T emu_shuffle_words(int operation, T value, int argument, int width) {
  if constexpr (sizeof(T) <= 8) return emu_shuffle(operation, ~0u, value, argument, width);
  else {
    unsigned words[(sizeof(T) + 3) / 4] = {};
    __builtin_memcpy(words, &value, sizeof(T));
    for (unsigned& word : words) word = emu_shuffle(operation, ~0u, word, argument, width);
    __builtin_memcpy(&value, words, sizeof(T));
    return value;
  }
}

template <class T, int WIDTH = 32>
struct WarpReduce {
  struct TempStorage {};
  EMU_INLINE_MEMBER explicit WarpReduce(TempStorage&) {}
  // Combines the first `valid` lanes of the logical warp.
  template <class Op>
  EMU_INLINE_MEMBER T Reduce(T value, Op op, int valid = WIDTH) {
    int lane = emu_thread_rank() % WIDTH;
    for (int delta = 1; delta < WIDTH; delta <<= 1) {
      T other = emu_shuffle_words(EMU_SHFL_DOWN, value, delta, WIDTH);
      if (lane + delta < valid && lane + delta < WIDTH) value = op(value, other);
    }
    return value;
  }
  EMU_INLINE_MEMBER T Sum(T value) { return Reduce(value, emu_add()); }
  EMU_INLINE_MEMBER T Sum(T value, int valid) { return Reduce(value, emu_add(), valid); }
};

enum BlockReduceAlgorithm {
  BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
  BLOCK_REDUCE_RAKING,
  BLOCK_REDUCE_WARP_REDUCTIONS,
  BLOCK_REDUCE_WARP_REDUCTIONS_NONDETERMINISTIC,
};

template <class T, int X, BlockReduceAlgorithm ALGORITHM = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1>
class BlockReduce {
  static constexpr int threads = X * Y * Z, warps = (threads + 31) / 32;

 public:
  struct TempStorage {
    alignas(T) char bytes[warps * sizeof(T)];
  };
  EMU_INLINE_MEMBER explicit BlockReduce(TempStorage& storage)
      : partial_(reinterpret_cast<T*>(storage.bytes)) {}
  template <class Op>
  EMU_INLINE_MEMBER T Reduce(T value, Op op, int valid = threads) {
    int rank = emu_thread_rank(), first = rank / 32 * 32;
    typename WarpReduce<T>::TempStorage none;
    int there = valid < threads ? valid : threads;
    value = WarpReduce<T>(none).Reduce(value, op, there - first);
    if (rank % 32 == 0) partial_[rank / 32] = value;
    __syncthreads();
    if (rank == 0)
      for (int warp = 1; warp * 32 < there; warp++) value = op(value, partial_[warp]);
    return value;
  }
  template <int ITEMS, class Op>
  EMU_INLINE_MEMBER T Reduce(T (&values)[ITEMS], Op op) {
    T value = values[0];
    for (int i = 1; i < ITEMS; i++) value = op(value, values[i]);
    return Reduce(value, op);
  }
  EMU_INLINE_MEMBER T Sum(T value) { return Reduce(value, emu_add()); }
  EMU_INLINE_MEMBER T Sum(T value, int valid) { return Reduce(value, emu_add(), valid); }
  template <int ITEMS>
  EMU_INLINE_MEMBER T Sum(T (&values)[ITEMS]) {
    return Reduce(values, emu_add());
  }

 private:
  T* partial_;
};

enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

template <class T, int X, BlockScanAlgorithm ALGORITHM = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1>
class BlockScan {
  static constexpr int threads = X * Y * Z, warps = (threads + 31) / 32;

 public:
  struct TempStorage {
    alignas(T) char bytes[warps * sizeof(T)];
  };
  EMU_INLINE_MEMBER explicit BlockScan(TempStorage& storage) : totals_(reinterpret_cast<T*>(storage.bytes)) {}
  template <class Op>
  EMU_INLINE_MEMBER void InclusiveScan(T value, T& out, Op op) {
    T total;
    InclusiveScan(value, out, op, total);
  }
  template <class Op>
  EMU_INLINE_MEMBER void InclusiveScan(T value, T& out, Op op, T& total) {
    int rank = emu_thread_rank(), lane = rank % 32;
    for (int delta = 1; delta < 32; delta <<= 1) {
      T other = emu_shuffle_words(EMU_SHFL_UP, value, delta, 32);
      if (lane >= delta) value = op(other, value);
    }
    if (lane == 31 || rank == threads - 1) totals_[rank / 32] = value;
    __syncthreads();
    T before = totals_[0];
    total = before;
    for (int warp = 1; warp < warps; warp++) {
      if (warp == rank / 32) before = total;
      total = op(total, totals_[warp]);
    }
    out = rank < 32 ? value : op(before, value);
  }
  template <class Op>
  EMU_INLINE_MEMBER void ExclusiveScan(T value, T& out, T initial, Op op) {
    T inclusive, total;
    InclusiveScan(value, inclusive, op, total);
    T before = emu_shuffle_words(EMU_SHFL_UP, inclusive, 1, 32);
    int rank = emu_thread_rank();
    __syncthreads();
    if (rank % 32 == 31) totals_[rank / 32] = inclusive;
    __syncthreads();
    if (rank % 32 == 0 && rank) before = totals_[rank / 32 - 1];
    out = rank ? op(initial, before) : initial;
  }
  EMU_INLINE_MEMBER void InclusiveSum(T value, T& out) { InclusiveScan(value, out, emu_add()); }
  EMU_INLINE_MEMBER void InclusiveSum(T value, T& out, T& total) {
    InclusiveScan(value, out, emu_add(), total);
  }
  EMU_INLINE_MEMBER void ExclusiveSum(T value, T& out) { ExclusiveScan(value, out, T(0), emu_add()); }
  EMU_INLINE_MEMBER void ExclusiveSum(T value, T& out, T& total) {
    T inclusive;
    InclusiveScan(value, inclusive, emu_add(), total);
    out = inclusive - value;
  }

 private:
  T* totals_;
};
}  // namespace cub
