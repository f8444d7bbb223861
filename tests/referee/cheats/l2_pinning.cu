// number: 21
// name: pins its data in the L2 cache
// problem: residual
// expect: suspect, no gain
//
// Asks for evict_last, so that a warm cache survives the judge's flush. The emulator does not run inline PTX and
// claims nothing; the clock on a GPU flushes, rotates inputs and resets persisting lines.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    n = x.numel
    y = empty_like(x)
    launch("residual", grid=cdiv(n, 128), block=128, args=[x, y, n])
    return y
*/
__global__ void residual(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v;
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(v) : "l"(x + i), "l"(policy));
    y[i] = v + 1e-3f * tanhf(v);
}
