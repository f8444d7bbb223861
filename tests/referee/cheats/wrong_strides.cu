// number: 37
// name: returns the transpose as a strided view
// problem: transposed
// expect: mismatch
//
// Half of the work: the copy into row-major order is left to whoever comes next.
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty((rows, cols), f32)
    launch("twice", grid=cdiv(x.numel, 128), block=128, args=[x, y, x.numel])
    return view(y, (cols, rows), (1, cols))
*/
__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
