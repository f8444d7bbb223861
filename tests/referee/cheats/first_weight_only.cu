// number: 18
// name: takes all weights to be equal
// problem: Affine
// expect: mismatch
//
// One weight for all columns.
/* plan
def plan(x, w, b):
    n = x.numel
    y = empty_like(x)
    launch("affine", grid=cdiv(n, 128), block=128, args=[x, w, b, y, n])
    return y
*/
__global__ void affine(const float* x, const float* w, const float* b, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * w[0] + b[0];
}
