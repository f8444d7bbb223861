/* plan
def plan(x, weight, bias):
    require(x.dtype == f32 and x.is_contiguous, "contiguous float32 only")
    require(weight.is_contiguous and bias.is_contiguous, "contiguous weights only")
    rows, cols = x.shape
    y = empty_like(x)
    launch("layer_norm", grid=cdiv(rows, 4), block=128, args=[x, weight, bias, y, rows, cols])
    return y
*/
__device__ float warp_sum(float value) {
    // Butterfly: after five exchanges every lane has the sum.
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffff, value, offset);
    return value;
}

// Four warps a block, a row each.
__global__ void layer_norm(const float* __restrict__ x, const float* __restrict__ weight,
                           const float* __restrict__ bias, float* __restrict__ y, int rows, int cols) {
    const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float* in = x + size_t(row) * cols;
    float sum = 0.0f;
    for (int i = lane; i < cols; i += 32) sum += in[i];
    const float mean = warp_sum(sum) / cols;
    // A second pass over the differences: a sum of squares would lose digits to a large mean.
    float squares = 0.0f;
    for (int i = lane; i < cols; i += 32) squares += (in[i] - mean) * (in[i] - mean);
    const float scale = rsqrtf(warp_sum(squares) / cols + 1e-5f);
    for (int i = lane; i < cols; i += 32)
        y[size_t(row) * cols + i] = (in[i] - mean) * scale * weight[i] + bias[i];
}
