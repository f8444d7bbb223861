// number: 26
// name: adds to a workspace that nobody cleared
// problem: rowsum
// expect: hazard uninitialised
//
// Fresh GPU memory is often zero.
/* plan
def plan(x):
    rows, cols = x.shape
    part = empty((rows,), f32)
    y = empty((rows,), f32)
    launch("add", grid=rows, block=32, args=[x, part, cols])
    launch("take", grid=rows, block=1, args=[part, y])
    return y
*/
__global__ void add(const float* x, float* part, int cols) {
    for (int i = threadIdx.x; i < cols; i += 32) atomicAdd(&part[blockIdx.x], x[(size_t)blockIdx.x * cols + i]);
}
__global__ void take(const float* part, float* y) { y[blockIdx.x] = part[blockIdx.x]; }
