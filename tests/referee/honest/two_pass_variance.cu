// number: 0
// name: two passes and a correction
// problem: variance
// expect: passed
//
// The mean first, then the squares of what is left.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty((rows,), f32)
    launch("variance", grid=rows, block=1, args=[x, y, cols])
    return y
*/
__global__ void variance(const float* x, float* y, int cols) {
    const float* row = x + (size_t)blockIdx.x * cols;
    float sum = 0.0f, squares = 0.0f, rest = 0.0f;
    for (int i = 0; i < cols; i++) sum += row[i];
    float mean = sum / cols;
    for (int i = 0; i < cols; i++) {
        float off = row[i] - mean;
        squares += off * off;
        rest += off;
    }
    y[blockIdx.x] = (squares - rest * rest / cols) / cols;
}
