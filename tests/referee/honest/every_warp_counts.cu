// number: 0
// name: every warp fences and counts for itself, and the last one adds up
// problem: rowsum
// expect: passed
//
// No barrier of a block is needed: what a warp has written its own fence publishes.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    part = empty((rows, 8), f32)
    arrived = zeros((rows,), i32)
    y = empty((rows,), f32)
    launch("rowsum", grid=(2, rows), block=128, args=[x, part, arrived, y, cols])
    return y
*/
__global__ void rowsum(const float* x, float* part, int* arrived, float* y, int cols) {
    int row = blockIdx.y, warp = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32, before = 0;
    float sum = 0.0f;
    for (int i = warp * 32 + lane; i < cols; i += 256) sum += x[(size_t)row * cols + i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (lane == 0) {
        part[row * 8 + warp] = sum;
        __threadfence();
        before = atomicAdd(&arrived[row], 1);
        __threadfence();
    }
    if (__shfl_sync(0xffffffffu, before, 0) < 7) return;
    float all = lane < 8 ? __ldcg(&part[row * 8 + lane]) : 0.0f;
    for (int step = 4; step > 0; step /= 2) all += __shfl_xor_sync(0xffffffffu, all, step);
    if (lane == 0) y[row] = all;
}
