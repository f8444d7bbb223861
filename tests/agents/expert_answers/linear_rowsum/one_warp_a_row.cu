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
    launch("row_dots", grid=cdiv(rows, 4), block=128, args=[x, sums, total, y, rows, cols])
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

// Four warps a block, a row of x each.
__global__ void row_dots(const float* __restrict__ x, const float* __restrict__ sums,
                         const float* __restrict__ total, float* __restrict__ y, int rows, int cols) {
    const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = lane; i < cols; i += 32) sum += x[size_t(row) * cols + i] * sums[i];
    sum = warp_sum(sum);
    if (lane == 0) y[row] = sum + total[0];
}
