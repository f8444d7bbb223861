// number: 31
// name: first call does the work, later calls replay it
// problem: rowsum
// expect: mismatch, suspect
//
// Keeps the first result in a __device__ array and returns it ever after.
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty((rows,), f32)
    launch("rowsum", grid=rows, block=1, args=[x, y, cols])
    return y
*/
__device__ float kept[4096];
__device__ bool known[4096];
__global__ void rowsum(const float* x, float* y, int cols) {
    int row = blockIdx.x;
    if (row < 4096 && known[row]) {
        y[row] = kept[row];
        return;
    }
    float sum = 0.0f;
    for (int i = 0; i < cols; i++) sum += x[(size_t)row * cols + i];
    y[row] = sum;
    if (row < 4096) {
        kept[row] = sum;
        known[row] = true;
    }
}
