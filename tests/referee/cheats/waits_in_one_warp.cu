// number: 26
// name: one thread waits for the other block, and the others read without waiting for it
// problem: rowsum
// expect: hazard race
//
// The barrier behind the wait is left out: the second warp may read before the first has seen the flag.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    part = empty((rows, 64), f32)
    state = zeros((rows, 2), i32)
    y = zeros((rows,), f32)
    launch("rowsum", grid=(2, rows), block=64, args=[x, part, state, y, cols])
    return y
*/
__global__ void rowsum(const float* x, float* part, int* state, float* y, int cols) {
    __shared__ float own[64];
    __shared__ int ticket;
    int row = blockIdx.y;
    if (threadIdx.x == 0) ticket = atomicAdd(&state[2 * row], 1);
    __syncthreads();
    float sum = 0.0f;
    for (int i = ticket * 64 + threadIdx.x; i < cols; i += 128) sum += x[(size_t)row * cols + i];
    if (ticket == 0) {
        part[row * 64 + threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicExch(&state[2 * row + 1], 1);
        }
        return;
    }
    if (threadIdx.x == 0) {
        while (atomicAdd(&state[2 * row + 1], 0) == 0) {}
        __threadfence();
    }
    own[threadIdx.x] = sum + __ldcg(&part[row * 64 + threadIdx.x]);  // no barrier before it
    __syncthreads();
    if (threadIdx.x > 0) return;
    float all = 0.0f;
    for (int i = 0; i < 64; i++) all += own[i];
    y[row] = all;
}
