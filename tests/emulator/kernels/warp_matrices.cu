// A warp multiplies 16 rows by 8 columns out of shared memory, by mma.sync on fragments that ldmatrix reads.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ unsigned place_of(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

__device__ void rows_of_four(unsigned (&words)[4], unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(from));
}

__device__ void columns_of_two(unsigned (&words)[2], unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 {%0, %1}, [%2];"
                 : "=r"(words[0]), "=r"(words[1]) : "r"(from));
}

__device__ void multiply(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2], __half) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ void multiply(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2], __nv_bfloat16) {
    float made[4];
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                 : "=f"(made[0]), "=f"(made[1]), "=f"(made[2]), "=f"(made[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]),
                   "f"(sums[0]), "f"(sums[1]), "f"(sums[2]), "f"(sums[3]));
    for (int i = 0; i < 4; ++i) sums[i] = made[i];
}

// x: 16 x 32, w: 32 x 8, both by rows; y = x @ w.
template <typename T>
__global__ void halves(const T* x, const T* w, float* y) {
    __shared__ __align__(16) T left[16][32], right[32][8];
    const int lane = threadIdx.x;
    for (int i = lane; i < 16 * 32; i += 32) left[i / 32][i % 32] = x[i];
    for (int i = lane; i < 32 * 8; i += 32) right[i / 8][i % 8] = w[i];
    __syncthreads();
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int k = 0; k < 32; k += 16) {
        unsigned a[4], b[2];
        rows_of_four(a, place_of(&left[lane % 16][k + lane / 16 * 8]));
        columns_of_two(b, place_of(&right[k + lane % 16][0]));
        multiply(sums, a, b, T());
    }
    for (int i = 0; i < 4; ++i) y[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sums[i];
}

// x: 16 x K, w: 8 x K, both by rows; y = x @ w.T in TF32, K terms at a time.
template <int K>
__global__ void in_tf32(const float* x, const float* w, float* y) {
    const int lane = threadIdx.x, g = lane / 4, t = lane % 4;
    float sums[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    const auto bits = [](float value) { return __float_as_uint(value); };
    if constexpr (K == 8) {
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                     : "r"(bits(x[g * 8 + t])), "r"(bits(x[(g + 8) * 8 + t])), "r"(bits(x[g * 8 + t + 4])),
                       "r"(bits(x[(g + 8) * 8 + t + 4])), "r"(bits(w[g * 8 + t])), "r"(bits(w[g * 8 + t + 4])));
    } else {
        asm volatile("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 "
                     "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                     : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                     : "r"(bits(x[g * 4 + t])), "r"(bits(x[(g + 8) * 4 + t])), "r"(bits(w[g * 4 + t])));
    }
    for (int i = 0; i < 4; ++i) y[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = sums[i];
}

// The same of 8 terms of 16 bits: two to a word.
__global__ void eight_halves(const float* x, const float* w, float* y) {
    const int lane = threadIdx.x, g = lane / 4, t = lane % 4;
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    const auto bits = [](float value) { return __float_as_uint(value); };
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(bits(x[g * 4 + t])), "r"(bits(x[(g + 8) * 4 + t])), "r"(bits(w[g * 4 + t])));
    for (int i = 0; i < 4; ++i) y[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = sums[i];
}

// Half of a warp reads a matrix, and the other half has gone.
__global__ void half_a_warp(const float* x, float* y) {
    __shared__ __align__(16) float left[8][4];
    left[threadIdx.x / 4][threadIdx.x % 4] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = 0.0f;
    if (threadIdx.x >= 16) return;
    unsigned word;
    const unsigned from = place_of(&left[threadIdx.x % 8][0]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(word) : "r"(from));
    y[threadIdx.x] = __uint_as_float(word);
}

// Rows of 16 bytes that begin between two borders.
__global__ void between_borders(const float* x, float* y) {
    __shared__ __align__(16) float left[9 * 4];
    left[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    unsigned word;
    const unsigned from = place_of(&left[threadIdx.x % 8 * 4 + 1]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(word) : "r"(from));  // borders
    y[threadIdx.x] = __uint_as_float(word);
}
