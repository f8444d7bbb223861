// Floating-point functions that CUDA has and the C library lacks, or treats otherwise.
// Approximate intrinsics (__expf, ...) are computed exactly: their error on the device is smaller than
// what a correctness bound has to allow, and differs from one architecture to the next.
#pragma once

// glibc declares some of these names with C linkage, hence macros.
#define EMU_FLOAT_INTRINSIC(name, result) \
  EMU_INLINE float emu##name(float x) { return result; }
EMU_FLOAT_INTRINSIC(__expf, ::expf(x))
EMU_FLOAT_INTRINSIC(__exp10f, ::exp10f(x))
EMU_FLOAT_INTRINSIC(__logf, ::logf(x))
EMU_FLOAT_INTRINSIC(__log2f, ::log2f(x))
EMU_FLOAT_INTRINSIC(__log10f, ::log10f(x))
EMU_FLOAT_INTRINSIC(__sinf, ::sinf(x))
EMU_FLOAT_INTRINSIC(__cosf, ::cosf(x))
EMU_FLOAT_INTRINSIC(__tanf, ::tanf(x))
EMU_FLOAT_INTRINSIC(__tanhf, ::tanhf(x))
EMU_INLINE float emu__powf(float x, float y) { return ::powf(x, y); }
EMU_INLINE void emu__sincosf(float x, float* sine, float* cosine) {
  *sine = ::sinf(x);
  *cosine = ::cosf(x);
}
#define __expf emu__expf
#define __exp10f emu__exp10f
#define __logf emu__logf
#define __log2f emu__log2f
#define __log10f emu__log10f
#define __sinf emu__sinf
#define __cosf emu__cosf
#define __tanf emu__tanf
#define __tanhf emu__tanhf
#define __powf emu__powf
#define __sincosf emu__sincosf

// A PTX instruction (ptx.py). What is too small for a normal float is zero, before and after.
EMU_INLINE float emu_ex2_approx_ftz(float x) {
  const float power = ::exp2f(x);
  return power < 0x1p-126f ? 0.0f : power;
}

// The larger and the smaller of two where NaN wins; 0 is larger than -0.
EMU_INLINE float emu_max_nan(float a, float b) {
  if (a != a || b != b) return __builtin_nanf("");
  return a > b || (a == b && !std::signbit(a)) ? a : b;
}
EMU_INLINE float emu_min_nan(float a, float b) {
  if (a != a || b != b) return __builtin_nanf("");
  return a < b || (a == b && std::signbit(a)) ? a : b;
}

// The C library's fmaxf is a call; these are two instructions. A NaN loses against a number.
#define EMU_EXTREMES(T, suffix)                                               \
  EMU_INLINE T emu_fmax##suffix(T a, T b) { return a < b || a != a ? b : a; } \
  EMU_INLINE T emu_fmin##suffix(T a, T b) { return b < a || a != a ? b : a; }
EMU_EXTREMES(float, f)
EMU_EXTREMES(double, )
namespace std {
using ::emu_fmaxf;
using ::emu_fminf;
}  // namespace std
#define fmaxf emu_fmaxf
#define fminf emu_fminf

#define EMU_EXTREMES_OF_INTEGERS(T)                    \
  EMU_INLINE T max(T a, T b) { return a < b ? b : a; } \
  EMU_INLINE T min(T a, T b) { return b < a ? b : a; }
EMU_EXTREMES_OF_INTEGERS(int)
EMU_EXTREMES_OF_INTEGERS(unsigned)
EMU_EXTREMES_OF_INTEGERS(long)
EMU_EXTREMES_OF_INTEGERS(unsigned long)
EMU_EXTREMES_OF_INTEGERS(long long)
EMU_EXTREMES_OF_INTEGERS(unsigned long long)
#define EMU_EXTREMES_OF_MIXED(Result, A, B)                             \
  EMU_INLINE Result max(A a, B b) { return max((Result)a, (Result)b); } \
  EMU_INLINE Result min(A a, B b) { return min((Result)a, (Result)b); }
