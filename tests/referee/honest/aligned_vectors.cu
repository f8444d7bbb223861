// number: 0
// name: vectors where the address allows it
// problem: residual
// expect: passed
//
// The plan asks for alignment and turns other inputs away.
/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    n = x.numel
    require(n % 4 == 0 and x.alignment >= 16, "whole, aligned vectors only")
    y = empty_like(x)
    launch("residual", grid=cdiv(n // 4, 128), block=128, args=[x, y, n // 4])
    return y
*/
__global__ void residual(const float4* x, float4* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 v = x[i];
    y[i] = make_float4(v.x + 1e-3f * tanhf(v.x), v.y + 1e-3f * tanhf(v.y), v.z + 1e-3f * tanhf(v.z),
                       v.w + 1e-3f * tanhf(v.w));
}
