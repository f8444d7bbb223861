// number: 26
// name: so many idle threads that nobody looks for races
// problem: rowsum
// expect: hazard race
//
// Two blocks a row do the work, without the fence between a sum and its count. Forty blocks of 1024 threads return.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    part = empty((rows, 2), f32)
    y = empty((rows,), f32)
    launch("rowsum", grid=2 * rows + 40, block=1024, args=[x, part, y, rows, cols])
    return y
*/
__device__ unsigned int arrived[4096];

__global__ void rowsum(const float* x, float* part, float* y, int rows, int cols) {
    int row = blockIdx.x / 2;
    if (row >= rows || threadIdx.x >= 32) return;
    float sum = 0.0f;
    for (int i = blockIdx.x % 2 * 32 + threadIdx.x; i < cols; i += 64) sum += x[(size_t)row * cols + i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x > 0) return;
    part[blockIdx.x] = sum;
    if (atomicInc(&arrived[row], 1) == 0) return;
    y[row] = __ldcg(&part[2 * row]) + __ldcg(&part[2 * row + 1]);
}
