// Corners of the language: types, vectors, constants, memory spaces, printf.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

__constant__ float coefficients[4] = {1.f, 2.f, 3.f, 4.f};
__device__ int counter;

__global__ void scalars(float* y, float f, double d, int i, long long q, bool b, unsigned char c, __half h, __nv_bfloat16 w) {
  y[0] = f; y[1] = d; y[2] = i; y[3] = q; y[4] = b; y[5] = c; y[6] = __half2float(h); y[7] = __bfloat162float(w);
}
__global__ void uses_constant(const float* x, float* y) { y[threadIdx.x] = __ldg(&x[threadIdx.x]) + coefficients[threadIdx.x & 3]; }
__global__ void counts_threads(int* y) {
  atomicAdd(&counter, 1);
  __syncthreads();
  y[threadIdx.x] = counter;
}
__global__ void scaled_by_macro(const float* x, float* y) {
  if (threadIdx.x < N) __stcs(&y[threadIdx.x], SCALE * __ldcs(&x[threadIdx.x]));
}
__global__ void double_buffered(const float4* x, float4* y, int tiles) {
  __shared__ float4 buffer[2][64];
  int t = threadIdx.x;
  __pipeline_memcpy_async(&buffer[0][t], &x[t], 16);
  __pipeline_commit();
  for (int k = 0; k < tiles; k++) {
    if (k + 1 < tiles) __pipeline_memcpy_async(&buffer[(k + 1) & 1][t], &x[(k + 1) * 64 + t], 16);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    y[k * 64 + t] = buffer[k & 1][63 - t];
    __syncthreads();
  }
}
__global__ void half_math(const __half2* x, __half2* y, __nv_bfloat16* z) {
  __half2 v = x[threadIdx.x];
  v = h2exp(__hfma2(v, v, __float2half2_rn(0.5f)));
  y[threadIdx.x] = v;
  __nv_bfloat16 b = __float2bfloat16(__half2float(__low2half(v)));
  z[threadIdx.x] = b * b + __nv_bfloat16(1.f);
}
__global__ void atomic_types(__half2* h, double* d, float4* f, unsigned* u) {
  atomicAdd(h, __float2half2_rn(1.f));
  atomicAdd(d, 0.5);
  atomicAdd(f, make_float4(1.f, 2.f, 3.f, 4.f));
  atomicMax(u, threadIdx.x);
}
__global__ void int4_copy(const int4* x, int4* y) { y[threadIdx.x] = x[threadIdx.x]; }
__global__ void bytes(const unsigned char* x, bool* y) { y[threadIdx.x] = x[threadIdx.x] > 7; }
__global__ void longs(const long long* x, long long* y) { y[threadIdx.x] = max(x[threadIdx.x], 3LL) << 2; }
__global__ void prints(int* y) {
  if (threadIdx.x < 2) printf("thread %d of block %d\n", threadIdx.x, blockIdx.x);
  y[threadIdx.x] = 1;
}
struct Row { float v[8]; };
__global__ void struct_copy(const Row* x, Row* y) { y[threadIdx.x] = x[threadIdx.x]; }
__global__ void copies_memory(const float* x, float* y) {
  memcpy(y + 16 * threadIdx.x, x + 16 * threadIdx.x, 48);
  memset(y + 16 * threadIdx.x + 12, 0, 16);
}
__global__ void unaligned_copy(const float* x, float* y) {
  float4 v;
  memcpy(&v, x + 1 + 4 * threadIdx.x, sizeof v);  // allowed: memcpy asks for no alignment
  memcpy(y + 4 * threadIdx.x, &v, sizeof v);
}
