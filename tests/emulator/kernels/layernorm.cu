#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;

// Half in, half out, eight halves (16 bytes) a load, one block a row.
template <int BLOCK>
__global__ void layernorm(const __half* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ bias,
                          __half* __restrict__ y, int cols, float eps) {
  __shared__ float2 part[BLOCK / 32];
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const float4* row = reinterpret_cast<const float4*>(x + (size_t)blockIdx.x * cols);
  float4* out = reinterpret_cast<float4*>(y + (size_t)blockIdx.x * cols);
  float sum = 0.f, squares = 0.f;
  for (int i = threadIdx.x; i < cols / 8; i += BLOCK) {
    float4 v = row[i];
    const __half2* h = reinterpret_cast<const __half2*>(&v);
    #pragma unroll
    for (int k = 0; k < 4; k++) {
      float2 f = __half22float2(h[k]);
      sum += f.x + f.y;
      squares += f.x * f.x + f.y * f.y;
    }
  }
  sum = cg::reduce(warp, sum, cg::plus<float>());
  squares = cg::reduce(warp, squares, cg::plus<float>());
  if (warp.thread_rank() == 0) part[warp.meta_group_rank()] = make_float2(sum, squares);
  __syncthreads();
  sum = squares = 0.f;
  for (int i = 0; i < BLOCK / 32; i++) {
    sum += part[i].x;
    squares += part[i].y;
  }
  float mean = sum / cols, scale = rsqrtf(squares / cols - mean * mean + eps);
  for (int i = threadIdx.x; i < cols / 8; i += BLOCK) {
    float4 v = row[i];
    __half2* h = reinterpret_cast<__half2*>(&v);
    #pragma unroll
    for (int k = 0; k < 4; k++) {
      float2 f = __half22float2(h[k]);
      int c = 8 * i + 2 * k;
      h[k] = __floats2half2_rn((f.x - mean) * scale * gain[c] + bias[c], (f.y - mean) * scale * gain[c + 1] + bias[c + 1]);
    }
    out[i] = v;
  }
}
