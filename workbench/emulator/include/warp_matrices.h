// Small matrices that the lanes of a warp hold together: mma.sync multiplies them, ldmatrix reads them from
// shared memory. Called where a kernel has them as inline PTX (ptx.py). Who has which element is as the PTX ISA
// says, "Matrix Fragments for mma.m16n8k16 with floating point type" and "ldmatrix".
#pragma once

// Terms of a register: one of tf32, of which 19 bits are looked at, or two of 16 bits.
template <emu_factors Factors>
EMU_INLINE float emu_term(unsigned word, int which) {
  if constexpr (Factors == EMU_TF32) return emu_bits_as<float>(word & ~0x1fffu);
  else if constexpr (Factors == EMU_BF16) return emu_bits_as<float>(which ? word & 0xffff0000u : word << 16);
  else return emu_half_to_float((unsigned short)(which ? word >> 16 : word));
}

// Lane 4 * g + t has rows g and g + 8 of a, of each the words t (and t + 4 where there are two Halves); of b the
// same words of column g; of the sums columns 2 * t and 2 * t + 1 of both rows.
template <emu_factors Factors, int Halves>
EMU_OPAQUE void emu_multiply_fragments(float* sums, const unsigned* held, const float* added) {
  constexpr int terms = Factors == EMU_TF32 ? 1 : 2, words = 4 * Halves;
  void** all = emu_warp_exchange((void*)held, 4 * words * terms, "mma.sync");
  const int lane = emu_thread_rank() & 31;
  float made[4];
  for (int i = 0; i < 4; i++) {
    const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    float sum = added[i];
    for (int which = 0; which < terms; which++) {
      for (int word = 0; word < words; word++) {
        const unsigned a = ((const unsigned*)all[row % 8 * 4 + word % 4])[word / 4 * 2 + row / 8];
        const unsigned b = ((const unsigned*)all[column * 4 + word % 4])[2 * Halves + word / 4];
        sum += emu_term<Factors>(a, which) * emu_term<Factors>(b, which);
      }
    }
    made[i] = sum;
  }
  emu_warp_exchange(nullptr, 0, "mma.sync");  // what is held may change only when every lane has read it
  for (int i = 0; i < 4; i++) sums[i] = made[i];
}
template <emu_factors Factors>
EMU_INLINE void emu_mma(float& d0, float& d1, float& d2, float& d3, unsigned a0, unsigned a1, unsigned a2,
                        unsigned a3, unsigned b0, unsigned b1, float c0, float c1, float c2, float c3) {
  const unsigned held[] = {a0, a1, a2, a3, b0, b1};
  const float added[] = {c0, c1, c2, c3};
  float sums[4];
  emu_multiply_fragments<Factors, 2>(sums, held, added);
  d0 = sums[0], d1 = sums[1], d2 = sums[2], d3 = sums[3];
}
template <emu_factors Factors>
EMU_INLINE void emu_mma(float& d0, float& d1, float& d2, float& d3, unsigned a0, unsigned a1, unsigned b0, float c0,
                        float c1, float c2, float c3) {
  const unsigned held[] = {a0, a1, b0};
  const float added[] = {c0, c1, c2, c3};
  float sums[4];
  emu_multiply_fragments<Factors, 1>(sums, held, added);
  d0 = sums[0], d1 = sums[1], d2 = sums[2], d3 = sums[3];
}

// Lane 8 * m + r has read row r of matrix m; lane 4 * g + t gets elements 2 * t and 2 * t + 1 of row g of each, or
// of column g where they are turned over.
template <bool Turned, int Matrices>
EMU_OPAQUE void emu_hand_out_rows(unsigned* words, const unsigned short* row) {
  void** all = emu_warp_exchange((void*)row, 0, "ldmatrix");
  const int lane = emu_thread_rank() & 31, first = lane % 4 * 2;
  unsigned made[Matrices];
  for (int m = 0; m < Matrices; m++) {
    const unsigned short* const own = (const unsigned short*)all[8 * m + lane / 4];
    const unsigned low = Turned ? ((const unsigned short*)all[8 * m + first])[lane / 4] : own[first];
    const unsigned high = Turned ? ((const unsigned short*)all[8 * m + first + 1])[lane / 4] : own[first + 1];
    made[m] = high << 16 | low;
  }
  emu_warp_exchange(nullptr, 0, "ldmatrix");
  for (int m = 0; m < Matrices; m++) words[m] = made[m];
}
template <bool Turned, class... Words>
EMU_INLINE void emu_ldmatrix(unsigned from, Words&... words) {
  constexpr int matrices = sizeof...(Words);
  uint4 row = {};
  if ((emu_thread_rank() & 31) < 8 * matrices) row = *(const uint4*)emu_shared_place(from);
  unsigned short elements[8];
  __builtin_memcpy(elements, &row, sizeof row);
  unsigned made[matrices];
  emu_hand_out_rows<Turned, matrices>(made, elements);
  int m = 0;
  ((words = made[m++]), ...);
}
