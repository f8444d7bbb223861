// Planted mistakes; the tests look for the line numbers of the marked lines.
__global__ void off_by_one(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) y[i] = x[i < n ? i : n - 1];  // writes y[n]
}
__global__ void reads_before_start(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i - 1];  // reads x[-1]
}
__global__ void forgets_last(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n - 1) y[i] = x[i];
}
__global__ void misaligned(const float* x, float* y) {
  float4 v = reinterpret_cast<const float4*>(x + 1)[threadIdx.x];  // 4 bytes off
  y[threadIdx.x] = v.x + v.y + v.z + v.w;
}
__global__ void past_shared_array(float* y) {
  __shared__ float tile[32];
  tile[threadIdx.x + 1] = threadIdx.x;  // writes tile[32]
  __syncthreads();
  y[threadIdx.x] = tile[threadIdx.x];
}
__global__ void past_dynamic_shared(float* y) {
  extern __shared__ float pool[];
  pool[threadIdx.x] = threadIdx.x;  // more threads than room
  __syncthreads();
  y[threadIdx.x] = pool[threadIdx.x];
}
__global__ void reads_own_output(float* y) {
  y[threadIdx.x] = y[threadIdx.x + 1] + 1.f;  // never written before
}
__global__ void reads_shared_early(float* y) {
  __shared__ float tile[32];
  if (threadIdx.x < 16) tile[threadIdx.x] = 1.f;
  __syncthreads();
  y[threadIdx.x] = tile[threadIdx.x];  // half of it was never written
}
__global__ void writes_input(float* x, float* y) {
  y[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x == 5) x[5] = 0.f;  // an input
}
__global__ void divergent_barrier(float* y) {
  __shared__ float s[64];
  s[threadIdx.x] = threadIdx.x;
  if (threadIdx.x < 32) {
    __syncthreads();  // one half waits here
  } else {
    s[threadIdx.x] *= 2;
    __syncthreads();  // the other half here
  }
  y[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void missing_lanes(float* y) {
  if (threadIdx.x < 16) __syncwarp();  // the mask names all 32
  y[threadIdx.x] = 1;
  if (threadIdx.x >= 16) __syncthreads();
}
__global__ void waits_for_itself(int* flag, float* y) {
  if (threadIdx.x == 0) while (atomicAdd(flag, 0) == 0) {}  // set only after the barrier
  __syncthreads();
  if (threadIdx.x == 1) atomicExch(flag, 1);
  y[threadIdx.x] = 1;
}
__global__ void waits_for_later_block(int* flag, float* y) {
  if (blockIdx.x == 0) while (atomicAdd(flag, 0) == 0) {}
  if (blockIdx.x == gridDim.x - 1) atomicExch(flag, 1);
  y[blockIdx.x] = 1;
}
__global__ void shuffle_outside_mask(float* y) {
  float v = threadIdx.x;
  if (threadIdx.x < 20) v = __shfl_down_sync(0x000fffff, v, 4);  // shuffle_outside_mask
  y[threadIdx.x] = v;
}
__global__ void shuffle_from_returned(float* y) {
  if (threadIdx.x >= 20) return;
  y[threadIdx.x] = __shfl_down_sync(0xffffffff, float(threadIdx.x), 4);  // shuffle_from_returned
}
__global__ void shuffle_past_the_block(float* y) {
  y[threadIdx.x] = __shfl_down_sync(0xffffffff, float(threadIdx.x), 4);  // shuffle_past_the_block
}
__global__ void honest_shuffles(float* y) {
  float v = threadIdx.x;
  int last = blockDim.x / 32 * 32;
  for (int step = 16; step > 0; step /= 2) v += __shfl_down_sync(__activemask(), v, step, 16);
  if (threadIdx.x < last) v += __shfl_up_sync(0xffffffff, v, 8);      // below lane 0: its own value
  if (threadIdx.x < last) v += __shfl_down_sync(0xffffffff, v, 8);    // past lane 31: its own value
  if (threadIdx.x % 32 < 8) v += __shfl_down_sync(0x000000ff, v, 4, 8);  // past the segment: its own value
  if (threadIdx.x % 32 < 8) v += __shfl_xor_sync(0x000000ff, v, 4);
  if (threadIdx.x % 2 == 0) v += __shfl_sync(0x55555555u & __activemask(), v, 0);
  y[threadIdx.x] = v;
}
__global__ void stores_to_null(float* y) {
  float* nowhere = y[0] == 12345.f ? y : nullptr;
  nowhere[threadIdx.x] = 1.f;  // it is never true
}
__global__ void asserts(const float* x, float* y) {
  assert(x[threadIdx.x] < 1.f);  // does not hold for all
  y[threadIdx.x] = x[threadIdx.x];
}
__global__ void racy_histogram(const int* x, int* h, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) h[x[i]] += 1;  // no atomic
}
__global__ void far_away(float* y) {
  y[threadIdx.x + 100000000000ll] = 1.f;  // nowhere near
}
__global__ void misaligned_store(float* y) {
  *reinterpret_cast<float4*>(y + 1) = make_float4(1.f, 2.f, 3.f, 4.f);  // off by one float
}
__global__ void divides(const int* x, int* y) {
  y[threadIdx.x] = 100 / x[threadIdx.x];  // one divisor is zero
}
__global__ void sets_then_adds(float* y) {
  __shared__ float total;
  if (threadIdx.x == 0) total = 0.f;  // no barrier behind it
  atomicAdd(&total, 1.f);  // perhaps before the zero
  __syncthreads();
  y[threadIdx.x] = total;
}
__global__ void adds_to_nothing(float* y) {
  __shared__ float sum;
  atomicAdd(&sum, 1.f);  // nobody set it
  __syncthreads();
  y[threadIdx.x] = sum;
}
__global__ void vector_over_the_end(const float* x, float* y) {
  float4 v = reinterpret_cast<const float4*>(x)[threadIdx.x];  // four of six
  y[threadIdx.x] = v.x + v.y + v.z + v.w;
}
__global__ void barrier_in_a_branch(float* y) {
  __shared__ float s[64];
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  if (threadIdx.x < 40) __syncthreads();  // the others go on
  y[threadIdx.x] = s[63 - threadIdx.x];  // where they went
}
__global__ void barrier_in_a_loops_branch(float* y) {
  __shared__ float s[64];
  s[threadIdx.x] = 1.f;
  __syncthreads();
  for (int half = 32; half > 0; half /= 2)
    if (threadIdx.x < half) {
      s[threadIdx.x] += s[threadIdx.x + half];
      __syncthreads();  // for half of them
    }
  y[threadIdx.x] = s[0];
}
__global__ void two_values_in_one_place(const float* x, float* y) {
  __shared__ float s[64];
  s[threadIdx.x] = 0.f;
  __syncthreads();
  s[threadIdx.x / 2] = x[threadIdx.x];  // two lanes a place
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x];
}

// Each block leaves a sum and tells so in done[1]; the last block has looked at done[flag].
__global__ void told_in_another_place(const float* x, float* partial, int* done, float* y, int n, int flag) {
  float sum = 0.0f;
  for (int i = blockIdx.x; i < n; i += gridDim.x) sum += x[i];
  if (blockIdx.x + 1 < gridDim.x) {
    atomicAdd(&done[0], 1);
    partial[blockIdx.x] = sum;
    __threadfence();
    atomicAdd(&done[1], 1);
    return;
  }
  while (atomicAdd(&done[flag], 0) < int(gridDim.x) - 1) {
  }
  __threadfence();
  for (int i = 0; i + 1 < int(gridDim.x); ++i) sum += partial[i];  // told or not
  y[0] = sum;
}
