// number: 22
// name: hard-coded shape
// problem: softmax
// expect: hazard out_of_bounds, mismatch
//
// Every row has 128 columns.
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty_like(x)
    launch("softmax", grid=rows, block=32, args=[x, y, cols])
    return y
*/
__global__ void softmax(const float* x, float* y, int) {
    const float* row = x + (size_t)blockIdx.x * 128;
    float* out = y + (size_t)blockIdx.x * 128;
    float top = -INFINITY, sum = 0.0f;
    for (int i = 0; i < 128; i++) top = fmaxf(top, row[i]);
    for (int i = 0; i < 128; i++) sum += expf(row[i] - top);
    for (int i = threadIdx.x; i < 128; i += 32) out[i] = expf(row[i] - top) / sum;
}
