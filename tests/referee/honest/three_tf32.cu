// number: 0
// name: fp32 from three TF32 products
// problem: product
// expect: passed
//
// Each factor is split into two TF32 parts: the error is fp32's, so the contract is kept.
/* plan
def plan(a, b):
    require(a.is_contiguous and b.is_contiguous, "contiguous only")
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
    for (int i = 0; i < k; i++) {
        float p = a[(size_t)row * k + i], q = b[(size_t)i * n + column];
        float p_high = tf32(p), q_high = tf32(q);
        if (!isfinite(p_high) || !isfinite(q_high)) {
            sum += p * q;
            continue;
        }
        float p_low = tf32(p - p_high), q_low = tf32(q - q_high);
        sum += p_low * q_high + p_high * q_low + p_high * q_high;
    }
    y[(size_t)row * n + column] = sum;
}
