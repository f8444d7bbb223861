// Right, although they look like races or like misuse of a mask. Each sums x into y[0].
__device__ float block_sum(float v) {
  __shared__ float warps[2];
  for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  return warps[0] + warps[1];
}
// The block that finishes last adds up what the others published behind a fence.
__global__ void last_block_sums(const float* x, float* partial, int* done, float* y, int n) {
  __shared__ bool last;
  int i = blockIdx.x * 64 + threadIdx.x;
  float sum = block_sum(i < n ? x[i] : 0.f);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(done, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float total = 0.f;
    for (int b = 0; b < gridDim.x; b++) total += partial[b];
    y[0] = total;
  }
}
// All lanes of a warp store the same value with one instruction.
__global__ void lanes_write_one_value(const float* x, float* partial, int* done, float* y, int n) {
  __shared__ float total;
  float sum = 0.f;
  for (int i = threadIdx.x; i < n; i += 64) sum += x[i];
  sum = block_sum(sum);
  if (threadIdx.x < 32) total = sum;
  if (threadIdx.x < 8) partial[blockIdx.x] = sum;
  __syncthreads();
  if (blockIdx.x == 0 && threadIdx.x == 33) y[0] = total;
}
// Threads that have returned are waited for neither by a barrier nor by a full mask.
__global__ void exits_early(const float* x, float* partial, int* done, float* y, int n) {
  __shared__ float sums[40];
  if (threadIdx.x >= 40 || blockIdx.x) return;
  float sum = 0.f;
  for (int i = threadIdx.x; i < n; i += 40) sum += x[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x < 8) partial[threadIdx.x] = __shfl_sync(~0u, sums[threadIdx.x], 0);
  if (threadIdx.x == 0) {
    float total = 0.f;
    for (int i = 0; i < 40; i++) total += sums[i];
    y[0] = total;
  }
}
// Threads that have returned are not waited for: before a barrier, and at the head of a loop around one.
__global__ void returns_in_a_loop(const float* x, float* y, int n) {
  __shared__ float s[64];
  s[threadIdx.x] = 0.f;
  if (threadIdx.x >= 48) {
    y[threadIdx.x] = 0.f;
    return;
  }
  __syncthreads();
  for (int i = 0; i < n; i++) {
    if (static_cast<int>(threadIdx.x) >= 40 - i) return;
    s[threadIdx.x] += x[i];
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x];
  }
}

// A block waits for the one before it and tells the next: the last one knows of all of them.
__global__ void passed_on(const float* x, float* partial, int* done, float* y, int n) {
  if (threadIdx.x > 0) return;
  const int block = blockIdx.x;
  float sum = 0.0f;
  for (int i = block; i < n; i += gridDim.x) sum += x[i];
  partial[block] = sum;
  volatile int* turn = done;
  while (*turn < block) {
  }
  __threadfence();
  if (block + 1 < int(gridDim.x)) {
    *turn = block + 1;
    return;
  }
  float all = 0.0f;
  for (int i = 0; i < int(gridDim.x); ++i) all += partial[i];
  y[0] = all;
}

// The flag is a plain store behind a fence; it is looked for past the first-level cache.
__global__ void plain_flag(const float* x, float* partial, int* done, float* y, int n) {
  if (threadIdx.x > 0) return;
  const int block = blockIdx.x, last = int(gridDim.x) - 1;
  float sum = 0.0f;
  for (int i = block; i < n; i += gridDim.x) sum += x[i];
  if (block < last) {
    while (__ldcg(done) < block) {
    }
    __threadfence();
    partial[0] = (block ? partial[0] : 0.0f) + sum;
    __threadfence();
    done[0] = block + 1;
    return;
  }
  while (__ldcg(done) < last) {
  }
  __threadfence();
  y[0] = partial[0] + sum;
}

// Which block began when.
__global__ void tickets(int* ticket, int* y) { y[atomicAdd(ticket, 1)] = blockIdx.x; }

// A running count, passed on from block to block by number: right where there is room for those that wait.
__global__ void passed_on_by_number(volatile int* told, int* y) {
  while (blockIdx.x > 0 && told[blockIdx.x - 1] == 0) {
  }
  __threadfence();
  int before = blockIdx.x ? told[blockIdx.x - 1] : 0;
  y[blockIdx.x] = before;
  __threadfence();
  told[blockIdx.x] = before + 1;
}
