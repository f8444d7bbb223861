// Instructions of Hopper's warp groups, called where a kernel has them as inline PTX (ptx.py).
#pragma once

// Registers are handed over by address: what is added to them comes when it has been waited for.
template <class... Sums>
EMU_INLINE void emu_wgmma(const emu_multiplication wanted, Sums&... sums) {
  static_assert((std::is_same_v<Sums, float> && ...), "wgmma adds to floats");
  EMU_FENCE;
  emu_multiply(wanted, &sums...);
  EMU_FENCE;
}
template <class... Sums>
EMU_INLINE void emu_wgmma_registers(unsigned columns, int adds, unsigned a0, unsigned a1, unsigned a2,
                                    unsigned a3, unsigned long long b, Sums&... sums) {
  emu_wgmma({columns, adds != 0, false, {a0, a1, a2, a3}, 0, b}, sums...);
}
template <class... Sums>
EMU_INLINE void emu_wgmma_tiles(unsigned columns, int adds, unsigned long long a, unsigned long long b,
                                Sums&... sums) {
  emu_wgmma({columns, adds != 0, true, {}, a, b}, sums...);
}
EMU_INLINE void emu_wgmma_fence() { EMU_FENCE; }
EMU_INLINE void emu_wgmma_commit_group() {
  EMU_FENCE;
  emu_commit_multiplications();
}
EMU_INLINE void emu_wgmma_wait_group(int left) {
  EMU_FENCE;
  emu_finish_multiplications(left);
  EMU_FENCE;
}
EMU_INLINE void emu_fence_proxy_async() { EMU_FENCE; }

EMU_INLINE unsigned emu_cvt_rna_tf32(float x) {
  return x != x ? 0x7fffffffu : emu_bits_as<unsigned>(nvcuda::wmma::__float_to_tf32(x));
}
