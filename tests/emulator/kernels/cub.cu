#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cuda/functional>
#include <cuda/std/limits>

struct Pair { float sum, weight, most; };

template <int THREADS> __global__ void block_sum(const float* x, float* y, int n) {
  using Reduce = cub::BlockReduce<float, THREADS>;
  __shared__ typename Reduce::TempStorage storage;
  float sum = Reduce(storage).Sum(x[threadIdx.x]);
  __syncthreads();
  float of_some = Reduce(storage).Sum(x[threadIdx.x], n);
  __syncthreads();
  float two[2] = {x[threadIdx.x], -1000.f};
  float most = Reduce(storage).Reduce(two, cuda::maximum<>{});
  if (threadIdx.x == 0) { y[0] = sum; y[1] = of_some; y[2] = most; }
}
__global__ void block_of_structs(const float* x, float* y) {
  using Reduce = cub::BlockReduce<Pair, 96>;
  __shared__ Reduce::TempStorage storage;
  Pair mine = {x[threadIdx.x], 1.f, -cuda::std::numeric_limits<float>::infinity()};
  Pair all = Reduce(storage).Reduce(mine, [](const Pair& a, const Pair& b) {
    return Pair{a.sum + b.sum, a.weight + b.weight, max(a.most, b.most)};
  });
  if (threadIdx.x == 0) { y[0] = all.sum; y[1] = all.weight; y[2] = all.most; }
}
__global__ void scans(const int* x, int* inclusive, int* exclusive, int* total) {
  using Scan = cub::BlockScan<int, 80>;
  __shared__ Scan::TempStorage storage;
  int all;
  Scan(storage).InclusiveSum(x[threadIdx.x], inclusive[threadIdx.x], all);
  __syncthreads();
  Scan(storage).ExclusiveScan(x[threadIdx.x], exclusive[threadIdx.x], -5, cuda::maximum<>{});
  if (threadIdx.x == 79) total[0] = all;
}
__global__ void warp_sums(const float* x, float* y) {
  using Reduce = cub::WarpReduce<float, 16>;
  __shared__ Reduce::TempStorage storage[4];
  float sum = Reduce(storage[threadIdx.x / 16]).Sum(x[threadIdx.x]);
  if (threadIdx.x % 16 == 0) y[threadIdx.x / 16] = sum;
}
