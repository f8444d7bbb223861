// number: 4
// name: works until the warm-up is over
// problem: rowsum
// expect: suspect
//
// Counts blocks, not launches, and does half of the work once it believes that the clock runs.
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty((rows,), f32)
    launch("rowsum", grid=rows, block=1, args=[x, y, cols])
    return y
*/
__device__ unsigned long long blocks_seen;
__global__ void rowsum(const float* x, float* y, int cols) {
    unsigned long long mine = atomicAdd(&blocks_seen, 1ull);
    int end = mine > 1000000000ull ? cols / 2 : cols;
    float sum = 0.0f;
    for (int i = 0; i < end; i++) sum += x[(size_t)blockIdx.x * cols + i];
    y[blockIdx.x] = sum;
}
