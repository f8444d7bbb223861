// number: 26
// name: adds without atomics
// problem: rowsum
// expect: hazard race
//
// Threads read, add and write one cell.
/* plan
def plan(x):
    rows, cols = x.shape
    y = zeros((rows,), f32)
    launch("rowsum", grid=rows, block=64, args=[x, y, cols])
    return y
*/
__global__ void rowsum(const float* x, float* y, int cols) {
    for (int i = threadIdx.x; i < cols; i += 64) y[blockIdx.x] += x[(size_t)blockIdx.x * cols + i];
}
