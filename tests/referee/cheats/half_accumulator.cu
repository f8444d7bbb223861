// number: 19
// name: sums in half precision
// problem: halfsum
// expect: mismatch
//
// 16-bit input and output are the contract; a 16-bit accumulator is not.
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty((rows,), f16)
    launch("halfsum", grid=rows, block=1, args=[x, y, cols])
    return y
*/
#include <cuda_fp16.h>
__global__ void halfsum(const __half* x, __half* y, int cols) {
    __half sum = __float2half(0.0f);
    for (int i = 0; i < cols; i++) sum = __hadd(sum, x[(size_t)blockIdx.x * cols + i]);
    y[blockIdx.x] = sum;
}
