// number: 26
// name: a fence that publishes nothing, as an excuse for a race
// problem: rowsum
// expect: hazard race
//
// Every block calls __threadfence before it writes; nothing tells another block when it may read.
/* plan
def plan(x):
    rows, cols = x.shape
    part = empty((rows,), f32)
    y = empty((rows,), f32)
    launch("rowsum", grid=rows, block=32, args=[x, part, y, rows, cols])
    return y
*/
__global__ void rowsum(const float* x, float* part, float* y, int rows, int cols) {
    int row = blockIdx.x;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 32) sum += x[(size_t)row * cols + i];
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffff, sum, lane);
    __threadfence();
    if (threadIdx.x == 0) {
        part[row] = sum;
        y[row] = sum;
        if (row > 0) part[row - 1] = part[row];
    }
}
