// number: 32
// name: right on the sampled prefix only
// problem: residual
// expect: mismatch
//
// The first 1024 elements are what a hasty judge prints.
/* plan
def plan(x):
    n = x.numel
    y = empty_like(x)
    launch("residual", grid=cdiv(n, 128), block=128, args=[x, y, n])
    return y
*/
__global__ void residual(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = i < 1024 ? x[i] + 1e-3f * tanhf(x[i]) : x[i];
}
