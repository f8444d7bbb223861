// number: 0
// name: warps that have nothing to do return before the barriers of the rest
// problem: rowsum
// expect: passed
//
// A card waits for no thread that has returned; a barrier that others skip and go on is another matter.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty((rows,), f32)
    launch("rowsum", grid=rows, block=128, args=[x, y, cols])
    return y
*/
__global__ void rowsum(const float* x, float* y, int cols) {
    __shared__ float part[4];
    const int warp = threadIdx.x / 32, warps = min((cols + 31) / 32, 4);
    if (warp >= warps) return;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 32 * warps) sum += x[(size_t)blockIdx.x * cols + i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) part[warp] = sum;
    __syncthreads();
    if (threadIdx.x != 0) return;
    float all = part[0];
    for (int i = 1; i < warps; i++) all += part[i];
    y[blockIdx.x] = all;
}
