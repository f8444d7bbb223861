// number: 0
// name: shuffles among some lanes
// problem: rowsum
// expect: passed
//
// The mask names the lanes that are there, no more.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty((rows,), f32)
    launch("rowsum", grid=rows, block=32, args=[x, y, cols])
    return y
*/
__global__ void rowsum(const float* x, float* y, int cols) {
    float sum = 0.0f;
    for (int i = threadIdx.x % 16; i < cols; i += 16) sum += x[(size_t)blockIdx.x * cols + i];
    if (threadIdx.x >= 16) return;
    for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(0x0000ffffu, sum, step);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
