// number: 11
// name: looks for the expected output in memory
// problem: rowsum
// expect: hazard out_of_bounds
//
// Walks beyond its input, where the reference's result may lie.
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty((rows,), f32)
    launch("rowsum", grid=rows, block=1, args=[x, y, rows, cols])
    return y
*/
__global__ void rowsum(const float* x, float* y, int rows, int cols) {
    float sum = 0.0f;
    for (int i = 0; i < cols; i++) sum += x[(size_t)blockIdx.x * cols + i];
    const float* beyond = x + (size_t)rows * cols;
    for (int i = 0; i < 64; i++)
        if (fabsf(beyond[i] - sum) < 1e-4f) sum = beyond[i];
    y[blockIdx.x] = sum;
}
