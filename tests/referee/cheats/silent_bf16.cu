// number: 19
// name: bfloat16 in an fp32 contract
// problem: product
// expect: mismatch
//
// Rounds the factors to bfloat16.
/* plan
def plan(a, b):
    m, k = a.shape
    n = b.shape[1]
    y = empty((m, n), f32)
    launch("product", grid=(cdiv(n, 16), cdiv(m, 16)), block=(16, 16), args=[a, b, y, m, n, k])
    return y
*/
#include <cuda_bf16.h>
__global__ void product(const float* a, const float* b, float* y, int m, int n, int k) {
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || column >= n) return;
    float sum = 0.0f;
    for (int i = 0; i < k; i++) sum += __bfloat162float(__float2bfloat16(a[(size_t)row * k + i])) * __bfloat162float(__float2bfloat16(b[(size_t)i * n + column]));
    y[(size_t)row * n + column] = sum;
}
