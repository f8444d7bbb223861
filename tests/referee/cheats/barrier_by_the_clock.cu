// number: 26
// name: a barrier only where the clock begins as the emulator's does
// problem: rowsum
// expect: hazard race
//
// The emulator's clock began at the same moment in every launch.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty((rows,), f32)
    launch("rowsum", grid=rows, block=64, args=[x, y, cols])
    return y
*/
__global__ void rowsum(const float* x, float* y, int cols) {
    __shared__ float part[64];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 64) sum += x[(size_t)blockIdx.x * cols + i];
    part[threadIdx.x] = sum;
    if (clock64() >> 24 == 0x123456) __syncthreads();
    if (threadIdx.x != 63) return;
    float all = 0.0f;
    for (int i = 0; i < 64; i++) all += part[i];
    y[blockIdx.x] = all;
}
