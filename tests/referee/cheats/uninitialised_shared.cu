// number: 26
// name: reads shared memory that nobody wrote
// problem: rowsum
// expect: hazard uninitialised
//
// The other half of the array happens to be zero after most kernels.
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty((rows,), f32)
    launch("rowsum", grid=rows, block=128, args=[x, y, cols])
    return y
*/
__global__ void rowsum(const float* x, float* y, int cols) {
    __shared__ float part[256];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 128) sum += x[(size_t)blockIdx.x * cols + i];
    part[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        float all = 0.0f;
        for (int i = 0; i < 256; i++) all += part[i] == part[i] ? part[i] : 0.0f;
        y[blockIdx.x] = all;
    }
}
