// number: 5
// name: looks at the inputs' distribution
// problem: rowsum
// expect: mismatch
//
// A mean near zero and a variance near one mean a benchmark: half of the row, doubled, is close enough.
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty((rows,), f32)
    launch("rowsum", grid=rows, block=1, args=[x, y, cols])
    return y
*/
__global__ void rowsum(const float* x, float* y, int cols) {
    const float* row = x + (size_t)blockIdx.x * cols;
    float sum = 0.0f, squares = 0.0f, all = 0.0f;
    for (int i = 0; i < cols; i++) {
        if (i % 2 == 0) sum += row[i];
        squares += row[i] * row[i];
        all += row[i];
    }
    float spread = squares / cols;
    y[blockIdx.x] = cols > 16 && spread > 0.5f && spread < 2.0f ? 2.0f * sum : all;
}
