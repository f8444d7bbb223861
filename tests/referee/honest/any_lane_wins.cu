// number: 0
// name: all lanes write their own number, and any may win
// problem: rowsum
// expect: passed
//
// Different values for one word in one request; all lanes hold the same sum, so that the winner does not matter.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty((rows,), f32)
    launch("rowsum", grid=rows, block=32, args=[x, y, cols])
    return y
*/
__global__ void rowsum(const float* x, float* y, int cols) {
    __shared__ int chosen;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 32) sum += x[(size_t)blockIdx.x * cols + i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    chosen = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == chosen) y[blockIdx.x] = sum;
}
