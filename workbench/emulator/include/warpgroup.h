// Instructions of Hopper's warp groups, called where a kernel has them as inline PTX (ptx.py).
#pragma once

// Registers are handed over by address: what is added to them comes when it has been waited for.
template <class First, class... Others>
EMU_INLINE void emu_wgmma(emu_multiplication wanted, First& first, Others&... others) {
  static_assert(std::is_same_v<First, float> && (std::is_same_v<Others, float> && ...), "wgmma adds to floats");
  int i = 0;
  const bool in_a_row = ((&others == &first + ++i) && ...);
  EMU_FENCE;
  if (in_a_row) {
    wanted.sums = &first;
    emu_multiply(&wanted);
  } else {
    float* const apart[] = {&first, &others...};
    wanted.apart = apart;
    emu_multiply(&wanted);
  }
  EMU_FENCE;
}
template <class... Sums>
EMU_INLINE void emu_wgmma_registers(emu_factors factors, unsigned columns, int adds, unsigned a0, unsigned a1,
                                    unsigned a2, unsigned a3, unsigned long long b, Sums&... sums) {
  emu_wgmma({factors, columns, adds != 0, false, {a0, a1, a2, a3}, 0, b, nullptr, nullptr}, sums...);
}
template <class... Sums>
EMU_INLINE void emu_wgmma_tiles(emu_factors factors, unsigned columns, int adds, unsigned long long a,
                                unsigned long long b, Sums&... sums) {
  emu_wgmma({factors, columns, adds != 0, true, {}, a, b, nullptr, nullptr}, sums...);
}
EMU_INLINE void emu_wgmma_fence() {
  EMU_FENCE;
  emu_order_registers();
}
EMU_INLINE void emu_wgmma_commit_group() {
  EMU_FENCE;
  emu_commit_multiplications();
}
EMU_INLINE void emu_wgmma_wait_group(int left) {
  EMU_FENCE;
  emu_finish_multiplications(left);
  EMU_FENCE;
}
EMU_INLINE void emu_fence_proxy_async() {
  EMU_FENCE;
  emu_show_unit();
}

EMU_INLINE unsigned emu_cvt_rna_tf32(float x) {
  return x != x ? 0x7fffffffu : emu_bits_as<unsigned>(nvcuda::wmma::__float_to_tf32(x));
}
