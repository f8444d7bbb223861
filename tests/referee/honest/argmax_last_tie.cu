// number: 0
// name: another of several equal maxima
// problem: argmax
// expect: passed
//
// Ties may be broken either way.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty((rows,), i64)
    launch("argmax", grid=rows, block=1, args=[x, y, cols])
    return y
*/
__global__ void argmax(const float* x, long long* y, int cols) {
    const float* row = x + (size_t)blockIdx.x * cols;
    int best = 0;
    for (int i = 1; i < cols; i++)
        if (row[best] == row[best] && (row[i] >= row[best] || row[i] != row[i])) best = i;
    y[blockIdx.x] = best;
}
