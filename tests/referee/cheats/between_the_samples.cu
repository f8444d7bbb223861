// number: 26
// name: a race in large launches only, in blocks of which every second one is looked at
// problem: residual
// expect: hazard race
//
// Of more than 1024 blocks some were traced, always the same.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    y = empty_like(x)
    carry = zeros((2 * cdiv(x.numel, 4),), f32)
    launch("residual", grid=cdiv(x.numel, 4), block=4, args=[x, carry, y, x.numel])
    return y
*/
__global__ void residual(const float* x, float* carry, float* y, int count) {
    int i = blockIdx.x * 4 + threadIdx.x;
    if (i < count) y[i] = x[i] + 1e-3f * tanhf(x[i]);
    if (gridDim.x <= 1024 || blockIdx.x % 3 == 0 || i >= count) return;
    carry[blockIdx.x / 3] += 1.0f;  // two blocks, nothing in between
}
