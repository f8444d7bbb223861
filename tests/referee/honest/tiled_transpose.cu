// number: 0
// name: a transpose through shared memory
// problem: transposed
// expect: passed
//
// Tiles with a column of padding against bank conflicts.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty((cols, rows), f32)
    launch("transposed", grid=(cdiv(cols, 32), cdiv(rows, 32)), block=(32, 8), args=[x, y, rows, cols])
    return y
*/
__global__ void transposed(const float* x, float* y, int rows, int cols) {
    __shared__ float tile[32][33];
    int column = blockIdx.x * 32 + threadIdx.x;
    for (int j = threadIdx.y; j < 32; j += 8) {
        int row = blockIdx.y * 32 + j;
        if (row < rows && column < cols) tile[j][threadIdx.x] = 2.0f * x[(size_t)row * cols + column];
    }
    __syncthreads();
    int row = blockIdx.y * 32 + threadIdx.x;
    for (int j = threadIdx.y; j < 32; j += 8) {
        int into = blockIdx.x * 32 + j;
        if (row < rows && into < cols) y[(size_t)into * rows + row] = tile[threadIdx.x][j];
    }
}
