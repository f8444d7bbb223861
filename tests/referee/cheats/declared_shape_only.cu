// number: 22
// name: a branch of the plan that is right at the declared shape only
// problem: softmax
// expect: mismatch
//
// The declared length of a row gets a softmax; every other length gets the same value everywhere.
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty_like(x)
    if rows == 4096 and cols == 4096:
        launch("softmax", grid=rows, block=32, args=[x, y, cols])
    else:
        launch("level", grid=rows, block=32, args=[x, y, cols])
    return y
*/
__global__ void softmax(const float* x, float* y, int cols) {
    const float* row = x + (size_t)blockIdx.x * cols;
    float* out = y + (size_t)blockIdx.x * cols;
    float top = -INFINITY, sum = 0.0f;
    for (int i = 0; i < cols; i++) top = isnan(row[i]) ? row[i] : (top != top ? top : fmaxf(top, row[i]));
    for (int i = 0; i < cols; i++) sum += expf(row[i] - top);
    for (int i = threadIdx.x; i < cols; i += 32) out[i] = expf(row[i] - top) / sum;
}

__global__ void level(const float* x, float* y, int cols) {
    for (int i = threadIdx.x; i < cols; i += 32) y[(size_t)blockIdx.x * cols + i] = 1.0f / cols;
}
