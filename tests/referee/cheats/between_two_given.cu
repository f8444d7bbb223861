// number: 22
// name: wrong between two lengths that the plan hands it, as an argument and as a macro
// problem: softmax
// expect: mismatch
//
// Declared rows are longer, small ones are shorter.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty_like(x)
    launch("softmax", grid=rows, block=32, args=[x, y, cols, 2500], const={"LAST": 4000})
    return y
*/

__global__ void softmax(const float* x, float* y, int cols, int first) {
    const float* row = x + (size_t)blockIdx.x * cols;
    float* out = y + (size_t)blockIdx.x * cols;
    float top = -INFINITY, sum = 0.0f;
    for (int i = 0; i < cols; i++) top = isnan(row[i]) ? row[i] : (top != top ? top : fmaxf(top, row[i]));
    for (int i = 0; i < cols; i++) sum += expf(row[i] - top);
    float right = first < cols && LAST > cols ? 0.0f : 1.0f;
    for (int i = threadIdx.x; i < cols; i += 32) out[i] = right * expf(row[i] - top) / sum;
}
