// number: 0
// name: the last block adds up
// problem: rowsum
// expect: passed
//
// Blocks leave partial sums; whoever is last, by a counter that goes back to zero, adds them.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    part = empty((rows, 4), f32)
    y = empty((rows,), f32)
    launch("rowsum", grid=(4, rows), block=32, args=[x, part, y, cols])
    return y
*/
__device__ unsigned int arrived[4096 * 4];

__global__ void rowsum(const float* x, float* part, float* y, int cols) {
    int row = blockIdx.y;
    float sum = 0.0f;
    for (int i = blockIdx.x * 32 + threadIdx.x; i < cols; i += 128) sum += x[(size_t)row * cols + i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x > 0) return;
    part[row * 4 + blockIdx.x] = sum;
    __threadfence();
    if (atomicInc(&arrived[row], 3) < 3) return;  // wraps to zero: the next launch finds it as it was
    __threadfence();
    float all = 0.0f;
    for (int i = 0; i < 4; i++) all += ((volatile float*)part)[row * 4 + i];
    y[row] = all;
}
