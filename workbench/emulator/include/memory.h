// Loads and stores with cache hints, and cp.async through its C interface (done at once).
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
#define EMU_LOOKED                 \
  {                                \
    EMU_FENCE;                     \
    emu_looked(pointer);           \
  }
#else
#define EMU_LOOKED
#endif
template <class T>
EMU_INLINE T __ldcg(const T* pointer) {
  EMU_LOOKED
  return *pointer;
}
template <class T>
EMU_INLINE T __ldcv(const T* pointer) {
  EMU_LOOKED
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

EMU_INLINE void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zero_fill = 0) {
  if (bytes == 16) *(uint4*)to = *(const uint4*)from;
  else if (bytes == 8) *(uint2*)to = *(const uint2*)from;
  else *(unsigned*)to = *(const unsigned*)from;
  if (zero_fill) memset((char*)to + bytes - zero_fill, 0, zero_fill);
}
EMU_INLINE void __pipeline_commit() {}
EMU_INLINE void __pipeline_wait_prior(size_t) {}
EMU_INLINE void __prefetch_global_l1(const void*) {}
EMU_INLINE void __prefetch_global_l2(const void*) {}
EMU_INLINE unsigned __isGlobal(const void*) { return 1; }
