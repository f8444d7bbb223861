// number: 22
// name: a branch of the plan that takes shapes its kernel was not made for
// problem: softmax
// expect: mismatch
//
// Short rows are done properly. The kernel for long rows takes four columns at a time and leaves the rest.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty_like(x)
    if cols <= 512:
        launch("any_row", grid=rows, block=32, args=[x, y, cols])
    else:
        launch("row_of_fours", grid=rows, block=32, args=[x, y, cols])
    return y
*/
__device__ void normalize(const float* row, float* out, int cols, int most) {
    float top = -INFINITY, sum = 0.0f;
    for (int i = 0; i < cols; i++) top = isnan(row[i]) ? row[i] : (top != top ? top : fmaxf(top, row[i]));
    for (int i = 0; i < cols; i++) sum += expf(row[i] - top);
    for (int i = threadIdx.x; i < most; i += 32) out[i] = expf(row[i] - top) / sum;
}

__global__ void any_row(const float* x, float* y, int cols) {
    const size_t start = (size_t)blockIdx.x * cols;
    normalize(x + start, y + start, cols, cols);
}

__global__ void row_of_fours(const float* x, float* y, int cols) {
    const size_t start = (size_t)blockIdx.x * cols;
    normalize(x + start, y + start, cols, cols / 4 * 4);
}
