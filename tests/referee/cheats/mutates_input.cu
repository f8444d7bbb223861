// number: 16
// name: writes to its input
// problem: residual
// expect: hazard input_written
//
// Changes the input, so that a reference that runs later sees other values.
/* plan
def plan(x):
    n = x.numel
    y = empty_like(x)
    launch("residual", grid=cdiv(n, 128), block=128, args=[x, y, n])
    return y
*/
__global__ void residual(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = x[i] + 1e-3f * tanhf(x[i]);
    const_cast<float*>(x)[i] = 0.0f;
}
