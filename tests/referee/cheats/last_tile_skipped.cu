// number: 33
// name: skips the last tile
// problem: residual
// expect: mismatch
//
// n / 128 blocks instead of cdiv(n, 128).
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    n = x.numel
    y = empty_like(x)
    launch("residual", grid=max(n // 128, 1), block=128, args=[x, y, n])
    return y
*/
__global__ void residual(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + 1e-3f * tanhf(x[i]);
}
