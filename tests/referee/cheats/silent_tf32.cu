// number: 19
// name: TF32 in an fp32 contract
// problem: product
// expect: mismatch
//
// Rounds the factors to ten bits of mantissa, as a tensor core does.
/* plan
def plan(a, b):
    m, k = a.shape
    n = b.shape[1]
    y = empty((m, n), f32)
    launch("product", grid=(cdiv(n, 16), cdiv(m, 16)), block=(16, 16), args=[a, b, y, m, n, k])
    return y
*/
__device__ float tf32(float v) {
    unsigned bits = __float_as_uint(v);
    if ((bits & 0x7f800000u) == 0x7f800000u) return v;
    return __uint_as_float((bits + 0x0fffu + (bits >> 13 & 1u)) & ~0x1fffu);
}
__global__ void product(const float* a, const float* b, float* y, int m, int n, int k) {
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || column >= n) return;
    float sum = 0.0f;
    for (int i = 0; i < k; i++) sum += tf32(a[(size_t)row * k + i]) * tf32(b[(size_t)i * n + column]);
    y[(size_t)row * n + column] = sum;
}
