// number: 0
// name: a lock in global memory
// problem: rowsum
// expect: passed, passed varying
//
// Blocks take turns; the lock orders what they write.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    lock = zeros((rows,), i32)
    y = zeros((rows,), f32)
    launch("rowsum", grid=(4, rows), block=32, args=[x, lock, y, cols])
    return y
*/
__global__ void rowsum(const float* x, int* lock, float* y, int cols) {
    int row = blockIdx.y;
    float sum = 0.0f;
    for (int i = blockIdx.x * 32 + threadIdx.x; i < cols; i += 128) sum += x[(size_t)row * cols + i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x > 0) return;
    while (atomicCAS(&lock[row], 0, 1) != 0) {}
    __threadfence();
    ((volatile float*)y)[row] += sum;
    __threadfence();
    atomicExch(&lock[row], 0);
}
