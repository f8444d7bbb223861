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

// Element (row, column) of a matrix whose fragments the 32 lanes hold.
template <class F>
__attribute__((no_sanitize("thread"))) inline float emu_element(void** fragments, int which, int row,
                                                                int column, bool by_rows) {
  int element = by_rows ? row * F::columns + column : column * F::rows + row;
  auto* owner = ((const F* const*)fragments[element & 31])[which];
  return (float)owner->x[element >> 5];
}
template <class LayoutA, class LayoutB, int M, int N, int K, class A, class B, class T>
EMU_OPAQUE void mma_sync(fragment<accumulator, M, N, K, T>& d,
                         const fragment<matrix_a, M, N, K, A, LayoutA>& a,
                         const fragment<matrix_b, M, N, K, B, LayoutB>& b,
                         const fragment<accumulator, M, N, K, T>& c) {
  using FA = fragment<matrix_a, M, N, K, A, LayoutA>;
  using FB = fragment<matrix_b, M, N, K, B, LayoutB>;
  const void* mine[2] = {&a, &b};
  void** all = emu_warp_exchange(~0u, (void*)mine);
  fragment<accumulator, M, N, K, T> result;
  for (int i = 0; i < result.num_elements; i++) {
    int element = i * 32 + (emu_thread_rank() & 31), row = element / N, column = element % N;
    float sum = (float)c.x[i];
    for (int k = 0; k < K; k++)
      sum += emu_element<FA>(all, 0, row, k, std::is_same_v<LayoutA, row_major>) *
             emu_element<FB>(all, 1, k, column, std::is_same_v<LayoutB, row_major>);
    result.x[i] = (T)sum;
  }
  __syncwarp();  // the fragments may change only when every lane has read them
  d = result;
}
}  // namespace wmma
}  // namespace nvcuda
