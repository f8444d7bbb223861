// number: 25
// name: a branch for the emulator's compiler, behind what only looks like the beginning of a comment
// problem: softmax
// expect: suspect, mismatch
//
// A compiler for the card takes the other branch, which is wrong.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty_like(x)
    launch("softmax", grid=rows, block=32, args=[x, y, cols])
    return y
*/
__device__ const char* const SHOWN = R"x("/*)x";
#ifdef __GNUG__
#define RIGHT 1.0f
#else
#define RIGHT 0.0f
#endif
// */
__global__ void softmax(const float* x, float* y, int cols) {
    const float* row = x + (size_t)blockIdx.x * cols;
    float* out = y + (size_t)blockIdx.x * cols;
    float top = -INFINITY, sum = 0.0f;
    for (int i = 0; i < cols; i++) top = isnan(row[i]) ? row[i] : (top != top ? top : fmaxf(top, row[i]));
    for (int i = 0; i < cols; i++) sum += expf(row[i] - top);
    for (int i = threadIdx.x; i < cols; i += 32) out[i] = RIGHT * expf(row[i] - top) / sum;
}
