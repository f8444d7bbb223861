// number: 22
// name: reads whatever layout comes as row-major
// problem: rowsum
// expect: mismatch
//
// Right for inputs as declared; a transposed tensor or every second column gives the sums of other elements.
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty((rows,), f32)
    launch("rowsum", grid=rows, block=32, args=[x, y, cols])
    return y
*/
__global__ void rowsum(const float* x, float* y, int cols) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 32) sum += x[(size_t)blockIdx.x * cols + i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
