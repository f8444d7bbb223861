// Shared arrays of a type with a constructor beside plain ones: the emulator's compiler puts guards among them.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__global__ void halves_beside_floats(const float* x, float* y) {
    __shared__ float sums[32];
    __shared__ __half halves[33];
    __shared__ int order[32];
    __shared__ __nv_bfloat16 wide[32][2];
    int t = threadIdx.x;
    sums[t] = x[t];
    halves[t] = __float2half(x[t]);
    order[t] = 31 - t;
    wide[t][0] = __float2bfloat16(x[t]);
    wide[t][1] = __float2bfloat16(1.0f);
    __syncthreads();
    int other = order[t];
    y[t] = sums[other] + __half2float(halves[other]) + __bfloat162float(wide[other][1]);
}
