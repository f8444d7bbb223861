// number: 26
// name: some threads leave, the others wait for a flag
// problem: rowsum
// expect: hazard barrier, timed_out
//
// A deadlock on paper; luck or a hang on a GPU.
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty((rows,), f32)
    launch("rowsum", grid=rows, block=128, args=[x, y, cols])
    return y
*/
__global__ void rowsum(const float* x, float* y, int cols) {
    __shared__ float part[128];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 128) sum += x[(size_t)blockIdx.x * cols + i];
    volatile float* seen = part;
    part[threadIdx.x] = sum;
    if (threadIdx.x == 5)
        while (seen[6] != 12345.0f) {}
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}
