// number: 0
// name: four blocks that read one another's shared memory
// problem: rowsum
// expect: passed
//
// A row is shared by a cluster; its first block adds up what the others hold.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty((rows,), f32)
    launch("rowsum", grid=(4, rows), block=64, args=[x, y, cols], cluster=4)
    return y
*/
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void rowsum(const float* x, float* y, int cols) {
    cg::cluster_group cluster = cg::this_cluster();
    __shared__ float mine[64];
    float sum = 0.0f;
    for (int i = cluster.thread_rank(); i < cols; i += cluster.num_threads()) {
        sum += x[(size_t)blockIdx.y * cols + i];
    }
    mine[threadIdx.x] = sum;
    cluster.sync();  // written
    if (cluster.block_rank() == 0 && threadIdx.x == 0) {
        float total = 0.0f;
        for (unsigned block = 0; block < 4; ++block) {
            const float* theirs = cluster.map_shared_rank(mine, block);
            float part = 0.0f;
            for (int i = 0; i < 64; ++i) part += theirs[i];
            total += part;
        }
        y[blockIdx.y] = total;
    }
    cluster.sync();  // read
}
