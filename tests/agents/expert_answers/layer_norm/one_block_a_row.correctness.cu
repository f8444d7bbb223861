/* plan
def plan(x, weight, bias):
    require(x.dtype == f32 and x.is_contiguous, "contiguous float32 only")
    require(weight.is_contiguous and bias.is_contiguous, "contiguous weights only")
    rows, cols = x.shape
    y = empty_like(x)
    launch("layer_norm<64>", grid=rows, block=64, args=[x, weight, bias, y, cols])
    return y
*/
template <int BLOCK>
__device__ float block_sum(float value) {
    // A tree in shared memory: half the threads drop out at every level.
    __shared__ float part[BLOCK];
    part[threadIdx.x] = value;
    __syncthreads();
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    value = part[0];
    __syncthreads();
    return value;
}

// One block a row.
template <int BLOCK>
__global__ void layer_norm(const float* __restrict__ x, const float* __restrict__ weight,
                           const float* __restrict__ bias, float* __restrict__ y, int cols) {
    const int row = blockIdx.x;
    const float* in = x + size_t(row) * cols;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += BLOCK) sum += in[i];
    const float mean = block_sum<BLOCK>(sum) / cols;
    // A second pass over the differences: a sum of squares would lose digits to a large mean.
    float squares = 0.0f;
    for (int i = threadIdx.x; i < cols; i += BLOCK) squares += (in[i] - mean) * (in[i] - mean);
    const float scale = rsqrtf(block_sum<BLOCK>(squares) / cols + 1e-5f);
    for (int i = threadIdx.x; i < cols; i += BLOCK)
        y[size_t(row) * cols + i] = (in[i] - mean) * scale * weight[i] + bias[i];
}
