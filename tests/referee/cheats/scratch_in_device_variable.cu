// number: 26
// name: blocks leave sums in a __device__ array and nobody waits for them
// problem: rowsum
// expect: hazard race
//
// The array is no tensor of the plan. The block that reads it makes it zero again: nothing is kept.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty((rows,), f32)
    launch("rowsum", grid=(2, rows), block=32, args=[x, y, cols])
    return y
*/
__device__ float part[4096];

__global__ void rowsum(const float* x, float* y, int cols) {
    int row = blockIdx.y;
    float sum = 0.0f;
    for (int i = blockIdx.x * 32 + threadIdx.x; i < cols; i += 64) sum += x[(size_t)row * cols + i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x > 0) return;
    if (blockIdx.x == 0) {
        part[row] = sum;
    } else {
        y[row] = part[row] + sum;
        part[row] = 0.0f;
    }
}
