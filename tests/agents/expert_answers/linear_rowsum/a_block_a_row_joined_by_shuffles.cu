/* plan
def plan(x, weight, bias):
    require(x.dtype == f32 and x.is_contiguous, "contiguous float32 only")
    require(weight.is_contiguous and bias.is_contiguous, "contiguous weights only")
    rows, cols = x.shape
    outs = weight.shape[0]
    sums = empty((cols,), f32)
    total = empty((1,), f32)
    y = empty((rows,), f32)
    launch("weight_sums", grid=cdiv(cols + 1, 128), block=128, args=[weight, bias, sums, total, outs, cols])
    launch("row_dots<64>", grid=rows, block=64, args=[x, sums, total, y, cols])
    return y
*/
// The sum over the outputs of x @ W.T + b is x @ (sum of W's rows) + sum of b: the product is never made.
__global__ void weight_sums(const float* __restrict__ weight, const float* __restrict__ bias,
                            float* __restrict__ sums, float* __restrict__ total, int outs, int cols) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    if (col < cols) {
        for (int out = 0; out < outs; ++out) sum += weight[size_t(out) * cols + col];
        sums[col] = sum;
    } else if (col == cols) {
        for (int out = 0; out < outs; ++out) sum += bias[out];
        total[0] = sum;
    }
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

// One block a row of x.
template <int BLOCK>
__global__ void row_dots(const float* __restrict__ x, const float* __restrict__ sums,
                         const float* __restrict__ total, float* __restrict__ y, int cols) {
    const int row = blockIdx.x;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += BLOCK) sum += x[size_t(row) * cols + i] * sums[i];
    sum = block_sum<BLOCK>(sum);
    if (threadIdx.x == 0) y[row] = sum + total[0];
}
