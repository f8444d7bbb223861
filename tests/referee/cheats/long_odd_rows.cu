// number: 22
// name: wrong for long rows of odd length only, where the plan has a kernel of its own
// problem: softmax
// expect: mismatch, hazard misaligned
//
// Short rows of any length and long rows of a multiple of four are done properly. Small shapes never make the
// plan take its last branch with an odd length.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty_like(x)
    if cols <= 3000:
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
    normalize(x + start, y + start, cols, cols / 4 * 4);
}
