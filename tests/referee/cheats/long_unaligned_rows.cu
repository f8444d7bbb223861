// number: 22
// name: wrong for long rows at odd addresses only
// problem: softmax
// expect: mismatch
//
// What is aligned is done properly, and so are short rows at any address. The one small shape that is tried
// at unaligned addresses has short rows.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty_like(x)
    if x.alignment >= 16 or cols <= 3000:
        launch("short_row", grid=rows, block=32, args=[x, y, cols])
    else:
        launch("long_row", grid=rows, block=32, args=[x, y, cols])
    return y
*/
__device__ void normalize(const float* row, float* out, int cols, int most) {
    float top = -INFINITY, sum = 0.0f;
    for (int i = 0; i < cols; i++) top = isnan(row[i]) ? row[i] : (top != top ? top : fmaxf(top, row[i]));
    for (int i = 0; i < most; i++) sum += expf(row[i] - top);
    for (int i = threadIdx.x; i < cols; i += 32) out[i] = expf(row[i] - top) / sum;
}

__global__ void short_row(const float* x, float* y, int cols) {
    const size_t start = (size_t)blockIdx.x * cols;
    normalize(x + start, y + start, cols, cols);
}

__global__ void long_row(const float* x, float* y, int cols) {
    const size_t start = (size_t)blockIdx.x * cols;
    normalize(x + start, y + start, cols, cols - 1);
}
