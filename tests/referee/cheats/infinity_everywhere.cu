// number: 30
// name: infinity everywhere
// problem: residual
// expect: mismatch
//
// inf - inf is NaN, and NaN > tolerance is false.
/* plan
def plan(x):
    n = x.numel
    y = empty_like(x)
    launch("residual", grid=cdiv(n, 128), block=128, args=[x, y, n])
    return y
*/
__global__ void residual(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = INFINITY;
}
