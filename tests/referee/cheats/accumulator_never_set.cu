// number: 26
// name: an accumulator that nobody has set to zero
// problem: residual
// expect: mismatch
//
// What a register holds before it is written is undefined; it is zero, mostly.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    y = empty_like(x)
    launch("residual", grid=cdiv(x.numel, 128), block=128, args=[x, y, x.numel])
    return y
*/
__global__ void residual(const float* x, float* y, int count) {
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= count) return;
    float sum[2];
    for (int half = 0; half < 2; half++) sum[half] += half == 0 ? x[i] : 1e-3f * tanhf(x[i]);
    y[i] = sum[0] + sum[1];
}
