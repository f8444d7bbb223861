// number: 26
// name: a barrier that only the adding threads take
// problem: rowsum
// expect: hazard barrier
//
// The others do not wait: they go on and write what the sum is by then, all of them to one place.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty((rows,), f32)
    launch("rowsum", grid=rows, block=128, args=[x, y, cols])
    return y
*/
__global__ void rowsum(const float* x, float* y, int cols) {
    __shared__ float part[128];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 128) sum += x[(size_t)blockIdx.x * cols + i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            part[threadIdx.x] += part[threadIdx.x + half];
            __syncthreads();
        }
    }
    y[blockIdx.x] = part[0];
}
