#include <cuda_runtime.h>

__global__ void copy_coalesced(const float* __restrict__ x, float* __restrict__ y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}
__global__ void copy_strided(const float* __restrict__ x, float* __restrict__ y, int n, int stride) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  int i = (t * stride) % n + (t * stride) / n;
  if (t < n) y[t] = x[i];
}
__global__ void double_vec4(const float4* __restrict__ x, float4* __restrict__ y, int n4) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n4; i += gridDim.x * blockDim.x) {
    float4 v = x[i];
    v.x *= 2.f; v.y *= 2.f; v.z *= 2.f; v.w *= 2.f;
    y[i] = v;
  }
}
__global__ void add_vec4(const float4* __restrict__ x, float4* __restrict__ sums, int n4) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n4; i += gridDim.x * blockDim.x) {
    atomicAdd(sums + i % 32, x[i]);
  }
}
