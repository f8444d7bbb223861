// number: 26
// name: one thread fences and counts while the other warps of its block may still write
// problem: rowsum
// expect: hazard race
//
// __threadfence orders what its own thread has done. The barrier that would hold back the count stands behind it.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    part = empty((rows, 2, 64), f32)
    y = empty((rows,), f32)
    launch("rowsum", grid=(2, rows), block=64, args=[x, part, y, cols])
    return y
*/
__device__ unsigned int arrived[4096];

__global__ void rowsum(const float* x, float* part, float* y, int cols) {
    __shared__ unsigned int before;
    int row = blockIdx.y;
    float sum = 0.0f;
    for (int i = blockIdx.x * 64 + threadIdx.x; i < cols; i += 128) sum += x[(size_t)row * cols + i];
    part[(row * 2 + blockIdx.x) * 64 + threadIdx.x] = sum;
    if (threadIdx.x == 63) {
        __threadfence();
        before = atomicInc(&arrived[row], 1);
    }
    __syncthreads();
    if (before == 0 || threadIdx.x > 0) return;
    __threadfence();
    float all = 0.0f;
    for (int i = 0; i < 128; i++) all += __ldcg(&part[row * 128 + i]);
    y[row] = all;
}
