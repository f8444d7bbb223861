// number: 26
// name: warp-synchronous code without __syncwarp
// problem: rowsum
// expect: hazard race
//
// Since Volta the lanes of a warp need not march in step.
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty((rows,), f32)
    launch("rowsum", grid=rows, block=32, args=[x, y, cols])
    return y
*/
__global__ void rowsum(const float* x, float* y, int cols) {
    __shared__ float part[32];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 32) sum += x[(size_t)blockIdx.x * cols + i];
    part[threadIdx.x] = sum;
    for (int half = 16; half > 0; half /= 2)
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}
