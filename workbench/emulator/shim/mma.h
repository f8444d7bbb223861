// Stands in for CUDA's mma.h. Element e of a matrix belongs to lane e % 32, which is not the hardware's
// layout; a kernel may not depend on that one either. mma_sync lets the lanes read one another's
// fragments, exchanged through the warp.
#pragma once

namespace nvcuda {
namespace wmma {
struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
namespace precision {
struct tf32;
}
enum layout_t { mem_row_major, mem_col_major };

template <class T>
struct emu_storage {
  using type = T;
};
template <>
struct emu_storage<precision::tf32> {
  using type = float;
};

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
  static constexpr int rows = std::is_same_v<Use, matrix_b> ? K : M,
                       columns = std::is_same_v<Use, matrix_a> ? K : N;
  static constexpr int num_elements = rows * columns / 32, num_storage_elements = num_elements;
  using element_type = typename emu_storage<T>::type;
  using storage_element_type = element_type;
  element_type x[num_elements];
};

// tf32 keeps 10 bits of the mantissa; rounds to nearest, ties away, as cvt.rna does.
EMU_INLINE float __float_to_tf32(float x) {
  unsigned bits = emu_bits_as<unsigned>(x);
  return x != x || x - x != 0 ? x : emu_bits_as<float>((bits + 0x1000u) & ~0x1fffu);
}

template <class F, class T>
EMU_INLINE void fill_fragment(F& fragment, T value) {
  for (int i = 0; i < F::num_elements; i++) fragment.x[i] = (typename F::element_type)value;
}
template <class F>
EMU_INLINE int emu_offset(int i, unsigned leading, bool row_major_memory) {
  int element = i * 32 + (emu_thread_rank() & 31);
  if (row_major_memory) return element / F::columns * leading + element % F::columns;
  return element / F::rows * leading + element % F::rows;
}
template <class Use, int M, int N, int K, class T, class Layout>
EMU_INLINE void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& f, const typename emu_storage<T>::type* p,
                                 unsigned leading) {
  using F = fragment<Use, M, N, K, T, Layout>;
  __syncwarp();
  for (int i = 0; i < F::num_elements; i++)
    f.x[i] = p[emu_offset<F>(i, leading, std::is_same_v<Layout, row_major>)];
}
// Accumulators are kept row by row whatever the memory's layout: element e is (e / N, e % N).
template <int N>
EMU_INLINE int emu_accumulator_offset(int i, unsigned leading, layout_t layout) {
  int element = i * 32 + (emu_thread_rank() & 31), row = element / N, column = element % N;
  return layout == mem_row_major ? row * leading + column : column * leading + row;
}
template <int M, int N, int K, class T>
EMU_INLINE void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, const T* p, unsigned leading,
                                 layout_t layout) {
  __syncwarp();
  for (int i = 0; i < f.num_elements; i++) f.x[i] = p[emu_accumulator_offset<N>(i, leading, layout)];
}
template <int M, int N, int K, class T>
EMU_INLINE void store_matrix_sync(T* p, const fragment<accumulator, M, N, K, T>& f, unsigned leading,
                                  layout_t layout) {
  for (int i = 0; i < f.num_elements; i++) p[emu_accumulator_offset<N>(i, leading, layout)] = f.x[i];
  __syncwarp();
}

// Products are exact in the accumulator's arithmetic: int, double, or float for 16-bit operands and tf32.
template <class T>
using emu_sum = std::conditional_t<std::is_same_v<T, int> || std::is_same_v<T, double>, T, float>;

// What the tensor core sees of an operand. Always inlined, because a call from code that is not
// instrumented to code that is would log accesses that the kernel does not make.
template <class T, class Sum>
EMU_INLINE Sum emu_operand(const T& value) {
  if constexpr (std::is_same_v<T, __half>) return emu_half_to_float(emu_bits_as<unsigned short>(value));
  else if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return emu_bits_as<float>((unsigned)emu_bits_as<unsigned short>(value) << 16);
  else return (Sum)value;
}
// tf32 operands that were not rounded lose their low bits.
template <class Sum>
EMU_INLINE Sum emu_truncated(float value) {
  return emu_bits_as<float>(emu_bits_as<unsigned>(value) & ~0x1fffu);
}

// Element (row, column) of a matrix whose fragments the 32 lanes hold.
template <class F, class T, class Sum>
EMU_INLINE Sum emu_element(void** fragments, int which, int row, int column, bool by_rows) {
  int element = by_rows ? row * F::columns + column : column * F::rows + row;
  const auto& value = ((const F* const*)fragments[element & 31])[which]->x[element >> 5];
  if constexpr (std::is_same_v<T, precision::tf32>) return emu_truncated<Sum>(value);
  else return emu_operand<T, Sum>(value);
}
template <class LayoutA, class LayoutB, int M, int N, int K, class A, class B, class T>
EMU_OPAQUE void mma_sync(fragment<accumulator, M, N, K, T>& d,
                         const fragment<matrix_a, M, N, K, A, LayoutA>& a,
                         const fragment<matrix_b, M, N, K, B, LayoutB>& b,
                         const fragment<accumulator, M, N, K, T>& c) {
  using FA = fragment<matrix_a, M, N, K, A, LayoutA>;
  using FB = fragment<matrix_b, M, N, K, B, LayoutB>;
  constexpr bool a_by_rows = std::is_same_v<LayoutA, row_major>,
                 b_by_rows = std::is_same_v<LayoutB, row_major>;
  const void* mine[2] = {&a, &b};
  void** all = emu_warp_exchange((void*)mine, M * N * K / 32, "mma_sync");
  fragment<accumulator, M, N, K, T> result;
  for (int i = 0; i < result.num_elements; i++) {
    int element = i * 32 + (emu_thread_rank() & 31), row = element / N, column = element % N;
    emu_sum<T> sum = emu_operand<T, emu_sum<T>>(c.x[i]);
    for (int k = 0; k < K; k++)
      sum += emu_element<FA, A, emu_sum<T>>(all, 0, row, k, a_by_rows) *
             emu_element<FB, B, emu_sum<T>>(all, 1, k, column, b_by_rows);
    result.x[i] = (T)sum;
  }
  emu_warp_exchange(nullptr, 0, "mma_sync");  // the fragments may change only when every lane has read them
  d = result;
}
}  // namespace wmma
}  // namespace nvcuda
