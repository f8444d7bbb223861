// number: 0
// name: Welford's variance
// problem: variance
// expect: passed
//
// One pass, a running mean.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty((rows,), f32)
    launch("variance", grid=rows, block=1, args=[x, y, cols])
    return y
*/
__global__ void variance(const float* x, float* y, int cols) {
    float mean = 0.0f, squares = 0.0f;
    for (int i = 0; i < cols; i++) {
        float v = x[(size_t)blockIdx.x * cols + i], off = v - mean;
        mean += off / (i + 1);
        squares += off * (v - mean);
    }
    y[blockIdx.x] = squares / cols;
}
