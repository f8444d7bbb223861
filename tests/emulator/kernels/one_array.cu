// The only shared array of its file: nothing lies behind it.
__global__ void past_the_only_array(float* y) {
  __shared__ float tile[64];
  tile[threadIdx.x] = threadIdx.x;  // more threads than elements
  __syncthreads();
  y[threadIdx.x] = tile[threadIdx.x];
}
