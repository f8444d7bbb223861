// As a textbook writes it, with both headers.
#include <assert.h>
#include <cassert>
__global__ void asserts(const float* x, float* y) {
  assert(x[threadIdx.x] < 1.f);  // does not hold for all
  y[threadIdx.x] = x[threadIdx.x];
}
