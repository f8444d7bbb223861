// number: 0
// name: 16-bit io, fp32 accumulate
// problem: halfsum
// expect: passed
//
// What the contract asks for.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty((rows,), f16)
    launch("halfsum", grid=rows, block=1, args=[x, y, cols])
    return y
*/
#include <cuda_fp16.h>
__global__ void halfsum(const __half* x, __half* y, int cols) {
    float sum = 0.0f;
    for (int i = 0; i < cols; i++) sum += __half2float(x[(size_t)blockIdx.x * cols + i]);
    y[blockIdx.x] = __float2half(sum);
}
