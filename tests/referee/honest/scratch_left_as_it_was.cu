// number: 0
// name: scratch in __device__ arrays, which the last block makes zero again
// problem: rowsum
// expect: passed
//
// Partial sums outside the plan's tensors: published behind a fence, and left as the next launch wants them.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty((rows,), f32)
    launch("rowsum", grid=(4, rows), block=64, args=[x, y, cols])
    return y
*/
__device__ float part[4096][4];
__device__ unsigned int arrived[4096];

__global__ void rowsum(const float* x, float* y, int cols) {
    __shared__ float warps[2];
    int row = blockIdx.y;
    float sum = 0.0f;
    for (int i = blockIdx.x * 64 + threadIdx.x; i < cols; i += 256) sum += x[(size_t)row * cols + i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x > 0) return;
    part[row][blockIdx.x] = warps[0] + warps[1];
    __threadfence();
    if (atomicInc(&arrived[row], 3) < 3) return;
    __threadfence();
    float all = 0.0f;
    for (int i = 0; i < 4; i++) {
        all += __ldcg(&part[row][i]);
        part[row][i] = 0.0f;
    }
    y[row] = all;
}
