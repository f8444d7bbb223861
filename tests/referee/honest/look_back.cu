// number: 0
// name: decoupled look-back
// problem: rowsum
// expect: passed
//
// Each block waits for the one before it; tickets, not block numbers, say which that is.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    state = zeros((rows, 6), i32)
    sums = zeros((rows, 4), f32)
    y = empty((rows,), f32)
    launch("rowsum", grid=(4, rows), block=32, args=[x, state, sums, y, cols])
    return y
*/
__global__ void rowsum(const float* x, int* state, float* sums, float* y, int cols) {
    int row = blockIdx.y, ticket = 0;
    if (threadIdx.x == 0) ticket = atomicAdd(&state[row * 6 + 5], 1);
    ticket = __shfl_sync(0xffffffffu, ticket, 0);
    float sum = 0.0f;
    for (int i = ticket * 32 + threadIdx.x; i < cols; i += 128) sum += x[(size_t)row * cols + i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x > 0) return;
    if (ticket > 0) {
        while (((volatile int*)state)[row * 6 + ticket - 1] == 0) {}
        __threadfence();
        sum += ((volatile float*)sums)[row * 4 + ticket - 1];
    }
    ((volatile float*)sums)[row * 4 + ticket] = sum;
    __threadfence();
    ((volatile int*)state)[row * 6 + ticket] = 1;
    if (ticket == 3) y[row] = sum;
}
