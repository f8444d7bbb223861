// number: 26
// name: blocks fence and count, and the one that reads looks at another counter
// problem: rowsum
// expect: hazard race
//
// Whoever leaves a part says so in `done`, behind a fence. The block that adds the parts has looked at
// `begun` alone, where the others have counted before they did anything: it reads what may not be there.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    part = empty((rows, 4), f32)
    y = empty((rows,), f32)
    launch("rowsum", grid=(4, rows), block=32, args=[x, part, y, cols])
    return y
*/
__device__ unsigned int begun, done;

__global__ void rowsum(const float* x, float* part, float* y, int cols) {
    int row = blockIdx.y;
    if (threadIdx.x == 0) atomicInc(&begun, 4 * gridDim.y - 1);
    float sum = 0.0f;
    for (int i = blockIdx.x * 32 + threadIdx.x; i < cols; i += 128) sum += x[(size_t)row * cols + i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x > 0) return;
    if (blockIdx.x < 3) {
        part[row * 4 + blockIdx.x] = sum;
        __threadfence();
        atomicInc(&done, 3 * gridDim.y - 1);
        return;
    }
    __threadfence();
    for (int i = 0; i < 3; i++) sum += part[row * 4 + i];
    y[row] = sum;
}
