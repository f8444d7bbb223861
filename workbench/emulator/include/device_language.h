// CUDA's qualifiers and built-in variables.
#pragma once

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __constant__
#undef __managed__
#undef __launch_bounds__
#undef __forceinline__
#undef __noinline__
#undef __grid_constant__
#undef __maxnreg__
#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __block_size__(...)
// thread_local at block scope implies static: one instance for each OS worker, that is for each running
// block. `extern __shared__ T s[]` becomes an undefined TLS symbol, which build.py's stub defines.
#define __shared__ thread_local __attribute__((aligned(128)))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))

// Defined only now: CUDA's own headers, included before, must take their host path.
#define __CUDA_ARCH__ 900
#define __WORKBENCH_EMULATOR__ 1

// Inlined always, so that an access carries the address, and so the line, of the caller.
#define EMU_INLINE static inline __attribute__((always_inline, unused))
#define EMU_INLINE_MEMBER inline __attribute__((always_inline))
// Neither inlined nor instrumented.
#define EMU_OPAQUE __attribute__((noinline, no_sanitize("thread")))
// Keeps the compiler from moving memory accesses across a point where other threads run.
#define EMU_FENCE asm volatile("" ::: "memory")

#define threadIdx (emu_thread_index())
#define blockIdx (emu_block_index())
#define blockDim (emu_block_size())
#define gridDim (emu_grid_size())
#define warpSize 32

#undef assert
#define assert(condition) ((condition) ? (void)0 : emu_trap("assert(" #condition ") failed"))
EMU_INLINE void __trap() { emu_trap("__trap()"); }
#undef printf
#define printf(...) emu_print(__VA_ARGS__)
EMU_INLINE void __brkpt() { emu_trap("__brkpt()"); }
EMU_INLINE void __nanosleep(unsigned) {
  EMU_FENCE;
  emu_yield();
  EMU_FENCE;
}
EMU_INLINE long long clock64() { return emu_clock64(); }
EMU_INLINE int emu_clock() { return (int)emu_clock64(); }
#define clock() emu_clock()  // the C library has another one
#define __builtin_assume(condition) ((void)0)
#define __assume(condition) ((void)0)
template <class T>
EMU_INLINE unsigned long long __cvta_generic_to_shared(T* pointer) {
  return emu_shared_address((const void*)pointer);
}
template <class T>
EMU_INLINE unsigned long long __cvta_generic_to_global(T* pointer) {
  return (unsigned long long)pointer;
}
