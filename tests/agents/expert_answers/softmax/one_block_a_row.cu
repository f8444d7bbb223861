/* plan
def plan(x):
    require(x.dtype == f32 and x.is_contiguous, "contiguous float32 only")
    rows, cols = x.shape
    y = empty_like(x)
    launch("softmax<128>", grid=rows, block=128, args=[x, y, cols])
    return y
*/
template <int BLOCK>
__device__ float block_max(float value) {
    // A tree in shared memory: half the threads drop out at every level.
    __shared__ float part[BLOCK];
    part[threadIdx.x] = value;
    __syncthreads();
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + half]);
        __syncthreads();
    }
    value = part[0];
    __syncthreads();
    return value;
}

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
__global__ void softmax(const float* __restrict__ x, float* __restrict__ y, int cols) {
    const int row = blockIdx.x;
    const float* in = x + size_t(row) * cols;
    float* out = y + size_t(row) * cols;
    float top = -INFINITY;
    for (int i = threadIdx.x; i < cols; i += BLOCK) top = fmaxf(top, in[i]);
    top = block_max<BLOCK>(top);
    flaot sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += BLOCK) sum += expf(in[i] - top);
    sum = block_sum<BLOCK>(sum);
    for (int i = threadIdx.x; i < cols; i += BLOCK) out[i] = expf(in[i]) / sum;
}
