// number: 0
// name: a gate with a batch
// problem: gate
// expect: passed
//
// Batches in the second grid axis.
/* plan
def plan(x, g):
    require(x.is_contiguous and g.is_contiguous, "contiguous only")
    batch, rows, cols = x.shape
    y = empty_like(x)
    launch("gate", grid=(cdiv(rows * cols, 64), batch), block=64, args=[x, g, y, rows * cols])
    return y
*/
__global__ void gate(const float* x, const float* g, float* y, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= n) return;
    size_t at = (size_t)blockIdx.y * n + i;
    y[at] = x[at] / (1.0f + expf(-g[at]));
}
