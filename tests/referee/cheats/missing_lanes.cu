// number: 26
// name: names lanes that are not there
// problem: rowsum
// expect: hazard warp_sync, timed_out
//
// The mask names 32 lanes, 16 arrive.
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty((rows,), f32)
    launch("rowsum", grid=rows, block=32, args=[x, y, cols])
    return y
*/
__global__ void rowsum(const float* x, float* y, int cols) {
    float sum = 0.0f;
    for (int i = threadIdx.x % 16; i < cols; i += 16) sum += x[(size_t)blockIdx.x * cols + i];
    if (threadIdx.x < 16)
        for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    __syncthreads();
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
