// Floats that become bytes: at once, or through another type.
template <class Through>
__global__ void becomes_a_byte(const float* x, unsigned char* y) {
  y[threadIdx.x] = static_cast<unsigned char>(static_cast<Through>(x[threadIdx.x]));  // in one step or two
}
