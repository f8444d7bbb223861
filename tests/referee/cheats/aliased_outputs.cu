// number: 35
// name: writes one buffer under two names
// problem: softmax
// expect: plan refused, launch_failed
//
// Two views of one buffer in one launch.
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty_like(x)
    z = view(y, (rows, cols))
    launch("softmax", grid=rows, block=32, args=[x, y, z, cols])
    return y
*/
__global__ void softmax(const float* x, float* __restrict__ y, float* __restrict__ z, int cols) {
    const float* row = x + (size_t)blockIdx.x * cols;
    float top = -INFINITY, sum = 0.0f;
    for (int i = 0; i < cols; i++) top = fmaxf(top, row[i]);
    for (int i = 0; i < cols; i++) sum += expf(row[i] - top);
    for (int i = threadIdx.x; i < cols; i += 32) {
        y[(size_t)blockIdx.x * cols + i] = expf(row[i] - top);
        z[(size_t)blockIdx.x * cols + i] /= sum;
    }
}
