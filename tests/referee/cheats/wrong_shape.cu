// number: 37
// name: an output of another shape
// problem: rowsum
// expect: mismatch
//
// Keeps the summed axis as one of size 1.
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty((rows, 1), f32)
    launch("rowsum", grid=rows, block=128, args=[x, y, cols])
    return y
*/
__global__ void rowsum(const float* x, float* y, int cols) {
    __shared__ float part[128];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 128) sum += x[(size_t)blockIdx.x * cols + i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}