EMU_INLINE float max(float a, float b) { return emu_fmaxf(a, b); }
EMU_INLINE float min(float a, float b) { return emu_fminf(a, b); }
EMU_INLINE double max(double a, double b) { return emu_fmax(a, b); }
EMU_INLINE double min(double a, double b) { return emu_fmin(a, b); }
EMU_EXTREMES_OF_MIXED(unsigned, int, unsigned)
EMU_EXTREMES_OF_MIXED(unsigned, unsigned, int)
EMU_EXTREMES_OF_MIXED(long, int, long)
EMU_EXTREMES_OF_MIXED(long, long, int)
EMU_EXTREMES_OF_MIXED(long long, int, long long)
EMU_EXTREMES_OF_MIXED(long long, long long, int)
EMU_EXTREMES_OF_MIXED(double, float, double)
EMU_EXTREMES_OF_MIXED(double, double, float)
EMU_INLINE int umin(unsigned a, unsigned b) { return min(a, b); }
EMU_INLINE unsigned umax(unsigned a, unsigned b) { return max(a, b); }

#define EMU_BOTH(name, body)                        \
  EMU_INLINE double name(double x) { return body; } \
  EMU_INLINE float name##f(float given) {           \
    double x = given;                               \
    return (float)(body);                           \
  }
constexpr double emu_pi = 3.14159265358979323846, emu_root_half = 0.70710678118654752440;

EMU_INLINE float rsqrtf(float x) { return 1.0f / ::sqrtf(x); }
EMU_INLINE double rsqrt(double x) { return 1.0 / ::sqrt(x); }
// Exact at multiples of one half, as CUDA's are: the argument is reduced before the multiplication.
EMU_INLINE double emu_reduce_period(double x) { return x - 2.0 * ::rint(x * 0.5); }
EMU_BOTH(sinpi, ::fabs(emu_reduce_period(x)) == 1.0 ? 0.0 : ::sin(emu_reduce_period(x) * emu_pi))
EMU_BOTH(cospi, ::fabs(emu_reduce_period(x)) == 0.5 ? 0.0 : ::cos(emu_reduce_period(x) * emu_pi))
EMU_BOTH(rcbrt, 1.0 / ::cbrt(x))
EMU_BOTH(normcdf, 0.5 * ::erfc(-x * emu_root_half))
EMU_BOTH(erfcx,
         x < 26.0 ? ::exp(x * x) * ::erfc(x) : 1.0 / (x * 1.77245385090551602730) * (1.0 - 0.5 / (x * x)))
EMU_INLINE double emu_bessel_i(double x, int order) {
  double term = order ? x / 2 : 1.0, sum = term;
  for (int k = 1; k < 500 && ::fabs(term) > 1e-17 * ::fabs(sum); k++)
    sum += term *= x * x / 4 / (k * (k + order));
  return sum;
}
EMU_BOTH(cyl_bessel_i0, emu_bessel_i(x, 0))
EMU_BOTH(cyl_bessel_i1, emu_bessel_i(x, 1))

