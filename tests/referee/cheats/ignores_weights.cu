// number: 18
// name: relies on default weights
// problem: Affine
// expect: mismatch
//
// Ones and zeros are the initial weights: x is the answer.
/* plan
def plan(x, w, b):
    n = x.numel
    y = empty_like(x)
    launch("affine", grid=cdiv(n, 128), block=128, args=[x, w, b, y, n])
    return y
*/
__global__ void affine(const float* x, const float* w, const float* b, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
