// number: 0
// name: split-K with float atomics
// problem: product
// expect: passed, passed varying
//
// The order of additions varies from run to run: right, and labelled.
/* plan
def plan(a, b):
    require(a.is_contiguous and b.is_contiguous, "contiguous only")
    m, k = a.shape
    n = b.shape[1]
    y = zeros((m, n), f32)
    launch("product", grid=(cdiv(n, 16), cdiv(m, 16), cdiv(k, 32)), block=(16, 16), args=[a, b, y, m, n, k])
    return y
*/
__global__ void product(const float* a, const float* b, float* y, int m, int n, int k) {
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || column >= n) return;
    float sum = 0.0f;
    for (int i = blockIdx.z * 32; i < min(k, (int)blockIdx.z * 32 + 32); i++)
        sum += a[(size_t)row * k + i] * b[(size_t)i * n + column];
    atomicAdd(&y[(size_t)row * n + column], sum);
}
