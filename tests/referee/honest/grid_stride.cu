// number: 0
// name: a grid-stride loop
// problem: residual
// expect: passed
//
// As many blocks as the card has multiprocessors.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    n = x.numel
    y = empty_like(x)
    launch("residual", grid=min(cdiv(n, 128), target.sm_count), block=128, args=[x, y, n])
    return y
*/
__global__ void residual(const float* x, float* y, int n) {
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) y[i] = x[i] + 1e-3f * tanhf(x[i]);
}
