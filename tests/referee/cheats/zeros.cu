// number: 17
// name: zeros inside an absolute tolerance
// problem: softmax
// expect: mismatch
//
// The softmax of a long row is about 1e-4 everywhere: inside atol=1e-3.
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty_like(x)
    launch("softmax", grid=rows, block=32, args=[x, y, cols])
    return y
*/
__global__ void softmax(const float* x, float* y, int cols) {
    const float* row = x + (size_t)blockIdx.x * cols;
    float* out = y + (size_t)blockIdx.x * cols;
    float top = -INFINITY, sum = 0.0f;
    for (int i = 0; i < cols; i++) top = isnan(row[i]) ? row[i] : (top != top ? top : fmaxf(top, row[i]));
    for (int i = 0; i < cols; i++) sum += expf(row[i] - top);
    for (int i = threadIdx.x; i < cols; i += 32) out[i] = 0.0f;
}
