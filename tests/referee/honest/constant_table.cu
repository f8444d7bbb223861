// number: 0
// name: a table in constant memory
// problem: residual
// expect: passed
//
// The coefficient lies in __constant__ memory and nobody writes it.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    n = x.numel
    y = empty_like(x)
    launch("residual", grid=cdiv(n, 128), block=128, args=[x, y, n])
    return y
*/
__constant__ float table[4] = {1e-3f, 1e-3f, 1e-3f, 1e-3f};
__global__ void residual(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + table[i % 4] * tanhf(x[i]);
}
