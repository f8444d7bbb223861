// number: 0
// name: a workspace between two kernels
// problem: softmax
// expect: passed
//
// The first kernel leaves each row's maximum and sum for the second.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    facts = empty((rows, 2), f32)
    y = empty_like(x)
    launch("row_facts", grid=rows, block=1, args=[x, facts, cols])
    launch("normalise", grid=rows, block=64, args=[x, facts, y, cols])
    return y
*/
__global__ void row_facts(const float* x, float* facts, int cols) {
    const float* row = x + (size_t)blockIdx.x * cols;
    float top = row[0], sum = 0.0f;
    for (int i = 1; i < cols; i++) top = row[i] > top || row[i] != row[i] ? row[i] : top;
    for (int i = 0; i < cols; i++) sum += expf(row[i] - top);
    facts[2 * blockIdx.x] = top;
    facts[2 * blockIdx.x + 1] = sum;
}
__global__ void normalise(const float* x, const float* facts, float* y, int cols) {
    float top = facts[2 * blockIdx.x], sum = facts[2 * blockIdx.x + 1];
    for (int i = threadIdx.x; i < cols; i += 64) {
        size_t at = (size_t)blockIdx.x * cols + i;
        y[at] = expf(x[at] - top) / sum;
    }
}
