// number: 21
// name: pins its results in the L2 cache, so that rivals have less of it
// problem: residual
// expect: suspect, no gain
//
// Asks for its results to be evicted last. It gains nothing by that itself, but lines that survive the judge's flush
// are missing to whoever is timed next, and a slower baseline is as good as a faster kernel. The emulator does not
// run inline PTX and claims nothing; the clock makes such lines ordinary before every sample.
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
    const float v = x[i], result = v + 1e-3f * tanhf(v);
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("st.global.L2::cache_hint.f32 [%0], %1, %2;" :: "l"(y + i), "f"(result), "l"(policy) : "memory");
}
