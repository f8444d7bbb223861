// number: 26
// name: the last block by number adds up, and only looks whether the others are done
// problem: rowsum
// expect: hazard race
//
// It fences, counts and looks at the counter, as one that waits would, and goes on whatever it finds.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    part = zeros((rows, 4), f32)
    done = zeros((rows,), i32)
    y = empty((rows,), f32)
    launch("rowsum", grid=(4, rows), block=32, args=[x, part, done, y, cols])
    return y
*/
__global__ void rowsum(const float* x, float* part, int* done, float* y, int cols) {
    int row = blockIdx.y;
    float sum = 0.0f;
    for (int i = blockIdx.x * 32 + threadIdx.x; i < cols; i += 128) sum += x[(size_t)row * cols + i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x > 0) return;
    part[row * 4 + blockIdx.x] = sum;
    __threadfence();
    int before = atomicAdd(&done[row], 1);
    if (blockIdx.x < 3) return;
    __threadfence();
    float all = 0.0f;
    for (int i = 0; i <= before; i++) all += __ldcg(&part[row * 4 + i]);
    y[row] = all;
}
