// number: 26
// name: two lanes write their sums to one word
// problem: rowsum
// expect: hazard race
//
// One request of a warp, two values for each place: which of them stays, nobody promises.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty((rows,), f32)
    launch("rowsum", grid=rows, block=32, args=[x, y, cols])
    return y
*/
__global__ void rowsum(const float* x, float* y, int cols) {
    __shared__ float part[16];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 32) sum += x[(size_t)blockIdx.x * cols + i];
    part[threadIdx.x / 2] = sum;
    __syncthreads();
    float all = 0.0f;
    for (int i = 0; i < 16; i++) all += part[i];
    if (threadIdx.x == 0) y[blockIdx.x] = all;
}
