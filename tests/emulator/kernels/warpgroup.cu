// Hopper's warp-group multiplications in TF32, as they should be and with one thing wrong. The test adds the
// bodies of multiply_add and multiply, whose statements name every sum. Those of 16-bit factors have two of them
// where a float is here, and all else stays.
#include <cuda_pipeline.h>

typedef unsigned long long Descriptor;

// sum += a * b, of 64 rows of a, as many columns of b as there are twos in sum, and eight terms.
__device__ void multiply_add(float (&sum)[4], const unsigned (&a)[4], Descriptor b);
__device__ void multiply_add(float (&sum)[12], const unsigned (&a)[4], Descriptor b);
__device__ void multiply_add(float (&sum)[32], const unsigned (&a)[4], Descriptor b);
__device__ void multiply_add(float (&sum)[64], const unsigned (&a)[4], Descriptor b);
__device__ void multiply_add(float (&sum)[128], const unsigned (&a)[4], Descriptor b);
__device__ void multiply_add(float (&sum)[32], Descriptor a, Descriptor b);
// The same, but the sum begins at zero.
__device__ void multiply(float (&sum)[32], const unsigned (&a)[4], Descriptor b);
// The same of factors of another type.
__device__ void multiply_others(float (&sum)[32], const unsigned (&a)[4], Descriptor b);

// What is left out, done too early, or not the same everywhere.
enum Wrong {
    NOTHING,
    NO_WAIT,
    OTHER_GROUP,
    NO_COMMIT,
    OVERWRITES,
    OVERWRITES_LATER,
    NO_BARRIER,
    NO_PROXY_FENCE,
    NO_FENCE,
    HALF_A_TILE,
    ODD_LANE,
    ODD_WARP,
    ODD_LANES_FACTORS,
    ODD_WARPS_FACTORS,
    OUTSIDE
};

__device__ inline void fence_proxy() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int LEFT> __device__ inline void wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

__device__ inline unsigned rounded(float value) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return bits;
}

// Rows of 128, 64 or 32 bytes whose pieces of 16 bytes change places, or pieces of eight rows (ROW_BYTES 0).
template <int ROW_BYTES> __device__ unsigned place(int row, int term, int rows) {
    if (!ROW_BYTES) {
        return term / 4 * rows * 16 + row * 16 + term % 4 * 4;
    }
    const unsigned at = row * ROW_BYTES + term * 4;
    return at ^ (at >> 3 & (ROW_BYTES - 16));
}

// The descriptor of eight terms, of which the first is at `term`, in a tile that was filled like that.
template <int ROW_BYTES> __device__ Descriptor described(const void* tile, int term, int rows) {
    const unsigned address = (unsigned)__cvta_generic_to_shared(tile);
    const unsigned start = address + (ROW_BYTES ? term * 4 : term / 4 * rows * 16);
    const Descriptor swizzle = ROW_BYTES == 128 ? 1 : ROW_BYTES == 64 ? 2 : ROW_BYTES == 32 ? 3 : 0;
    const Descriptor leading = ROW_BYTES ? 1 : rows, stride = ROW_BYTES ? ROW_BYTES / 2 : 8;
    return swizzle << 62 | stride << 32 | leading << 16 | (start & 0x3ffff) >> 4;
}

template <int ROW_BYTES>
__device__ void fill(char* tile, const float* from, int rows, int terms) {
    for (int i = threadIdx.x; i < rows * terms; i += blockDim.x) {
        *(float*)(tile + place<ROW_BYTES>(i / terms, i % terms, rows)) = from[i];
    }
}

__device__ void load(unsigned (&a)[4], const float* from, int terms, int first) {
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, term = first + threadIdx.x % 4;
    for (int i = 0; i < 4; ++i) {
        a[i] = __float_as_uint(from[(row + i % 2 * 8) * terms + term + i / 2 * 4]);
    }
}

template <int SUMS> __device__ void store(const float (&sum)[SUMS], float* y) {
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    for (int i = 0; i < SUMS; ++i) {
        y[(row + i / 2 % 2 * 8) * SUMS * 2 + i / 4 * 8 + column + i % 2] = sum[i];
    }
}

// y = 1 + x * w^T: 64 rows of x and N of w, of as many terms as are in a row of the tile.
template <int N, int ROW_BYTES, int WRONG = NOTHING>
__global__ void product(const float* x, const float* w, float* y) {
    extern __shared__ __align__(1024) char tile[];
    constexpr int TERMS = ROW_BYTES ? ROW_BYTES / 4 : 16;
    float sum[N / 2];
    for (int i = 0; i < N / 2; ++i) {
        sum[i] = 1.0f;
    }
    fill<ROW_BYTES>(tile, w, WRONG == HALF_A_TILE ? N / 2 : N, TERMS);
    if (WRONG != NO_PROXY_FENCE) {
        fence_proxy();
    }
    if (WRONG != NO_BARRIER) {
        __syncthreads();
    }
    for (int term = 0; term < TERMS; term += 8) {
        unsigned a[4];
        load(a, x, TERMS, term);
        Descriptor b = described<ROW_BYTES>(tile, term, N);
        b += WRONG == ODD_LANE && threadIdx.x == 37 ? 2 : 0;
        b += WRONG == OUTSIDE ? 4096 : 0;
        if (WRONG != NO_FENCE) {
            fence();
        }
        if constexpr (WRONG == ODD_LANES_FACTORS || WRONG == ODD_WARPS_FACTORS) {
            if (WRONG == ODD_LANES_FACTORS ? threadIdx.x == 37 : threadIdx.x >= 96) {
                multiply_others(sum, a, b);
                continue;
            }
        }
        if (WRONG != ODD_WARP || threadIdx.x < 96) {
            multiply_add(sum, a, b);
        }
    }
    if (WRONG != NO_COMMIT) {
        commit();
    }
    if (WRONG == OTHER_GROUP) {
        wait<1>();
    }
    if (WRONG == OVERWRITES_LATER) {
        __syncthreads();
    }
    if (WRONG == OVERWRITES || WRONG == OVERWRITES_LATER) {
        for (int i = threadIdx.x; i < N * TERMS; i += 128) {
            ((float*)tile)[i] = 0.0f;  // while it is in use
        }
    }
    if (WRONG != NO_WAIT && WRONG != OTHER_GROUP) {
        wait<0>();
    }
    store(sum, y);
}

