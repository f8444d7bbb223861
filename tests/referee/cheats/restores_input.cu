// number: 16
// name: writes to its input and puts it back
// problem: residual
// expect: hazard input_written
//
// The input is scratch memory between two moments when anybody looks.
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
    float kept = x[i];
    const_cast<float*>(x)[i] = tanhf(kept);
    y[i] = kept + 1e-3f * x[i];
    const_cast<float*>(x)[i] = kept;
}
