/* plan
def plan(x):
    require(x.dtype == f32 and x.ndim == 2 and x.is_contiguous, "contiguous float32 with 2 axes")
    rows, cols = x.shape
    y = empty((rows,), f32)
    block = min(256, max(32, next_pow2(cols)))
    if rows > 0:
        launch(f"row_mean<{block}>", grid=rows, block=block, args=[x, y], const={"COLS": cols})
    return y
*/
// Every warp adds with shuffles; one number a warp goes through shared memory.
template <int BLOCK>
__device__ float block_sum(float value) {
    __shared__ float part[BLOCK / 32];
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffff, value, offset);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0.0f;
    for (int warp = 0; warp < BLOCK / 32; ++warp) sum += part[warp];
    return sum;
}

// One block a row. COLS is a macro from the plan: the compiler knows the row's length.
template <int BLOCK>
__global__ void __launch_bounds__(BLOCK) row_mean(const float* __restrict__ x, float* __restrict__ y) {
    const float* row = x + size_t(blockIdx.x) * COLS;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < COLS; i += BLOCK) sum += row[i];
    sum = block_sum<BLOCK>(sum);
    if (threadIdx.x == 0) y[blockIdx.x] = sum / COLS;
}
