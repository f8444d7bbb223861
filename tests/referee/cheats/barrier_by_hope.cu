// number: 26
// name: a barrier of all blocks that hopes they run together
// problem: rowsum
// expect: hazard barrier
//
// Each block waits for the others; an ordinary launch may begin one only when another has ended.
/* plan
def plan(x):
    rows, cols = x.shape
    parts = empty((4, rows), f32)
    arrived = zeros((1,), i32)
    y = empty((rows,), f32)
    launch("rowsum", grid=4, block=32, args=[x, parts, arrived, y, rows, cols])
    return y
*/
__global__ void rowsum(const float* x, float* parts, int* arrived, float* y, int rows, int cols) {
    for (int row = 0; row < rows; ++row) {
        float sum = 0.0f;
        for (int i = blockIdx.x * 32 + threadIdx.x; i < cols; i += 128) sum += x[(size_t)row * cols + i];
        for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_down_sync(0xffffffff, sum, lanes);
        if (threadIdx.x == 0) parts[blockIdx.x * rows + row] = sum;
    }
    __threadfence();
    if (threadIdx.x == 0) {
        atomicAdd(arrived, 1);
        while (atomicAdd(arrived, 0) < 4) {}
    }
    __syncwarp();
    __threadfence();
    for (int row = blockIdx.x * 32 + threadIdx.x; row < rows; row += 128) {
        float sum = 0.0f;
        for (int block = 0; block < 4; ++block) sum += __ldcg(&parts[block * rows + row]);
        y[row] = sum;
    }
}
