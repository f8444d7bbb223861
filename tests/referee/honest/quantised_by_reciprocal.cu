// number: 0
// name: quantises with a reciprocal, in float32
// problem: quantised
// expect: passed
//
// Rounds nothing to float16 on the way, as the reference does, so that elements near a tie fall elsewhere.
/* plan
def plan(x, s):
    require(x.is_contiguous and s.is_contiguous, "contiguous only")
    rows, cols = x.shape
    q = empty_like(x, dtype=i8)
    launch("quantised", grid=rows, block=128, args=[x, s, q, cols])
    return q
*/
#include <cuda_fp16.h>
__global__ void quantised(const __half* x, const __half* s, signed char* q, int cols) {
    float reciprocal = 1.0f / __half2float(s[blockIdx.x]);
    for (int i = threadIdx.x; i < cols; i += 128) {
        float whole = rintf(__half2float(x[(size_t)blockIdx.x * cols + i]) * reciprocal);
        // NaN becomes what the reference's cast makes of it.
        q[(size_t)blockIdx.x * cols + i] = whole != whole ? 0 : (signed char)(int)fminf(fmaxf(whole, -128.0f), 127.0f);
    }
}
