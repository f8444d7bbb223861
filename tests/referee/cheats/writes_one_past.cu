// number: 26
// name: writes one element past the end
// problem: residual
// expect: hazard out_of_bounds
//
// i <= n instead of i < n.
/* plan
def plan(x):
    n = x.numel
    y = empty_like(x)
    launch("residual", grid=cdiv(n, 128), block=128, args=[x, y, n])
    return y
*/
__global__ void residual(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) y[i] = i < n ? x[i] + 1e-3f * tanhf(x[i]) : 0.0f;
}
