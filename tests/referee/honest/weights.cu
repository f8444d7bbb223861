// number: 0
// name: an affine map that reads its weights
// problem: Affine
// expect: passed
//
// Weights and bias are drawn afresh for every check.
/* plan
def plan(x, w, b):
    require(x.is_contiguous and w.is_contiguous and b.is_contiguous, "contiguous only")
    n = x.numel
    y = empty_like(x)
    launch("affine", grid=cdiv(n, 128), block=128, args=[x, w, b, y, n])
    return y
*/
__global__ void affine(const float* x, const float* w, const float* b, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * w[i % 64] + b[i % 64];
}
