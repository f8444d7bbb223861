// number: 31
// name: right for the first 10 calls
// problem: residual
// expect: suspect, mismatch
//
// The published version: a counter of calls, then nothing.
/* plan
def plan(x):
    n = x.numel
    y = empty_like(x)
    launch("residual", grid=cdiv(n, 128), block=128, args=[x, y, n])
    return y
*/
__device__ int calls;
__global__ void residual(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = atomicAdd(&calls, 0) < 10 ? x[i] + 1e-3f * tanhf(x[i]) : x[i];
    if (i == 0) atomicAdd(&calls, 1);
}
