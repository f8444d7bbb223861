// Integer intrinsics, and conversions between numbers and bits.
#pragma once

EMU_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
EMU_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
EMU_INLINE int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
EMU_INLINE int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
EMU_INLINE int __ffs(int x) { return __builtin_ffs(x); }
EMU_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
template <class T>
EMU_INLINE T emu_reverse_bits(T x) {
  T reversed = 0;
  for (unsigned i = 0; i < 8 * sizeof(T); i++) reversed |= (x >> i & 1) << (8 * sizeof(T) - 1 - i);
  return reversed;
}
EMU_INLINE unsigned __brev(unsigned x) { return emu_reverse_bits(x); }
EMU_INLINE unsigned long long __brevll(unsigned long long x) { return emu_reverse_bits(x); }
EMU_INLINE int __mul24(int a, int b) { return ((a << 8) >> 8) * ((b << 8) >> 8); }
EMU_INLINE unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
EMU_INLINE int __mulhi(int a, int b) { return (int)(((long long)a * b) >> 32); }
EMU_INLINE unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a * b) >> 32); }
EMU_INLINE long long __mul64hi(long long a, long long b) { return (long long)(((__int128)a * b) >> 64); }
EMU_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
EMU_INLINE unsigned __sad(int a, int b, unsigned c) {
  return (a < b ? (unsigned)b - a : (unsigned)a - b) + c;
}
EMU_INLINE unsigned __usad(unsigned a, unsigned b, unsigned c) { return (a < b ? b - a : a - b) + c; }
EMU_INLINE int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
EMU_INLINE int __rhadd(int a, int b) { return (int)(((long long)a + b + 1) >> 1); }
EMU_INLINE unsigned __uhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b) >> 1); }
EMU_INLINE unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  uint64_t bytes = (uint64_t)b << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; i++) {
    unsigned choice = selector >> (4 * i) & 15, byte = (unsigned)(bytes >> (8 * (choice & 7))) & 255;
    if (choice & 8) byte = byte & 128 ? 255 : 0;
    result |= byte << (8 * i);
  }
  return result;
}
EMU_INLINE int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; i++) c += (int)(int8_t)(a >> (8 * i)) * (int)(int8_t)(b >> (8 * i));
  return c;
}
EMU_INLINE unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 4; i++) c += (a >> (8 * i) & 255) * (b >> (8 * i) & 255);
  return c;
}
EMU_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  shift &= 31;
  return shift ? high << shift | low >> (32 - shift) : high;
}
EMU_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  shift &= 31;
  return shift ? low >> shift | high << (32 - shift) : low;
}

template <class To, class From>
EMU_INLINE To emu_bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}
EMU_INLINE int __float_as_int(float x) { return emu_bits_as<int>(x); }
EMU_INLINE unsigned __float_as_uint(float x) { return emu_bits_as<unsigned>(x); }
EMU_INLINE float __int_as_float(int x) { return emu_bits_as<float>(x); }
EMU_INLINE float __uint_as_float(unsigned x) { return emu_bits_as<float>(x); }
EMU_INLINE long long __double_as_longlong(double x) { return emu_bits_as<long long>(x); }
EMU_INLINE double __longlong_as_double(long long x) { return emu_bits_as<double>(x); }
EMU_INLINE int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
EMU_INLINE int __double2loint(double x) { return (int)__double_as_longlong(x); }
EMU_INLINE double __hiloint2double(int high, int low) {
  return __longlong_as_double((long long)high << 32 | (unsigned)low);
}

// Conversions saturate and turn NaN into zero, where C++ leaves them undefined.
template <class To>
EMU_INLINE To emu_saturate(double x) {
  using Limits = std::numeric_limits<To>;
  if (x != x) return 0;
  if (x <= (double)Limits::min()) return Limits::min();
  if (x >= (double)Limits::max()) return Limits::max();
  return (To)x;
}
#define EMU_TO_INTEGER(name, From, To)                                             \
  EMU_INLINE To name##_rn(From x) { return emu_saturate<To>(::rint((double)x)); }  \
  EMU_INLINE To name##_rz(From x) { return emu_saturate<To>((double)x); }          \
  EMU_INLINE To name##_rd(From x) { return emu_saturate<To>(::floor((double)x)); } \
  EMU_INLINE To name##_ru(From x) { return emu_saturate<To>(::ceil((double)x)); }
EMU_TO_INTEGER(__float2int, float, int)
EMU_TO_INTEGER(__float2uint, float, unsigned)
EMU_TO_INTEGER(__float2ll, float, long long)
EMU_TO_INTEGER(__float2ull, float, unsigned long long)
EMU_TO_INTEGER(__double2int, double, int)
EMU_TO_INTEGER(__double2uint, double, unsigned)
EMU_TO_INTEGER(__double2ll, double, long long)
EMU_TO_INTEGER(__double2ull, double, unsigned long long)
EMU_INLINE float __int2float_rn(int x) { return (float)x; }
EMU_INLINE float __int2float_rz(int x) { return emu_round_towards(x, 0); }
EMU_INLINE float __uint2float_rn(unsigned x) { return (float)x; }
EMU_INLINE float __uint2float_rz(unsigned x) { return emu_round_towards(x, 0); }
EMU_INLINE float __ll2float_rn(long long x) { return (float)x; }
EMU_INLINE float __ull2float_rn(unsigned long long x) { return (float)x; }
EMU_INLINE double __int2double_rn(int x) { return x; }
EMU_INLINE double __uint2double_rn(unsigned x) { return x; }
EMU_INLINE double __ll2double_rn(long long x) { return (double)x; }
EMU_INLINE float __double2float_rn(double x) { return (float)x; }
EMU_INLINE float __double2float_rz(double x) { return emu_round_towards(x, 0); }