// Inverse of erf: a start within 1e-3 of the logarithm's scale, then Newton steps to full precision.
EMU_INLINE double erfinv(double y) {
  if (!(y > -1.0 && y < 1.0)) return y == 1.0 ? INFINITY : y == -1.0 ? -INFINITY : NAN;
  double w = ::log((1.0 - y) * (1.0 + y)), a = 2.0 / (emu_pi * 0.147) + w / 2;
  double x = ::copysign(::sqrt(::sqrt(a * a - w / 0.147) - a), y);
  for (int step = 0; step < 4; step++) {
    double error = x > 0 ? (1.0 - y) - ::erfc(x) : ::erfc(-x) - (1.0 + y);
    x -= error / (2.0 / ::sqrt(emu_pi) * ::exp(-x * x));
  }
  return y == 0.0 ? y : x;
}
EMU_INLINE double erfcinv(double y) {
  if (y >= 0.0625) return erfinv(1.0 - y);
  if (!(y > 0.0)) return y == 0.0 ? INFINITY : NAN;
  double x = ::sqrt(-::log(y));
  for (int step = 0; step < 40; step++)
    x += (::erfc(x) - y) / (2.0 / ::sqrt(emu_pi) * ::exp(-x * x) + 1e-320);
  return x;
}
EMU_INLINE float erfinvf(float y) { return (float)erfinv(y); }
EMU_INLINE float erfcinvf(float y) { return (float)erfcinv(y); }
EMU_INLINE double normcdfinv(double p) { return -erfcinv(2.0 * p) / emu_root_half; }
EMU_INLINE float normcdfinvf(float p) { return (float)normcdfinv(p); }
EMU_INLINE void sincospif(float x, float* sine, float* cosine) {
  *sine = sinpif(x);
  *cosine = cospif(x);
}
EMU_INLINE void sincospi(double x, double* sine, double* cosine) {
  *sine = sinpi(x);
  *cosine = cospi(x);
}
EMU_INLINE float rhypotf(float x, float y) { return 1.0f / ::hypotf(x, y); }
EMU_INLINE double rhypot(double x, double y) { return 1.0 / ::hypot(x, y); }
EMU_INLINE float norm3df(float a, float b, float c) {
  return (float)::sqrt((double)a * a + (double)b * b + (double)c * c);
}
EMU_INLINE float norm4df(float a, float b, float c, float d) {
  return (float)::sqrt((double)a * a + (double)b * b + (double)c * c + (double)d * d);
}
EMU_INLINE float rnorm3df(float a, float b, float c) { return 1.0f / norm3df(a, b, c); }
EMU_INLINE float rnorm4df(float a, float b, float c, float d) { return 1.0f / norm4df(a, b, c, d); }
EMU_INLINE float fdividef(float a, float b) { return a / b; }
EMU_INLINE float __fdividef(float a, float b) { return a / b; }
EMU_INLINE float __saturatef(float x) { return x < 0.f || x != x ? 0.f : x > 1.f ? 1.f : x; }
EMU_INLINE float __frsqrt_rn(float x) { return (float)(1.0 / ::sqrt((double)x)); }

// Arithmetic with a rounding mode. The exact result is held in a double; `direction` is -1 towards minus
// infinity, +1 towards plus infinity, 0 towards zero.
EMU_INLINE float emu_round_towards(double exact, int direction) {
  float nearest = (float)exact;
  if (direction == 0) direction = exact > 0 ? -1 : 1;
  if (direction < 0 && (double)nearest > exact) return ::nextafterf(nearest, -INFINITY);
  if (direction > 0 && (double)nearest < exact) return ::nextafterf(nearest, INFINITY);
  return nearest;
}
#define EMU_ROUNDED(name, parameters, in_float, in_double)                           \
  EMU_INLINE float name##_rn parameters { return in_float; }                         \
  EMU_INLINE float name##_rz parameters { return emu_round_towards(in_double, 0); }  \
  EMU_INLINE float name##_rd parameters { return emu_round_towards(in_double, -1); } \
  EMU_INLINE float name##_ru parameters { return emu_round_towards(in_double, 1); }
// Through a volatile-like barrier, because _rn forms must not be contracted into a fused multiply-add.
EMU_INLINE float emu_keep(float x) {
  asm("" : "+x"(x));
  return x;
}
EMU_INLINE double emu_keep(double x) {
  asm("" : "+x"(x));
  return x;
}
EMU_ROUNDED(__fadd, (float a, float b), emu_keep(a) + emu_keep(b), (double)a + b)
EMU_ROUNDED(__fsub, (float a, float b), emu_keep(a) - emu_keep(b), (double)a - b)
EMU_ROUNDED(__fmul, (float a, float b), emu_keep(a* b), (double)a* b)
EMU_ROUNDED(__fdiv, (float a, float b), a / b, (double)a / b)
EMU_ROUNDED(__fmaf, (float a, float b, float c), ::fmaf(a, b, c), (double)a* b + c)
EMU_ROUNDED(__frcp, (float a), 1.0f / a, 1.0 / a)
EMU_ROUNDED(__fsqrt, (float a), ::sqrtf(a), ::sqrt((double)a))
EMU_INLINE double __dadd_rn(double a, double b) { return emu_keep(a) + emu_keep(b); }
EMU_INLINE double __dsub_rn(double a, double b) { return emu_keep(a) - emu_keep(b); }
EMU_INLINE double __dmul_rn(double a, double b) { return emu_keep(a * b); }
EMU_INLINE double __ddiv_rn(double a, double b) { return a / b; }
EMU_INLINE double __dsqrt_rn(double a) { return ::sqrt(a); }
EMU_INLINE double __fma_rn(double a, double b, double c) { return ::fma(a, b, c); }
EMU_INLINE double __drcp_rn(double a) { return 1.0 / a; }
