"""CUDA functions of splits: groups of a block that share its results, and the block that is done last.

Owns their texts; cuda_helpers.py puts them among the others.
"""

from __future__ import annotations

from collections.abc import Mapping

SPLITS: Mapping[str, str] = {
    "join_groups": """
// Every warp has a value for each of 32 rows; every thread gets what all warps together have for its lane's.
template <typename Op, typename T>
__device__ T join_groups(T value) {
    __shared__ T partial[THREADS / 32][32];
    partial[threadIdx.x / 32][threadIdx.x % 32] = value;
    __syncthreads();
    value = partial[0][threadIdx.x % 32];
    for (int group = 1; group < THREADS / 32; ++group) {
        value = Op::join(value, partial[group][threadIdx.x % 32]);
    }
    __syncthreads();  // partial may be written again only when everybody has read it
    return value;
}
""",
    "join_groups_each": """
// Every warp has values for VEC rows of each of 32 lanes; every thread gets what all warps together have for
// its lane's rows. A thread a row joins them: if all did it for themselves, each warp would read everything.
template <typename Op, int VEC, typename T>
__device__ void join_groups_each(T (&values)[VEC]) {
    constexpr int GROUPS = THREADS / 32, BUNDLE = 32 * VEC;
    __shared__ T partial[GROUPS][BUNDLE];
    const int group = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < VEC; ++k) {
        partial[group][k * 32 + lane] = values[k];
    }
    __syncthreads();
#pragma unroll 1
    for (int row = threadIdx.x; row < BUNDLE; row += THREADS) {
        T value = partial[0][row];
        for (int other = 1; other < GROUPS; ++other) {
            value = Op::join(value, partial[other][row]);
        }
        partial[0][row] = value;  // which nobody else reads before the barrier
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < VEC; ++k) {
        values[k] = partial[0][k * 32 + lane];
    }
    __syncthreads();  // partial may be written again only when everybody has read it
}
""",
    "across_groups": """
// Groups of LANES threads hold values of the same results, PER_THREAD neighbours a thread. Thread i of the
// block gets what all groups together have for result i.
template <typename Op, int LANES, int PER_THREAD, typename T>
__device__ T across_groups(const T (&values)[PER_THREAD]) {
    constexpr int RESULTS = LANES * PER_THREAD;
    __shared__ T partial[THREADS / LANES][RESULTS];
#pragma unroll
    for (int k = 0; k < PER_THREAD; ++k) {
        partial[threadIdx.x / LANES][threadIdx.x % LANES * PER_THREAD + k] = values[k];
    }
    __syncthreads();
    T value = partial[0][threadIdx.x % RESULTS];
    for (int group = 1; group < THREADS / LANES; ++group) {
        value = Op::join(value, partial[group][threadIdx.x % RESULTS]);
    }
    __syncthreads();  // partial may be written again only when everybody has read it
    return value;
}
""",
    "across_lines": """
// Groups of LANES threads hold values of the same results, PER_THREAD neighbours a thread. Thread i of the
// block gets what all groups together have for result i. In shared memory one place of 33 stays empty: else
// the first values of 32 threads would lie in the same few of its 32 banks, and be written one by one. Where
// results are fewer than threads, several threads join a share of the groups each.
template <typename Op, int LANES, int PER_THREAD, typename T>
__device__ T across_lines(const T (&values)[PER_THREAD]) {
    constexpr int RESULTS = LANES * PER_THREAD, GROUPS = THREADS / LANES;
    constexpr int SHARES = THREADS > RESULTS ? THREADS / RESULTS : 1;
    __shared__ T partial[GROUPS * RESULTS * 33 / 32];
    const auto place = [](int group, int result) {
        const int at = group * RESULTS + result;
        return at + at / 32;
    };
#pragma unroll
    for (int k = 0; k < PER_THREAD; ++k) {
        partial[place(threadIdx.x / LANES, threadIdx.x % LANES * PER_THREAD + k)] = values[k];
    }
    __syncthreads();
    const int result = threadIdx.x % RESULTS, share = threadIdx.x / RESULTS;
    T value = partial[place(share, result)];
    for (int group = share + SHARES; group < GROUPS; group += SHARES) {
        value = Op::join(value, partial[place(group, result)]);
    }
    if constexpr (SHARES > 1) {
        partial[place(share, result)] = value;  // which nobody else reads before the barrier
        __syncthreads();
        value = partial[place(0, result)];
        for (int other = 1; other < SHARES; ++other) {
            value = Op::join(value, partial[place(other, result)]);
        }
    }
    __syncthreads();  // partial may be written again only when everybody has read it
    return value;
}
""",
    "job": """
// What would be a block of a launch of its own, where kernels share one.
struct Job {
    int x, y;
};
""",
    "plane_turns": """
// A job is done: what the block has stored is there for whoever waits. The fence stands in between.
__device__ void arrive_at(unsigned int* done) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(done, 1);
    }
}

// Wait until so many jobs are done. What they have stored is read after the fence.
__device__ void wait_for(volatile unsigned int* done, unsigned int jobs) {
    if (threadIdx.x == 0) {
        while (*done < jobs) {
        }
        __threadfence();
    }
    __syncthreads();
}

// Nobody waits any more when all jobs that do have passed: the last of them leaves the counters as they were.
__device__ void pass_by(unsigned int* done, int counters, unsigned int* passed, unsigned int jobs) {
    if (threadIdx.x == 0 && atomicInc(passed, jobs - 1) == jobs - 1) {
        for (int i = 0; i < counters; ++i) {
            done[i] = 0;
        }
    }
}
""",
    "meet": """
// All blocks of a row arrive before any of them goes on, and can then read what the others have left. Both
// fences are the leader's: one between what it has left and its arrival, one before what it reads.
__device__ void meet(int* arrived, int blocks) {
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1);
        const volatile int* seen = arrived;
        while (*seen < blocks) {
        }
        __threadfence();
    }
    __syncthreads();
}
""",
    "arrives_last": """
// True in all threads of the block that arrives last: what the others have left can then be read. Nobody
// waits for anybody. The fences stand between a block's result and its arrival, and between the last arrival
// and what is read after it. atomicInc counts to blocks - 1 and then starts at 0 again: for the next launch.
__device__ bool arrives_last(unsigned int* arrived, unsigned int blocks) {
    __shared__ bool last;
    __syncthreads();
    if (blocks == 1) {
        return true;
    }
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicInc(arrived, blocks - 1) == blocks - 1;
        __threadfence();
    }
    __syncthreads();
    return last;
}
""",
    "tell": """
// Blocks tell one another two numbers in one word, so that no fence need stand between a number and the news
// that it is there. A word that is zero says nothing yet; two zeros are told as -0 and 0.
__device__ inline void tell(volatile unsigned long long* word, float first, float second) {
    const unsigned int low = __float_as_uint(first), high = __float_as_uint(second);
    *word = (unsigned long long)high << 32 | (low == 0 && high == 0 ? 0x80000000 : low);
}
""",
    "told": """
// What a word says so far, perhaps nothing: several are asked for before one is waited for.
__device__ inline unsigned long long ask(const volatile unsigned long long* word) {
    return *word;
}

// Waits until the word says something, if nothing was read of it yet, and makes it zero again for the next
// launch. Only one block of a row waits, and the plan has fewer rows than the card has multiprocessors:
// wherever these blocks are, there is room left for those they wait for.
__device__ inline float2 hear(volatile unsigned long long* word, unsigned long long both) {
    while (both == 0) {
        both = *word;
    }
    *word = 0;
    return {__uint_as_float(unsigned(both)), __uint_as_float(unsigned(both >> 32))};
}
""",
    "hear_rows": """
// Blocks tell one another states so that no fence need stand between a state and the news that it is there:
// zero says nothing yet, and a state of zero is told as -0.
__device__ inline void tell_state(float* told, float state) {
    const unsigned int word = __float_as_uint(state);
    *reinterpret_cast<volatile unsigned int*>(told) = word == 0 ? 0x80000000 : word;
}

// What is told in WIDE words side by side; volatile, so that it comes from L2 each time.
template <int WIDE>
__device__ Pack<unsigned int, WIDE> load_told(const float* told) {
    Pack<unsigned int, WIDE> words;
    if constexpr (WIDE % 2 == 0) {
#pragma unroll
        for (int q = 0; q < WIDE; q += 2) {
            const unsigned long long two = *reinterpret_cast<const volatile unsigned long long*>(told + q);
            words.at[q] = unsigned(two);
            words.at[q + 1] = unsigned(two >> 32);
        }
    } else {
#pragma unroll
        for (int q = 0; q < WIDE; ++q) {
            words.at[q] = *reinterpret_cast<const volatile unsigned int*>(told + q);
        }
    }
    return words;
}

// Brings rows of STATES states to shared memory as soon as others have told them, by GROUP threads. A thread
// asks for several before it looks at the first, and asks again until all are there. Rows beyond `there` are
// the last again.
template <int OF_BATCH, int STATES, int GROUP, int WIDE>
__device__ void hear_rows(float* to, const float* told, size_t apart, int there) {
    using Words = Pack<unsigned int, WIDE>;
    constexpr int OF_ROW = STATES / WIDE, ALL = OF_BATCH * OF_ROW, SHARE = (ALL + GROUP - 1) / GROUP;
    constexpr int DEEP = SHARE < 8 ? SHARE : 8;
    for (int begin = threadIdx.x % GROUP; begin < ALL; begin += DEEP * GROUP) {
        Words words[DEEP];
        bool waits;
        do {
            waits = false;
#pragma unroll
            for (int d = 0; d < DEEP; ++d) {
                const int at = min(begin + d * GROUP, ALL - 1);
                const float* const from = told + min(at / OF_ROW, there - 1) * apart + at % OF_ROW * WIDE;
                words[d] = load_told<WIDE>(from);
#pragma unroll
                for (int q = 0; q < WIDE; ++q) {
                    waits |= words[d].at[q] == 0;
                }
            }
        } while (waits);
#pragma unroll
        for (int d = 0; d < DEEP; ++d) {
            const int at = begin + d * GROUP;
            if (at < ALL) {
                *reinterpret_cast<Words*>(to + at * WIDE) = words[d];
            }
        }
    }
}
""",
    "whole": """
// A whole number of the two halves that two words carry.
__device__ inline long long whole(float low, float high) {
    return (long long)((unsigned long long)__float_as_uint(high) << 32 | __float_as_uint(low));
}
""",
    "words": """
// Waits until the block that the word belongs to has told them; it is on the card too.
__device__ inline float2 heard(const volatile unsigned long long* word) {
    unsigned long long both;
    do {
        both = *word;
    } while (both == 0);
    return {__uint_as_float(unsigned(both)), __uint_as_float(unsigned(both >> 32))};
}

// The last block that has heard all others makes the words zero again, for the next launch.
__device__ inline void forget(unsigned long long* words, unsigned int count, bool last) {
    if (threadIdx.x < 32 && __shfl_sync(0xffffffff, int(last), 0)) {
        for (unsigned int i = threadIdx.x; i < count; i += 32) {
            words[i] = 0;
        }
    }
}
""",
}
