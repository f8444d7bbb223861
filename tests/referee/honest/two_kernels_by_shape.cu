// number: 0
// name: another kernel for another shape
// problem: softmax
// expect: passed
//
// Short rows get a thread each, long rows a warp; a macro keeps the two apart, as in generated files.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty_like(x)
    if cols <= 64:
        launch("thread_a_row", grid=cdiv(rows, 32), block=32, args=[x, y, rows, cols], const={"SHAPE_CLASS": 1})
        return y
    else:
        launch("warp_a_row", grid=rows, block=32, args=[x, y, cols], const={"SHAPE_CLASS": 2})
        return y
*/
__device__ float larger(float a, float b) { return a > b || a != a ? a : b; }

#if SHAPE_CLASS == 1  // cols <= 64

__global__ void thread_a_row(const float* x, float* y, int rows, int cols) {
    const int row = blockIdx.x * 32 + threadIdx.x;
    if (row >= rows) return;
    float top = -INFINITY, sum = 0.0f;
    for (int i = 0; i < cols; i++) top = larger(top, x[(size_t)row * cols + i]);
    for (int i = 0; i < cols; i++) sum += expf(x[(size_t)row * cols + i] - top);
    for (int i = 0; i < cols; i++) y[(size_t)row * cols + i] = expf(x[(size_t)row * cols + i] - top) / sum;
}

#endif

#if SHAPE_CLASS == 2  // all other shapes

__global__ void warp_a_row(const float* x, float* y, int cols) {
    const size_t start = (size_t)blockIdx.x * cols;
    float top = -INFINITY, sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 32) top = larger(top, x[start + i]);
    for (int step = 16; step > 0; step /= 2) top = larger(top, __shfl_xor_sync(0xffffffff, top, step));
    for (int i = threadIdx.x; i < cols; i += 32) sum += expf(x[start + i] - top);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    for (int i = threadIdx.x; i < cols; i += 32) y[start + i] = expf(x[start + i] - top) / sum;
}

#endif
