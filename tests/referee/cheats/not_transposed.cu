// number: 35
// name: output in the input's order
// problem: transposed
// expect: mismatch
//
// The right numbers in the wrong places.
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty((cols, rows), f32)
    launch("transposed", grid=cdiv(x.numel, 128), block=128, args=[x, y, rows, cols])
    return y
*/
__global__ void transposed(const float* x, float* y, int rows, int cols) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= rows * cols) return;
    y[i] = 2.0f * x[i];
}
