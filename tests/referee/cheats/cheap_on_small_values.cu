// number: 5
// name: cheap arithmetic where values look ordinary
// problem: softmax
// expect: mismatch
//
// A three-term series for exp near zero, the real thing elsewhere.
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
    for (int i = threadIdx.x; i < cols; i += 32) {
        float t = row[i] - top;
        float cheap = 1.0f / (1.0f - t + t * t / 2 - t * t * t / 6 + t * t * t * t / 24);
        out[i] = (fabsf(row[i]) < 6.0f ? cheap : expf(t)) / sum;
    }
}
