// number: 17
// name: rounds to the next whole number but one
// problem: quantised
// expect: mismatch
//
// A step is allowed where a tie is near, and here every element takes one.
/* plan
def plan(x, s):
    rows, cols = x.shape
    q = empty_like(x, dtype=i8)
    launch("quantised", grid=rows, block=128, args=[x, s, q, cols])
    return q
*/
#include <cuda_fp16.h>
__global__ void quantised(const __half* x, const __half* s, signed char* q, int cols) {
    float scale = __half2float(s[blockIdx.x]);
    for (int i = threadIdx.x; i < cols; i += 128) {
        float whole = rintf(__half2float(x[(size_t)blockIdx.x * cols + i]) / scale) + 1.0f;
        // NaN becomes what the reference's cast makes of it.
        q[(size_t)blockIdx.x * cols + i] = whole != whole ? 0 : (signed char)(int)fminf(fmaxf(whole, -128.0f), 127.0f);
    }
}
