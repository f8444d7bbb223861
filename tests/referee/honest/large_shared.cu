// number: 0
// name: 64 KB of dynamic shared memory
// problem: rowsum
// expect: passed
//
// More than the 48 KB that need no permission.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty((rows,), f32)
    launch("rowsum", grid=rows, block=128, args=[x, y, cols], smem=65536)
    return y
*/
extern __shared__ float row[];
__global__ void rowsum(const float* x, float* y, int cols) {
    float all = 0.0f;
    for (int start = 0; start < cols; start += 16384) {
        int count = min(cols - start, 16384);
        for (int i = threadIdx.x; i < count; i += 128) row[i] = x[(size_t)blockIdx.x * cols + start + i];
        __syncthreads();
        if (threadIdx.x == 0)
            for (int i = 0; i < count; i++) all += row[i];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = all;
}
