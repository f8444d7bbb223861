// number: 5
// name: recognises inputs of zeros and ones
// problem: residual
// expect: mismatch
//
// Exact everywhere but where every value it sees is 0 or 1.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    n = x.numel
    y = empty_like(x)
    launch("residual", grid=cdiv(n, 128), block=128, args=[x, y, n])
    return y
*/
__global__ void residual(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] == 1.0f ? 1.0f : x[i] + 1e-3f * tanhf(x[i]);
}
