// Copies to shared memory as inline PTX. N floats of x are copied, of which `read` are read; the others are zero.
template <int N, bool WAITS>
__global__ void copied(const float* x, float* y, int n, int read) {
  __shared__ __align__(16) float piece[256 * N];
  const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(piece + threadIdx.x * N));
  const float* from = x + threadIdx.x * N;
  if constexpr (N == 4) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(read * 4) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(place), "l"(from), "n"(N * 4), "r"(read * 4)
                 : "memory");
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
  if (WAITS) asm volatile("cp.async.wait_group %0;" ::"n"(0) : "memory");
  for (int i = 0; i < N; i++) y[threadIdx.x * N + i] = piece[threadIdx.x * N + i];
}
