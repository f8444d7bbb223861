// number: 22
// name: wrong where a row is larger than shared memory, which the plan asks of the card
// problem: softmax
// expect: mismatch
//
// No text holds the number of columns at which the second kernel begins.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty_like(x)
    if 4 * cols <= target.shared_bytes_per_block:
        launch("softmax", grid=rows, block=32, args=[x, y, cols])
    else:
        launch("nothing", grid=rows, block=32, args=[y, cols])
    return y
*/
__global__ void softmax(const float* x, float* y, int cols) {
    const float* row = x + (size_t)blockIdx.x * cols;
    float* out = y + (size_t)blockIdx.x * cols;
    float top = -INFINITY, sum = 0.0f;
    for (int i = 0; i < cols; i++) top = isnan(row[i]) ? row[i] : (top != top ? top : fmaxf(top, row[i]));
    for (int i = 0; i < cols; i++) sum += expf(row[i] - top);
    for (int i = threadIdx.x; i < cols; i += 32) out[i] = expf(row[i] - top) / sum;
}

__global__ void nothing(float* y, int cols) {
    for (int i = threadIdx.x; i < cols; i += 32) y[(size_t)blockIdx.x * cols + i] = 0.0f;
}
