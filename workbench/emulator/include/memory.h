// Loads and stores with cache hints, and cp.async through its C interface.
#pragma once

// g++ instruments neither of these; the runtime's versions look at the memory first. Small copies of a
// known size become ordinary loads and stores.
extern "C" void* __tsan_memcpy(void* to, const void* from, size_t bytes);
extern "C" void* __tsan_memmove(void* to, const void* from, size_t bytes);
extern "C" void* __tsan_memset(void* to, int value, size_t bytes);
EMU_INLINE void* emu_memcpy(void* to, const void* from, size_t bytes) {
  if (__builtin_constant_p(bytes) && bytes <= 16) return __builtin_memcpy(to, from, bytes);
  return __tsan_memcpy(to, from, bytes);
}
EMU_INLINE void* emu_memmove(void* to, const void* from, size_t bytes) {
  return __tsan_memmove(to, from, bytes);
}
EMU_INLINE void* emu_memset(void* to, int value, size_t bytes) { return __tsan_memset(to, value, bytes); }
namespace std {
using ::emu_memcpy;
using ::emu_memmove;
using ::emu_memset;
}  // namespace std
#define memcpy emu_memcpy
#define memmove emu_memmove
#define memset emu_memset

#define EMU_LOAD(name)                  \
  template <class T>                    \
  EMU_INLINE T name(const T* pointer) { \
    return *pointer;                    \
  }
EMU_LOAD(__ldg)
EMU_LOAD(__ldcs)
EMU_LOAD(__ldca)
EMU_LOAD(__ldlu)
// Past the first-level cache: what reads so may wait for another block. Only checked modules tell.
#ifdef __SANITIZE_THREAD__
#define EMU_LOOKED(AGAIN)          \
  {                                \
    EMU_FENCE;                     \
    emu_looked(pointer, AGAIN);    \
  }
#else
#define EMU_LOOKED(AGAIN)
#endif
template <class T>
EMU_INLINE T __ldcg(const T* pointer) {
  EMU_LOOKED(false)
  return *pointer;
}
template <class T>
EMU_INLINE T __ldcv(const T* pointer) {
  EMU_LOOKED(true)
  EMU_FENCE;
  return *pointer;
}

// The value's type follows the pointer's, as in CUDA's own overloads: __stcs(float*, 1) stores a float.
template <class T>
struct emu_same {
  using type = T;
};
#define EMU_STORE(name)                                                \
  template <class T>                                                   \
  EMU_INLINE void name(T* pointer, typename emu_same<T>::type value) { \
    *pointer = value;                                                  \
  }
EMU_STORE(__stcs)
EMU_STORE(__stcg)
EMU_STORE(__stwb)
EMU_STORE(__stwt)

EMU_INLINE void emu_put(void* to, size_t bytes, uint64_t low, uint64_t high) {
  if (bytes == 16) *(ulonglong2*)to = ulonglong2{low, high};
  else if (bytes == 8) *(unsigned long long*)to = low;
  else *(unsigned*)to = unsigned(low);
}
// What is copied is there when it has been waited for. Until then its place holds what no number is.
EMU_INLINE void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zero_fill = 0) {
  emu_copy copy = {to, 0, 0, bytes};
  if (zero_fill) {
    uint64_t halves[2] = {};
    for (size_t i = 0; i + zero_fill < bytes; i++) ((unsigned char*)halves)[i] = ((const unsigned char*)from)[i];
    copy.low = halves[0];
    copy.high = halves[1];
  } else if (bytes == 16) {
    const ulonglong2 value = *(const ulonglong2*)from;
    copy.low = value.x;
    copy.high = value.y;
  } else {
    copy.low = bytes == 8 ? *(const unsigned long long*)from : *(const unsigned*)from;
  }
  emu_put(to, bytes, ~0ull, ~0ull);
  emu_request_copy(copy);
}
EMU_INLINE void __pipeline_commit() { emu_commit_copies(); }
EMU_INLINE void __pipeline_wait_prior(size_t left) {
  for (emu_copy copy = emu_arrived_copy(left); copy.to; copy = emu_arrived_copy(left)) {
    emu_put(copy.to, copy.bytes, copy.low, copy.high);
  }
}
// The same as inline PTX (ptx.py): to a place of the shared window, and bytes that are not read are zero.
template <bool L2Only>
EMU_INLINE void emu_cp_async(unsigned to, const void* from, int bytes, int read) {
  const bool copied = bytes == 16 || (!L2Only && (bytes == 8 || bytes == 4));
  if (!copied || read < 0 || read > bytes) emu_trap("cp.async of a size that there is not");
  __pipeline_memcpy_async(emu_shared_place(to), from, bytes, bytes - read);
}
template <bool L2Only>
EMU_INLINE void emu_cp_async(unsigned to, const void* from, int bytes) {
  emu_cp_async<L2Only>(to, from, bytes, bytes);
}
EMU_INLINE void __prefetch_global_l1(const void*) {}
EMU_INLINE void __prefetch_global_l2(const void*) {}
EMU_INLINE unsigned __isGlobal(const void*) { return 1; }
