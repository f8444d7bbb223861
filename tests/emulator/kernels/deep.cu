// Apart from faults.cu, because a source with a volatile is instrumented in plain mode too.
__device__ float deep(volatile float* x, int n) {
  volatile float local[1024];
  local[n & 1023] = *x;
  return n ? deep(x, n - 1) + local[n & 1023] : 0.f;  // too deep
}
__global__ void overflows_stack(float* x, float* y) { y[threadIdx.x] = deep(x, 1000); }
