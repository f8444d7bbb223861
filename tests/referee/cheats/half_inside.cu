// number: 19
// name: half precision inside an fp32 kernel
// problem: softmax
// expect: mismatch
//
// The exponent's argument goes through half.
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty_like(x)
    launch("softmax", grid=rows, block=32, args=[x, y, cols])
    return y
*/
#include <cuda_fp16.h>
__global__ void softmax(const float* x, float* y, int cols) {
    const float* row = x + (size_t)blockIdx.x * cols;
    float* out = y + (size_t)blockIdx.x * cols;
    float top = -INFINITY, sum = 0.0f;
    for (int i = 0; i < cols; i++) top = isnan(row[i]) ? row[i] : (top != top ? top : fmaxf(top, row[i]));
    for (int i = 0; i < cols; i++) sum += expf(row[i] - top);
    for (int i = threadIdx.x; i < cols; i += 32) out[i] = expf(__half2float(__float2half(row[i] - top))) / sum;
}
