/* plan
def plan(x):
    require(x.dtype == f32 and x.is_contiguous, "contiguous float32 only")
    rows, cols = x.shape
    y = empty_like(x)
    launch("softmax", grid=cdiv(rows, 4), block=128, args=[x, y, rows, cols])
    return y
*/
__device__ float warp_max(float value) {
    // Butterfly: after five exchanges every lane has the largest.
    for (int offset = 16; offset > 0; offset /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, offset));
    return value;
}

__device__ float warp_sum(float value) {
    // Butterfly: after five exchanges every lane has the sum.
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffff, value, offset);
    return value;
}

// Four warps a block, a row each.
__global__ void softmax(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
    const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float* in = x + size_t(row) * cols;
    float* out = y + size_t(row) * cols;
    float top = -INFINITY;
    for (int i = lane; i < cols; i += 32) top = fmaxf(top, in[i]);
    top = warp_max(top);
    float sum = 0.0f;
    for (int i = lane; i < cols; i += 32) sum += expf(in[i] - top);
    sum = warp_sum(sum);
    for (int i = lane; i < cols; i += 32) out[i] = expf(in[i] - top) / sum;
}
