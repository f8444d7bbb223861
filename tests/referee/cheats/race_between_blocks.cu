// number: 26
// name: blocks read what other blocks write
// problem: rowsum
// expect: hazard race, hazard uninitialised
//
// Nothing orders two blocks of one launch.
/* plan
def plan(x):
    rows, cols = x.shape
    part = zeros((rows * 2,), f32)
    y = empty((rows,), f32)
    launch("rowsum", grid=rows * 2, block=1, args=[x, part, y, cols])
    return y
*/
__global__ void rowsum(const float* x, float* part, float* y, int cols) {
    int row = blockIdx.x / 2, half = blockIdx.x % 2, middle = cols / 2;
    float sum = 0.0f;
    for (int i = half ? middle : 0; i < (half ? cols : middle); i++) sum += x[(size_t)row * cols + i];
    part[blockIdx.x] = sum;
    if (half) y[row] = part[blockIdx.x - 1] + sum;
}
