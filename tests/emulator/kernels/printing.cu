__global__ void greets(float* y) {
  if (threadIdx.x == 0) printf("block %d: \"%.1f\" 100%%\n", blockIdx.x, blockIdx.x / 2.0f);
  if (threadIdx.x == 0) y[blockIdx.x] = 1;
}
__global__ void floods(float* y) {
  printf("%d %d %s\n", blockIdx.x, threadIdx.x, "xxxxxxxxxxxxxxxxxxxx");
  if (threadIdx.x == 0) y[blockIdx.x] = 1;
}
__global__ void is_silent(float* y) {
  if (threadIdx.x == 0) y[blockIdx.x] = 1;
}
