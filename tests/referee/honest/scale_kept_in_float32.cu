// number: 0
// name: keeps a row's scale in float32
// problem: fakequant
// expect: passed
//
// The reference rounds the scale to float16, which moves every quotient of the row.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    rows, cols = x.shape
    y = empty_like(x)
    launch("fakequant", grid=rows, block=128, args=[x, y, cols])
    return y
*/
#include <cuda_fp16.h>
__global__ void fakequant(const __half* x, __half* y, int cols) {
    __shared__ float tops[128];
    const __half* row = x + (size_t)blockIdx.x * cols;
    float top = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 128) {
        float value = fabsf(__half2float(row[i]));
        top = value > top || value != value ? value : top;
    }
    tops[threadIdx.x] = top;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            float other = tops[threadIdx.x + half];
            if (other > tops[threadIdx.x] || other != other) tops[threadIdx.x] = other;
        }
        __syncthreads();
    }
    float scale = tops[0] / 127.0f;
    for (int i = threadIdx.x; i < cols; i += 128) {
        float whole = rintf(__half2float(row[i]) / scale);
        float kept = whole != whole ? 0.0f : fminf(fmaxf(whole, -128.0f), 127.0f);
        y[(size_t)blockIdx.x * cols + i] = __float2half(kept * scale);
    }
}
