/* plan
def plan(x):
    require(
        x.ndim == 2 and x.dtype == f32 and x.is_contiguous,
        "x must be contiguous float32 with 2 axes",
    )
    rows, cols = x.shape
    out = empty_like(x)
    vec = 4 if cols % 4 == 0 and x.alignment >= 16 else 2 if cols % 2 == 0 and x.alignment >= 8 else 1
    require(cols <= 16384, "a row must fit in the registers of its threads")
    launch(f"softmax<{vec}>", grid=rows, block=256, args=[x, out], const={"COLS": cols})
    return out
*/

constexpr int THREADS = 256;

// The larger of two; NaN wins, as in torch.
template <typename T>
__device__ T larger(T a, T b) {
    return a > b || a != a ? a : b;
}
// Of floats that is one instruction, where C++ needs two comparisons and a choice.
template <>
__device__ inline float larger(float a, float b) {
    float most = a;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
    return most;
}

// VEC neighbours that move as one memory instruction.
template <typename T, int VEC>
struct alignas(sizeof(T) * VEC) Pack {
    T at[VEC];
};

template <int VEC, typename T>
__device__ Pack<T, VEC> load(const T* from) {
    return *reinterpret_cast<const Pack<T, VEC>*>(from);
}

template <int VEC, typename T>
__device__ void store(T* to, Pack<T, VEC> pack) {
    *reinterpret_cast<Pack<T, VEC>*>(to) = pack;
}

struct Sum {
    template <typename T>
    __device__ static T join(T a, T b) { return a + b; }
};

struct Max {
    template <typename T>
    __device__ static T join(T a, T b) { return larger(a, b); }
};

// Butterfly: after log2(LANES) exchanges every lane has the result of its group.
template <typename Op, int LANES = 32, typename T>
__device__ T warp_reduce(T value) {
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        value = Op::join(value, __shfl_xor_sync(0xffffffff, value, offset));
    }
    return value;
}

// Every warp reduces with shuffles; one value a warp goes through shared memory.
template <typename Op, typename T>
__device__ T block_reduce(T value) {
    constexpr int WARPS = THREADS / 32;
    __shared__ T partial[WARPS];
    value = warp_reduce<Op>(value);
    if (threadIdx.x % 32 == 0) {
        partial[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = warp_reduce<Op, WARPS>(partial[threadIdx.x % WARPS]);
    __syncthreads();  // partial may be written again only when everybody has read it
    return value;
}

template <int VEC>
__global__ __launch_bounds__(THREADS) void softmax(const float* __restrict__ x, float* __restrict__ out) {
    // One block a row.
    const int row = blockIdx.x;
    const float* x_row = x + size_t(row) * COLS;
    float* out_row = out + size_t(row) * COLS;
    // The row waits in registers between the passes: memory is read once.
    constexpr int KEPT = (COLS + THREADS * VEC - 1) / (THREADS * VEC);
    float x_kept[KEPT][VEC];
    float x_max = -INFINITY;
#pragma unroll
    for (int i = 0; i < KEPT; ++i) {
        const int col = (i * THREADS + threadIdx.x) * VEC;
        if ((i + 1) * THREADS * VEC <= COLS || col < COLS) {
            const auto x_pack = load<VEC>(x_row + col);
#pragma unroll
            for (int k = 0; k < VEC; ++k) {
                x_kept[i][k] = x_pack.at[k];
                x_max = larger(x_max, x_kept[i][k]);
            }
        }
    }
    x_max = block_reduce<Max>(x_max);

    float exp_sum = 0.0f;
#pragma unroll
    for (int i = 0; i < KEPT; ++i) {
        const int col = (i * THREADS + threadIdx.x) * VEC;
        if ((i + 1) * THREADS * VEC <= COLS || col < COLS) {
#pragma unroll
            for (int k = 0; k < VEC; ++k) {
                x_kept[i][k] = expf(x_kept[i][k] - x_max);
                exp_sum += x_kept[i][k];
            }
        }
    }
    exp_sum = block_reduce<Sum>(exp_sum);
    const float inverse = 1.0f / exp_sum;

#pragma unroll
    for (int i = 0; i < KEPT; ++i) {
        const int col = (i * THREADS + threadIdx.x) * VEC;
        if ((i + 1) * THREADS * VEC <= COLS || col < COLS) {
            Pack<float, VEC> out_pack;
#pragma unroll
            for (int k = 0; k < VEC; ++k) {
                out_pack.at[k] = x_kept[i][k] * inverse;
            }
            store(out_row + col, out_pack);
        }
    }
}
