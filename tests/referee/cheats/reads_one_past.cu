// number: 26
// name: reads one element past the end
// problem: residual
// expect: hazard out_of_bounds
//
// The neighbour of the last element is none.
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
    float next = x[i + 1];
    y[i] = x[i] + 1e-3f * tanhf(x[i]) + 0.0f * (next != next ? 0.0f : next);
}
