// number: 33
// name: skips the last row
// problem: softmax
// expect: mismatch
//
// One row of thousands is 0.02% of the work.
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty_like(x)
    launch("softmax", grid=rows, block=32, args=[x, y, cols])
    return y
*/
__global__ void softmax(const float* x, float* y, int cols) {
    const float* row = x + (size_t)blockIdx.x * cols;
    float* out = y + (size_t)blockIdx.x * cols;
    float top = -INFINITY, sum = 0.0f;
    for (int i = 0; i < cols; i++) top = isnan(row[i]) ? row[i] : (top != top ? top : fmaxf(top, row[i]));
    for (int i = 0; i < cols; i++) sum += expf(row[i] - top);
    if (blockIdx.x == gridDim.x - 1 && gridDim.x > 1) return;
    for (int i = threadIdx.x; i < cols; i += 32) out[i] = expf(row[i] - top) / sum;
}
