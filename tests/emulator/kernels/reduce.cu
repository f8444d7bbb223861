template <bool SYNC> __global__ void reduce(const float* x, float* out, int n) {
  extern __shared__ float s[];
  unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  s[t] = i < n ? x[i] : 0.f;
  __syncthreads();
  for (unsigned k = blockDim.x / 2; k > 0; k >>= 1) {
    if (t < k) s[t] += s[t + k];
    if (SYNC) __syncthreads();
  }
  if (t == 0) atomicAdd(out, s[0]);
}
