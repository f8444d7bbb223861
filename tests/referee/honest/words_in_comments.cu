// number: 0
// name: suspicious words in comments
// problem: residual
// expect: passed
//
// pass, try, half, cheat, exit(0), asm(""), cudaMalloc, torch: only words.
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
    // try: half of the threads pass here; float16 would be a cheat, and so would __nanosleep or clock64
    if (i < n) y[i] = x[i] + 1e-3f * tanhf(x[i]);  /* sys.exit(0) */
}
