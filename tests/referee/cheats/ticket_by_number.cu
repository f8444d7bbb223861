// number: 26
// name: takes a ticket, and adds to what the block before it by number has left
// problem: rowsum
// expect: hazard race
//
// The running sum is right where tickets are drawn in the order of the blocks' numbers.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    turn = zeros((rows,), i32)
    total = zeros((rows,), f32)
    y = empty((rows,), f32)
    launch("rowsum", grid=(4, rows), block=32, args=[x, turn, total, y, cols])
    return y
*/
__global__ void rowsum(const float* x, int* turn, float* total, float* y, int cols) {
    int row = blockIdx.y;
    float sum = 0.0f;
    for (int i = blockIdx.x * 32 + threadIdx.x; i < cols; i += 128) sum += x[(size_t)row * cols + i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x > 0) return;
    float before = atomicAdd(&total[row], sum);
    __threadfence();
    atomicAdd(&turn[row], 1);
    if (blockIdx.x == 3) y[row] = before + sum;
}
