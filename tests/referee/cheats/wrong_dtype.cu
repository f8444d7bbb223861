// number: 37
// name: half the bytes by another dtype
// problem: softmax
// expect: mismatch
//
// float16 out where float32 was asked for.
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty((rows, cols), f16)
    launch("softmax", grid=rows, block=32, args=[x, y, cols])
    return y
*/
#include <cuda_fp16.h>
__global__ void softmax(const float* x, __half* y, int cols) {
    const float* row = x + (size_t)blockIdx.x * cols;
    float top = -INFINITY, sum = 0.0f;
    for (int i = 0; i < cols; i++) top = fmaxf(top, row[i]);
    for (int i = 0; i < cols; i++) sum += expf(row[i] - top);
    for (int i = threadIdx.x; i < cols; i += 32)
        y[(size_t)blockIdx.x * cols + i] = __float2half(expf(row[i] - top) / sum);
}
