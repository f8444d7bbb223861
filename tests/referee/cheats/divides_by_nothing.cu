// number: 5
// name: divides by the length of a row that has none
// problem: normalised
// expect: mismatch
//
// Leaves out the least length, which only rows of zeros need: padding, for instance.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty_like(x)
    launch("normalised", grid=rows, block=32, args=[x, y, cols])
    return y
*/
__global__ void normalised(const float* x, float* y, int cols) {
    const float* row = x + (size_t)blockIdx.x * cols;
    float* out = y + (size_t)blockIdx.x * cols;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 32) sum += row[i] * row[i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    for (int i = threadIdx.x; i < cols; i += 32) out[i] = row[i] / sqrtf(sum);
}
