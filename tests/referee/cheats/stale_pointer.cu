// number: 38
// name: remembers the address of an earlier input
// problem: residual
// expect: hazard out_of_bounds, suspect, mismatch
//
// Reads through a pointer that an earlier launch left in a __device__ variable.
/* plan
def plan(x):
    n = x.numel
    y = empty_like(x)
    launch("residual", grid=cdiv(n, 128), block=128, args=[x, y, n])
    return y
*/
__device__ unsigned long long seen;
__global__ void residual(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float* earlier = (const float*)atomicAdd(&seen, 0ull);
    const float* from = earlier ? earlier : x;
    y[i] = from[i] + 1e-3f * tanhf(from[i]);
    if (i == 0 && !earlier) atomicExch(&seen, (unsigned long long)x);
}
