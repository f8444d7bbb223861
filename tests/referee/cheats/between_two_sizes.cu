// number: 22
// name: wrong between two lengths that its text compares with
// problem: softmax
// expect: mismatch
//
// The plan has one branch; the kernel itself looks at the length. Neither a small nor the declared shape lies
// between the two numbers.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
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
    const int counted = cols > 2600 && cols < 3900 ? cols - 1 : cols;
    for (int i = 0; i < counted; i++) sum += expf(row[i] - top);
    for (int i = threadIdx.x; i < cols; i += 32) out[i] = expf(row[i] - top) / sum;
}
