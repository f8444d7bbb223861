// number: 26
// name: a barrier only where the clock stands still, as on an emulator that has none
// problem: rowsum
// expect: hazard race
//
// Whoever looks for races must not be told from a card by it: on the card the barrier is left out.
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty((rows,), f32)
    launch("rowsum", grid=rows, block=64, args=[x, y, cols])
    return y
*/
__global__ void rowsum(const float* x, float* y, int cols) {
    __shared__ float part[2];
    const long long began = clock64();
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 64) sum += x[(size_t)blockIdx.x * cols + i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    if (clock64() == began) __syncthreads();
    if (threadIdx.x == 0) y[blockIdx.x] = part[0] + part[1];
}
