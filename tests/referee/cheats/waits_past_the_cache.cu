// number: 26
// name: the first block waits for the second with reads past the cache
// problem: rowsum
// expect: hazard barrier
//
// Nothing volatile is read, and it is right wherever both blocks fit at once; an ordinary launch promises nobody that.
/* plan
def plan(x):
    rows, cols = x.shape
    other = empty((rows,), f32)
    ready = zeros((1,), i32)
    y = empty((rows,), f32)
    launch("rowsum", grid=2, block=32, args=[x, other, ready, y, rows, cols])
    return y
*/
__global__ void rowsum(const float* x, float* other, int* ready, float* y, int rows, int cols) {
    const int half = cols / 2, begin = blockIdx.x == 0 ? 0 : half, end = blockIdx.x == 0 ? half : cols;
    for (int row = 0; row < rows; ++row) {
        float sum = 0.0f;
        for (int i = begin + threadIdx.x; i < end; i += 32) sum += x[(size_t)row * cols + i];
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (threadIdx.x == 0) (blockIdx.x == 0 ? y : other)[row] = sum;
    }
    if (threadIdx.x > 0) return;
    __threadfence();
    if (blockIdx.x == 1) {
        atomicExch(ready, 1);
        return;
    }
    while (__ldcg(ready) == 0) {}
    for (int row = 0; row < rows; ++row) y[row] += __ldcg(&other[row]);
}
