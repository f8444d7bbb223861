// Barriers, fences and warp intrinsics.
#pragma once

EMU_INLINE int emu_fenced_barrier(int predicate) {
  EMU_FENCE;
  int count = emu_barrier(predicate);
  EMU_FENCE;
  return count;
}
EMU_INLINE void __syncthreads() { emu_fenced_barrier(0); }
EMU_INLINE int __syncthreads_count(int predicate) { return emu_fenced_barrier(predicate != 0); }
EMU_INLINE int __syncthreads_or(int predicate) { return emu_fenced_barrier(predicate != 0) > 0; }
EMU_INLINE int __syncthreads_and(int predicate) { return emu_fenced_barrier(predicate == 0) == 0; }
// A cluster's barrier in its two halves: here nobody has arrived before it waits, as may be on a card too.
EMU_INLINE void __cluster_barrier_arrive() {}
EMU_INLINE void __cluster_barrier_arrive_relaxed() {}
EMU_INLINE void __cluster_barrier_wait() {
  EMU_FENCE;
  emu_cluster_barrier();
  EMU_FENCE;
}
EMU_INLINE void __threadfence() {
  EMU_FENCE;
  emu_device_fence();
  EMU_FENCE;
}
EMU_INLINE void __threadfence_block() { EMU_FENCE; }  // the threads of a block share one OS thread
EMU_INLINE void __threadfence_system() { __threadfence(); }

EMU_INLINE uint64_t emu_fenced_warp(int operation, unsigned mask, uint64_t value, int argument = 0,
                                    int width = 32) {
  EMU_FENCE;
  value = emu_warp_operation(operation, mask, value, argument, width);
  EMU_FENCE;
  return value;
}
EMU_INLINE void __syncwarp(unsigned mask = ~0u) { emu_fenced_warp(EMU_SYNC, mask, 0); }
EMU_INLINE unsigned __activemask() {
  EMU_FENCE;
  return emu_active_mask();
}

template <class T>
EMU_INLINE uint64_t emu_to_bits(T value) {
  static_assert(sizeof(T) <= 8, "a warp intrinsic moves at most 8 bytes");
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <class T>
EMU_INLINE T emu_shuffle(int operation, unsigned mask, T value, int argument, int width) {
  uint64_t bits = emu_fenced_warp(operation, mask, emu_to_bits(value), argument, width);
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}
template <class T>
EMU_INLINE T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  return emu_shuffle(EMU_SHFL, mask, value, source, width);
}
template <class T>
EMU_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return emu_shuffle(EMU_SHFL_UP, mask, value, delta, width);
}
template <class T>
EMU_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return emu_shuffle(EMU_SHFL_DOWN, mask, value, delta, width);
}
template <class T>
EMU_INLINE T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
  return emu_shuffle(EMU_SHFL_XOR, mask, value, bits, width);
}

EMU_INLINE unsigned __ballot_sync(unsigned mask, int predicate) {
  return emu_fenced_warp(EMU_BALLOT, mask, predicate != 0);
}
EMU_INLINE int __any_sync(unsigned mask, int predicate) {
  return emu_fenced_warp(EMU_ANY, mask, predicate != 0);
}
EMU_INLINE int __all_sync(unsigned mask, int predicate) {
  return emu_fenced_warp(EMU_ALL, mask, predicate != 0);
}
template <class T>
EMU_INLINE unsigned __match_any_sync(unsigned mask, T value) {
  return emu_fenced_warp(EMU_MATCH_ANY, mask, emu_to_bits(value));
}
template <class T>
EMU_INLINE unsigned __match_all_sync(unsigned mask, T value, int* all_equal) {
  unsigned lanes = emu_fenced_warp(EMU_MATCH_ALL, mask, emu_to_bits(value));
  *all_equal = lanes != 0;
  return lanes;
}
EMU_INLINE unsigned __reduce_add_sync(unsigned mask, unsigned value) {
  return emu_fenced_warp(EMU_ADD, mask, value);
}
EMU_INLINE unsigned __reduce_min_sync(unsigned mask, unsigned value) {
  return emu_fenced_warp(EMU_MIN_UNSIGNED, mask, value);
}
EMU_INLINE unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  return emu_fenced_warp(EMU_MAX_UNSIGNED, mask, value);
}
EMU_INLINE int __reduce_add_sync(unsigned mask, int value) {
  return emu_fenced_warp(EMU_ADD, mask, (unsigned)value);
}
EMU_INLINE int __reduce_min_sync(unsigned mask, int value) {
  return emu_fenced_warp(EMU_MIN_SIGNED, mask, (unsigned)value);
}
EMU_INLINE int __reduce_max_sync(unsigned mask, int value) {
  return emu_fenced_warp(EMU_MAX_SIGNED, mask, (unsigned)value);
}
EMU_INLINE unsigned __reduce_and_sync(unsigned mask, unsigned value) {
  return emu_fenced_warp(EMU_AND, mask, value);
}
EMU_INLINE unsigned __reduce_or_sync(unsigned mask, unsigned value) {
  return emu_fenced_warp(EMU_OR, mask, value);
}
EMU_INLINE unsigned __reduce_xor_sync(unsigned mask, unsigned value) {
  return emu_fenced_warp(EMU_XOR, mask, value);
}
