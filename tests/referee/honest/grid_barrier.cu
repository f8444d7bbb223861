// number: 0
// name: a barrier of all blocks, launched together
// problem: rowsum
// expect: passed
//
// cooperative=True has the launch refused where the blocks are not on the card at the same time.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    parts = empty((4, rows), f32)
    y = empty((rows,), f32)
    launch("rowsum", grid=4, block=32, args=[x, parts, y, rows, cols], cooperative=True)
    return y
*/
#include <cooperative_groups.h>

__global__ void rowsum(const float* x, float* parts, float* y, int rows, int cols) {
    for (int row = 0; row < rows; ++row) {
        float sum = 0.0f;
        for (int i = blockIdx.x * 32 + threadIdx.x; i < cols; i += 128) sum += x[(size_t)row * cols + i];
        for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_down_sync(0xffffffff, sum, lanes);
        if (threadIdx.x == 0) parts[blockIdx.x * rows + row] = sum;
    }
    cooperative_groups::this_grid().sync();
    for (int row = blockIdx.x * 32 + threadIdx.x; row < rows; row += 128) {
        float sum = 0.0f;
        for (int block = 0; block < 4; ++block) sum += parts[block * rows + row];
        y[row] = sum;
    }
}
