// number: 0
// name: indexes with the strides that the input has
// problem: rowsum
// expect: passed
//
// Asks nothing of the layout, and needs nothing: a transposed input is as good.
/* plan
def plan(x):
    rows, cols = x.shape
    down, across = x.strides
    y = empty((rows,), f32)
    launch("rowsum", grid=rows, block=32, args=[x, y, cols, down, across])
    return y
*/
__global__ void rowsum(const float* x, float* y, int cols, int down, int across) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 32) sum += x[(size_t)blockIdx.x * down + (size_t)i * across];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
