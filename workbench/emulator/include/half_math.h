// half and bfloat16: what CUDA's own headers give to device code only.
#pragma once

#define EMU_HALF(name, function)                                                          \
  EMU_INLINE __half name(__half x) { return __float2half_rn(function(__half2float(x))); } \
  EMU_INLINE __nv_bfloat16 name(__nv_bfloat16 x) {                                        \
    return __float2bfloat16_rn(function(__bfloat162float(x)));                            \
  }
#define EMU_HALF2(name, each)                                                                              \
  EMU_INLINE __half2 name(__half2 x) { return __halves2half2(each(__low2half(x)), each(__high2half(x))); } \
  EMU_INLINE __nv_bfloat162 name(__nv_bfloat162 x) {                                                       \
    return __halves2bfloat162(each(__low2bfloat16(x)), each(__high2bfloat16(x)));                          \
  }
EMU_HALF(hexp, ::expf)
EMU_HALF(hexp2, ::exp2f)
EMU_HALF(hexp10, ::exp10f)
EMU_HALF(hlog, ::logf)
EMU_HALF(hlog2, ::log2f)
EMU_HALF(hlog10, ::log10f)
EMU_HALF(hsqrt, ::sqrtf)
EMU_HALF(hrsqrt, rsqrtf)
EMU_HALF(hrcp, __frcp_rn)
EMU_HALF(hsin, ::sinf)
EMU_HALF(hcos, ::cosf)
EMU_HALF(htanh, ::tanhf)
EMU_HALF(htanh_approx, ::tanhf)
EMU_HALF(hfloor, ::floorf)
EMU_HALF(hceil, ::ceilf)
EMU_HALF(htrunc, ::truncf)
EMU_HALF(hrint, ::rintf)
EMU_HALF2(h2exp, hexp)
EMU_HALF2(h2exp2, hexp2)
EMU_HALF2(h2exp10, hexp10)
EMU_HALF2(h2log, hlog)
EMU_HALF2(h2log2, hlog2)
EMU_HALF2(h2log10, hlog10)
EMU_HALF2(h2sqrt, hsqrt)
EMU_HALF2(h2rsqrt, hrsqrt)
EMU_HALF2(h2rcp, hrcp)
EMU_HALF2(h2sin, hsin)
EMU_HALF2(h2cos, hcos)
EMU_HALF2(h2tanh, htanh)
EMU_HALF2(h2tanh_approx, htanh)
EMU_HALF2(h2floor, hfloor)
EMU_HALF2(h2ceil, hceil)
EMU_HALF2(h2trunc, htrunc)
EMU_HALF2(h2rint, hrint)

// A fused multiply-add of 16-bit numbers is exact in float up to its last rounding.
EMU_INLINE __half __hfma(__half a, __half b, __half c) {
  return __float2half_rn(::fmaf(__half2float(a), __half2float(b), __half2float(c)));
}
EMU_INLINE __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return __halves2half2(__hfma(__low2half(a), __low2half(b), __low2half(c)),
                        __hfma(__high2half(a), __high2half(b), __high2half(c)));
}
EMU_INLINE __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
  return __float2bfloat16_rn(::fmaf(__bfloat162float(a), __bfloat162float(b), __bfloat162float(c)));
}
EMU_INLINE __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
  return __halves2bfloat162(__hfma(__low2bfloat16(a), __low2bfloat16(b), __low2bfloat16(c)),
                            __hfma(__high2bfloat16(a), __high2bfloat16(b), __high2bfloat16(c)));
}
EMU_INLINE int __half2int_rn(__half x) { return __float2int_rn(__half2float(x)); }
EMU_INLINE int __half2int_rd(__half x) { return __float2int_rd(__half2float(x)); }
EMU_INLINE int __half2int_ru(__half x) { return __float2int_ru(__half2float(x)); }