// The same of eight columns, with sums that are no array.
__global__ void apart(const float* x, const float* w, float* y) {
    __shared__ __align__(1024) char tile[8 * 128];
    float third = 1.0f, first = 1.0f, fourth = 1.0f, second = 1.0f;
    fill<128>(tile, w, 8, 32);
    fence_proxy();
    __syncthreads();
    for (int term = 0; term < 32; term += 8) {
        unsigned a[4];
        load(a, x, 32, term);
        fence();
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1, 1, 1;"
                     : "+f"(first), "+f"(second), "+f"(third), "+f"(fourth)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(described<128>(tile, term, 8)));
        commit();
        wait<0>();
    }
    const float sum[4] = {first, second, third, fourth};
    store(sum, y);
}

// The same of two tiles.
__global__ void two_tiles(const float* x, const float* w, float* y) {
    __shared__ __align__(1024) char left[64 * 128], right[64 * 128];
    float sum[32] = {};
    fill<128>(left, x, 64, 32);
    fill<128>(right, w, 64, 32);
    fence_proxy();
    __syncthreads();
    fence();
    for (int term = 0; term < 32; term += 8) {
        multiply_add(sum, described<128>(left, term, 64), described<128>(right, term, 64));
    }
    commit();
    wait<0>();
    store(sum, y);
}

// Two groups that add to the same sums, of which the first begins at zero; rounded operands. Between the waits
// nothing of them is there.
__global__ void two_groups(const float* x, const float* w, float* y, float* between) {
    __shared__ __align__(1024) char tile[64 * 128];
    float sum[32];
    for (int i = threadIdx.x; i < 64 * 32; i += 128) {
        *(unsigned*)(tile + place<128>(i / 32, i % 32, 64)) = rounded(w[i]);
    }
    fence_proxy();
    __syncthreads();
    for (int term = 0; term < 32; term += 8) {
        unsigned a[4];
        load(a, x, 32, term);
        for (int i = 0; i < 4; ++i) {
            a[i] = rounded(__uint_as_float(a[i]));
        }
        fence();
        if (term == 0) {
            multiply(sum, a, described<128>(tile, term, 64));
        } else {
            multiply_add(sum, a, described<128>(tile, term, 64));
        }
        commit();
    }
    wait<1>();
    store(sum, between);
    wait<0>();
    store(sum, y);
}

// 256 rows and 128 columns of y = x * w^T a block, of two warp groups: each has two times 64 rows. The next 32 terms
// of w are copied while these are multiplied.
__global__ void large(const float* x, const float* w, float* y, int terms, int columns) {
    extern __shared__ __align__(1024) char tiles[];
    float sum[2][64] = {};
    const int first = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + threadIdx.x / 128 * 64;
    auto copy = [&](int step) {
        for (int i = threadIdx.x; i < 128 * 8 && step < terms; i += 256) {
            const float* from = w + (blockIdx.x * 128 + i / 8) * (size_t)terms + step + i % 8 * 4;
            __pipeline_memcpy_async(tiles + step / 32 % 2 * 16384 + place<128>(i / 8, i % 8 * 4, 128), from, 16);
        }
        __pipeline_commit();
    };
    copy(0);
    for (int step = 0; step < terms; step += 32) {
        __pipeline_wait_prior(0);
        fence_proxy();
        __syncthreads();
        for (int half = 0; half < 2; ++half) {
            const float* row = x + (blockIdx.y * 256 + first + half * 64) * (size_t)terms + step + threadIdx.x % 4;
            for (int term = 0; term < 32; term += 8) {
                unsigned a[4];
                for (int i = 0; i < 4; ++i) {
                    a[i] = rounded(row[i % 2 * 8 * terms + term + i / 2 * 4]);
                }
                fence();
                multiply_add(sum[half], a, described<128>(tiles + step / 32 % 2 * 16384, term, 128));
            }
        }
        commit();
        copy(step + 32);
        wait<0>();
    }
    for (int half = 0; half < 2; ++half) {
        for (int i = 0; i < 64; ++i) {
            const size_t row = blockIdx.y * 256 + first + half * 64 + i / 2 % 2 * 8;
            y[row * columns + blockIdx.x * 128 + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2] = sum[half][i];
        }
    }
}

__global__ void round_all(const float* x, float* y) {
    y[threadIdx.x] = __uint_as_float(rounded(x[threadIdx.x]));
}
