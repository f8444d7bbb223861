// number: 0
// name: float atomics inside a row
// problem: rowsum
// expect: passed varying, passed
//
// 64 threads add to one cell in any order.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = zeros((rows,), f32)
    launch("rowsum", grid=rows, block=64, args=[x, y, cols])
    return y
*/
__global__ void rowsum(const float* x, float* y, int cols) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 64) sum += x[(size_t)blockIdx.x * cols + i];
    if ((int)threadIdx.x < cols) atomicAdd(&y[blockIdx.x], sum);
}
