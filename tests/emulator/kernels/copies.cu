// Asynchronous copies, waited for and not.
#include <cuda_pipeline.h>

// Two groups of a float a thread; all but the last LEFT are waited for, or nothing is (LEFT < 0).
template <int LEFT> __global__ void two_groups(const float* x, float* y) {
    __shared__ float seen[2][64];
    for (int group = 0; group < 2; ++group) {
        __pipeline_memcpy_async(&seen[group][threadIdx.x], x + group * 64 + threadIdx.x, 4);
        __pipeline_commit();
    }
    if (LEFT >= 0) {
        __pipeline_wait_prior(LEFT < 0 ? 0 : LEFT);
    }
    __syncthreads();
    for (int group = 0; group < 2; ++group) {
        y[group * 64 + threadIdx.x] = seen[group][63 - threadIdx.x];
    }
}

// The first half of each piece of 8 bytes, zeros behind it; nothing is read where all is zero.
__global__ void zeros_behind(const float* x, float* y) {
    __shared__ __align__(8) float seen[128];
    const bool inside = threadIdx.x < 32;
    const float* from = inside ? x + 2 * threadIdx.x : nullptr;
    __pipeline_memcpy_async(&seen[2 * threadIdx.x], from, 8, inside ? 4 : 8);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    y[threadIdx.x] = seen[threadIdx.x];
    y[64 + threadIdx.x] = seen[64 + threadIdx.x];
}

// Twelve bytes of each sixteen, and a zero.
__global__ void zero_behind_three(const float* x, float* y) {
    __shared__ __align__(16) float seen[256];
    __pipeline_memcpy_async(&seen[4 * threadIdx.x], x + 4 * threadIdx.x, 16, 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += 64) {
        y[i] = seen[i];
    }
}

// A ring of two: a group is asked for while the one before is used, twenty times over.
__global__ void ring(const float* x, float* y) {
    __shared__ float seen[2][64];
    __pipeline_memcpy_async(&seen[0][threadIdx.x], x + threadIdx.x, 4);
    __pipeline_commit();
    float sum = 0.0f;
    for (int step = 0; step < 20; ++step) {
        if (step + 1 < 20) {
            __pipeline_memcpy_async(&seen[(step + 1) % 2][threadIdx.x], x + (step + 1) * 64 + threadIdx.x, 4);
            __pipeline_commit();
            __pipeline_wait_prior(1);
        } else {
            __pipeline_wait_prior(0);
        }
        __syncthreads();
        sum += seen[step % 2][63 - threadIdx.x];
        __syncthreads();
    }
    y[threadIdx.x] = sum;
}
