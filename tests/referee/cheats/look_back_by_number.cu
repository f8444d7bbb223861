// number: 26
// name: decoupled look-back that takes the blocks' numbers for the order in which they begin
// problem: rowsum
// expect: hazard barrier
//
// Each block waits for the one before it by number. Where later blocks begin first and fill the card, nobody goes on.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    state = zeros((rows, 4), i32)
    sums = empty((rows, 4), f32)
    y = empty((rows,), f32)
    launch("rowsum", grid=(4, rows), block=32, args=[x, state, sums, y, cols])
    return y
*/
__global__ void rowsum(const float* x, int* state, float* sums, float* y, int cols) {
    int row = blockIdx.y, piece = blockIdx.x;
    float sum = 0.0f;
    for (int i = piece * 32 + threadIdx.x; i < cols; i += 128) sum += x[(size_t)row * cols + i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x > 0) return;
    if (piece > 0) {
        while (((volatile int*)state)[row * 4 + piece - 1] == 0) {}
        __threadfence();
        sum += ((volatile float*)sums)[row * 4 + piece - 1];
    }
    ((volatile float*)sums)[row * 4 + piece] = sum;
    __threadfence();
    ((volatile int*)state)[row * 4 + piece] = 1;
    if (piece == 3) y[row] = sum;
}
