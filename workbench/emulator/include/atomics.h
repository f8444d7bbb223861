// Atomics: out of line and not instrumented; they call the runtime's hook themselves, with the address
// of the kernel's own instruction.
#pragma once

template <class T, class F>
EMU_OPAQUE inline T emu_read_modify_write(T* pointer, F change) {
  emu_atomic_access(pointer, sizeof(T), __builtin_return_address(0));
  if constexpr (sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8) {
    using Word =
        std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
    Word* word = (Word*)pointer;
    Word old = __atomic_load_n(word, __ATOMIC_RELAXED), wanted;
    T value;
    do {
      __builtin_memcpy(&value, &old, sizeof value);
      T changed = change(value);
      __builtin_memcpy(&wanted, &changed, sizeof changed);
    } while (!__atomic_compare_exchange_n(word, &old, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    return value;
  } else {
    static_assert(sizeof(T) <= 8, "vectors are updated element by element");
  }
}

// Templates with nothing to fill in: g++ compiles those that a kernel calls, not all of them in every kernel.
#define EMU_IF_CALLED template <class = void> EMU_INLINE

#define EMU_ATOMIC(T)                                                          \
  EMU_IF_CALLED T atomicAdd(T* p, T v) {                                       \
    return emu_read_modify_write(p, [=](T old) { return (T)(old + v); });      \
  }                                                                            \
  EMU_IF_CALLED T atomicMin(T* p, T v) {                                       \
    return emu_read_modify_write(p, [=](T old) { return v < old ? v : old; }); \
  }                                                                            \
  EMU_IF_CALLED T atomicMax(T* p, T v) {                                       \
    return emu_read_modify_write(p, [=](T old) { return old < v ? v : old; }); \
  }                                                                            \
  EMU_IF_CALLED T atomicExch(T* p, T v) {                                      \
    return emu_read_modify_write(p, [=](T) { return v; });                     \
  }                                                                            \
  EMU_ATOMIC_SCOPES(atomicAdd, T)                                              \
  EMU_ATOMIC_SCOPES(atomicMin, T)                                              \
  EMU_ATOMIC_SCOPES(atomicMax, T)                                              \
  EMU_ATOMIC_SCOPES(atomicExch, T)
#define EMU_ATOMIC_SCOPES(name, T)                               \
  EMU_IF_CALLED T name##_block(T* p, T v) { return name(p, v); } \
  EMU_IF_CALLED T name##_system(T* p, T v) { return name(p, v); }
#define EMU_ATOMIC_INTEGER(T)                                             \
  EMU_IF_CALLED T atomicSub(T* p, T v) {                                  \
    return emu_read_modify_write(p, [=](T old) { return (T)(old - v); }); \
  }                                                                       \
  EMU_IF_CALLED T atomicAnd(T* p, T v) {                                  \
    return emu_read_modify_write(p, [=](T old) { return (T)(old & v); }); \
  }                                                                       \
  EMU_IF_CALLED T atomicOr(T* p, T v) {                                   \
    return emu_read_modify_write(p, [=](T old) { return (T)(old | v); }); \
  }                                                                       \
  EMU_IF_CALLED T atomicXor(T* p, T v) {                                  \
    return emu_read_modify_write(p, [=](T old) { return (T)(old ^ v); }); \
  }                                                                       \
  EMU_ATOMIC_SCOPES(atomicSub, T)                                         \
  EMU_ATOMIC_SCOPES(atomicAnd, T)                                         \
  EMU_ATOMIC_SCOPES(atomicOr, T)                                          \
  EMU_ATOMIC_SCOPES(atomicXor, T)
// A failed exchange is how a lock waits: let the holder run.
#define EMU_ATOMIC_CAS(T)                                                                      \
  EMU_IF_CALLED T atomicCAS(T* p, T expected, T v) {                                           \
    T found = emu_read_modify_write(p, [=](T old) { return old == expected ? v : old; });      \
    if (found != expected) emu_yield();                                                        \
    return found;                                                                              \
  }                                                                                            \
  EMU_IF_CALLED T atomicCAS_block(T* p, T expected, T v) { return atomicCAS(p, expected, v); } \
  EMU_IF_CALLED T atomicCAS_system(T* p, T expected, T v) { return atomicCAS(p, expected, v); }
EMU_ATOMIC(int)
EMU_ATOMIC(unsigned)
EMU_ATOMIC(unsigned long long)
EMU_ATOMIC(long long)
EMU_ATOMIC(float)
EMU_ATOMIC(double)
EMU_ATOMIC_INTEGER(int)
EMU_ATOMIC_INTEGER(unsigned)
EMU_ATOMIC_INTEGER(unsigned long long)
EMU_ATOMIC_INTEGER(long long)
EMU_ATOMIC_CAS(int)
EMU_ATOMIC_CAS(unsigned)
EMU_ATOMIC_CAS(unsigned long long)
EMU_ATOMIC_CAS(long long)
EMU_ATOMIC_CAS(unsigned short)
EMU_IF_CALLED unsigned atomicInc(unsigned* p, unsigned limit) {
  return emu_read_modify_write(p, [=](unsigned old) { return old >= limit ? 0u : old + 1; });
}
EMU_IF_CALLED unsigned atomicDec(unsigned* p, unsigned limit) {
  return emu_read_modify_write(p, [=](unsigned old) { return old == 0 || old > limit ? limit : old - 1; });
}

#define EMU_ATOMIC_ADD(T, add)                                           \
  EMU_IF_CALLED T atomicAdd(T* p, T v) {                                 \
    return emu_read_modify_write(p, [=](T old) { return add(old, v); }); \
  }
EMU_ATOMIC_ADD(__half, __hadd)
EMU_ATOMIC_ADD(__half2, __hadd2)
EMU_ATOMIC_ADD(__nv_bfloat16, __hadd)
EMU_ATOMIC_ADD(__nv_bfloat162, __hadd2)
// Atomic for each element, not for the whole vector: as the hardware has it. One request, however many.
template <int N, class V>
EMU_OPAQUE inline V emu_add_each(V* pointer, V value) {
  emu_atomic_access(pointer, sizeof(V), __builtin_return_address(0));
  V found;
  for (int k = 0; k < N; ++k) {
    uint32_t* word = (uint32_t*)pointer + k;
    uint32_t old = __atomic_load_n(word, __ATOMIC_RELAXED), wanted;
    float seen, added;
    __builtin_memcpy(&added, (const char*)&value + 4 * k, 4);
    do {
      __builtin_memcpy(&seen, &old, 4);
      float sum = seen + added;
      __builtin_memcpy(&wanted, &sum, 4);
    } while (!__atomic_compare_exchange_n(word, &old, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    __builtin_memcpy((char*)&found + 4 * k, &seen, 4);
  }
  return found;
}
EMU_IF_CALLED float2 atomicAdd(float2* p, float2 v) { return emu_add_each<2>(p, v); }
EMU_IF_CALLED float4 atomicAdd(float4* p, float4 v) { return emu_add_each<4>(p, v); }
