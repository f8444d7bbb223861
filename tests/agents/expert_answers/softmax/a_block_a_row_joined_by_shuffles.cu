/* plan
def plan(x):
    require(x.dtype == f32 and x.is_contiguous, "contiguous float32 only")
    rows, cols = x.shape
    y = empty_like(x)
    launch("softmax<128>", grid=rows, block=128, args=[x, y, cols])
    return y
*/
__device__ float warp_max(float value) {
    // Butterfly: after five exchanges every lane has the largest.
    for (int offset = 16; offset > 0; offset /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, offset));
    return value;
}

template <int BLOCK>
__device__ float block_max(float value) {
    // Shuffles inside a warp, then one number a warp through shared memory.
    __shared__ float part[BLOCK / 32];
    value = warp_max(value);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
    __syncthreads();
    value = part[0];
    for (int warp = 1; warp < BLOCK / 32; ++warp) value = fmaxf(value, part[warp]);
    __syncthreads();
    return value;
}

__device__ float warp_sum(float value) {
    // Butterfly: after five exchanges every lane has the sum.
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffff, value, offset);
    return value;
}

template <int BLOCK>
__device__ float block_sum(float value) {
    // Shuffles inside a warp, then one number a warp through shared memory.
    __shared__ float part[BLOCK / 32];
    value = warp_sum(value);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0.0f;
    for (int warp = 0; warp < BLOCK / 32; ++warp) value += part[warp];
    __syncthreads();
    return value;
}

// One block a row.
template <int BLOCK>
__global__ void softmax(const float* __restrict__ x, float* __restrict__ y, int cols) {
    const int row = blockIdx.x;
    const float* in = x + size_t(row) * cols;
    float* out = y + size_t(row) * cols;
    float top = -INFINITY;
    for (int i = threadIdx.x; i < cols; i += BLOCK) top = fmaxf(top, in[i]);
    top = block_max<BLOCK>(top);
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += BLOCK) sum += expf(in[i] - top);
    sum = block_sum<BLOCK>(sum);
    for (int i = threadIdx.x; i < cols; i += BLOCK) out[i] = expf(in[i] - top) / sum;
}
