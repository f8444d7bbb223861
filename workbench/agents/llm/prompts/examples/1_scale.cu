/* plan
def plan(x):
    require(x.dtype == f32 and x.is_contiguous, "contiguous float32 only")
    y = empty_like(x)
    if x.numel > 0:
        launch("scale", grid=cdiv(x.numel, 256), block=256, args=[x, y, x.numel, 2.0])
    return y
*/
// One thread an element: neighbouring threads touch neighbouring addresses (coalesced).
__global__ void scale(const float* __restrict__ x, float* __restrict__ y, long long count, float factor) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) y[i] = x[i] * factor;
}
