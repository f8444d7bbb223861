"""CUDA functions of scans: within a block, and among the tiles of a row by look-back.

Owns their texts, in an order that compiles; cuda_helpers.py puts them among the others.
"""

from __future__ import annotations

from collections.abc import Mapping

SCANS: Mapping[str, str] = {
    "shift_up": """
// The value of the lane so many places below.
template <typename T>
__device__ T shift_up(T value, int offset) {
    return __shfl_up_sync(0xffffffff, value, offset);
}
""",
    "shift_up_best": """
template <typename T>
__device__ Best<T> shift_up(Best<T> best, int offset) {
    return {shift_up(best.value, offset), shift_up(best.column, offset)};
}
""",
    "shift_up_running": """
__device__ Running shift_up(Running value, int offset) {
    return {shift_up(value.top, offset), shift_up(value.sum, offset)};
}
""",
    "last_lane": """
// What the last lane of a group of LANES has, for all of them.
template <int LANES, typename T>
__device__ T last_lane(T value) {
    return __shfl_sync(0xffffffff, value, LANES - 1, LANES);
}
""",
    "last_lane_best": """
template <int LANES, typename T>
__device__ Best<T> last_lane(Best<T> best) {
    return {last_lane<LANES>(best.value), last_lane<LANES>(best.column)};
}
""",
    "last_lane_running": """
template <int LANES>
__device__ Running last_lane(Running value) {
    return {last_lane<LANES>(value.top), last_lane<LANES>(value.sum)};
}
""",
    "lane_scan": """
// What comes before each lane of a group of LANES, a warp or a part of one: a scan by shuffles. `carry` is
// joined in front and becomes the total of everything so far.
template <typename Op, int LANES, typename T>
__device__ T lane_scan(T value, T& carry) {
    const int lane = threadIdx.x % LANES;
#pragma unroll
    for (int offset = 1; offset < LANES; offset *= 2) {
        const T left = __shfl_up_sync(0xffffffff, value, offset);
        value = lane >= offset ? Op::join(left, value) : value;
    }
    const T left = __shfl_up_sync(0xffffffff, value, 1);
    const T before = lane > 0 ? Op::join(carry, left) : carry;
    carry = Op::join(carry, last_lane<LANES>(value));
    return before;
}
""",
    "block_scan": """
// What comes before each thread of a block: a scan within every warp by shuffles, then over the warps'
// totals. `carry` is joined in front and becomes the total of everything so far.
template <typename Op, typename T>
__device__ T block_scan(T value, T start, T& carry) {
    constexpr int WARPS = THREADS / 32;
    __shared__ T totals[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        const T left = __shfl_up_sync(0xffffffff, value, offset);
        value = lane >= offset ? Op::join(left, value) : value;
    }
    if (lane == 31) {
        totals[warp] = value;
    }
    __syncthreads();
    T before = carry;
#pragma unroll
    for (int other = 0; other < WARPS; ++other) {
        before = other == warp ? carry : before;
        carry = Op::join(carry, totals[other]);
    }
    const T left = __shfl_up_sync(0xffffffff, value, 1);
    __syncthreads();  // totals may be written again only when everybody has read them
    return Op::join(before, lane > 0 ? left : start);
}
""",
    "block_scan_parts": """
// What comes before each thread's parts in the tile, part after part: every warp scans its share of all parts
// by shuffles, one warp then scans what the warps have. Two barriers, however many parts. Returns the total.
template <typename Op, int PARTS, typename T>
__device__ T block_scan_parts(T (&parts)[PARTS], T start) {
    constexpr int WARPS = THREADS / 32, SHARE_OF_LANE = (PARTS * WARPS + 31) / 32;
    __shared__ T totals[PARTS * WARPS], whole;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
        T value = parts[part];
#pragma unroll
        for (int offset = 1; offset < 32; offset *= 2) {
            const T left = __shfl_up_sync(0xffffffff, value, offset);
            value = lane >= offset ? Op::join(left, value) : value;
        }
        const T left = __shfl_up_sync(0xffffffff, value, 1);
        parts[part] = lane > 0 ? left : start;
        if (lane == 31) {
            totals[part * WARPS + warp] = value;
        }
    }
    __syncthreads();
    if (warp == 0) {
        T own[SHARE_OF_LANE], value = start;
#pragma unroll
        for (int i = 0; i < SHARE_OF_LANE; ++i) {
            own[i] = lane * SHARE_OF_LANE + i < PARTS * WARPS ? totals[lane * SHARE_OF_LANE + i] : start;
            value = Op::join(value, own[i]);
        }
#pragma unroll
        for (int offset = 1; offset < 32; offset *= 2) {
            const T left = __shfl_up_sync(0xffffffff, value, offset);
            value = lane >= offset ? Op::join(left, value) : value;
        }
        const T left = __shfl_up_sync(0xffffffff, value, 1);
        T before = lane > 0 ? left : start;
#pragma unroll
        for (int i = 0; i < SHARE_OF_LANE; ++i) {
            if (lane * SHARE_OF_LANE + i < PARTS * WARPS) {
                totals[lane * SHARE_OF_LANE + i] = before;
            }
            before = Op::join(before, own[i]);
        }
        if (lane == 31) {
            whole = value;
        }
    }
    __syncthreads();
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
        parts[part] = Op::join(totals[part * WARPS + warp], parts[part]);
    }
    return whole;
}
""",
    "look_back_at_once": """
// What a tile tells the others: a total, and whether it is the tile's own or that of everything up to it.
// Both travel in one word, so that no fence need stand between them; zero says nothing.
enum Told : unsigned { OWN = 1, WHOLE = 2 };
__device__ inline unsigned long long told(Told state, float total) {
    return (unsigned long long)state << 32 | __float_as_uint(total);
}

// What the tiles of this row before this one amount to: decoupled look-back (Merrill and Garland, 2016).
// A tile first announces its own total, for which it needs nobody. Its threads then look at as many tiles
// before it at once, back to the nearest one that knows the total of everything up to it.
template <typename Op>
__device__ float look_back(float total, float start, int tile, volatile unsigned long long* known) {
    if (threadIdx.x == 0) {
        *known = told(tile == 0 ? WHOLE : OWN, total);
    }
    float before = start;
    for (int nearest = 1; nearest <= tile; nearest += THREADS) {
        const int back = nearest + threadIdx.x;
        unsigned long long found = told(WHOLE, start);  // nothing lies before the first tile
        if (back <= tile) {
            do {
                found = known[-back];
            } while (found == 0);
        }
        const int end = block_reduce<Min>(found >> 32 == WHOLE ? int(threadIdx.x) : THREADS);
        const float value = int(threadIdx.x) <= end ? __uint_as_float(unsigned(found)) : start;
        before = Op::join(block_reduce<Op>(value), before);
        if (end < THREADS) {
            break;
        }
    }
    if (threadIdx.x == 0 && tile > 0) {
        *known = told(WHOLE, Op::join(before, total));
    }
    return before;
}

// The last block that has looked back clears what all have told: for the next launch.
__device__ void forget(unsigned long long* known, unsigned int* done) {
    if (threadIdx.x < 32) {
        bool last = false;
        if (threadIdx.x == 0) {
            __threadfence();
            last = atomicInc(done, gridDim.x - 1) == gridDim.x - 1;
            __threadfence();
        }
        if (__shfl_sync(0xffffffff, int(last), 0)) {
            for (int i = threadIdx.x; i < gridDim.x; i += 32) {
                known[i] = 0;
            }
        }
    }
}
""",
    "look_back": """
// What the tiles of this row before this one amount to: decoupled look-back (Merrill and Garland, 2016).
// A tile first announces its own total, for which it needs nobody. A warp then looks at the tiles before,
// 32 at a time, back to the nearest one that knows the total of everything up to it: few need to wait for
// long. The fences keep every value ahead of the flag that announces it; volatile keeps them out of L1.
template <typename Op, typename T>
__device__ T look_back(T total, T start, int tile, volatile int* flag, volatile T* own, volatile T* whole) {
    constexpr int OWN = 1, WHOLE = 2;
    __shared__ T earlier;
    if (threadIdx.x < 32) {
        const int lane = threadIdx.x;
        if (lane == 0) {
            *(tile == 0 ? whole : own) = total;
            __threadfence();
            *flag = tile == 0 ? WHOLE : OWN;
        }
        T before = start;
        for (int nearest = 1; nearest <= tile; nearest += 32) {
            const int back = nearest + lane;
            int state = WHOLE;  // nothing lies before the first tile
            T value = start;
            if (back <= tile) {
                do {
                    state = flag[-back];
                } while (state == 0);
                __threadfence();
                value = state == WHOLE ? whole[-back] : own[-back];
            }
            const unsigned ends = __ballot_sync(0xffffffff, state == WHOLE);
            const int last = ends != 0 ? __ffs(ends) - 1 : 31;
            before = Op::join(warp_reduce<Op>(lane <= last ? value : start), before);
            if (ends != 0) {
                break;
            }
        }
        if (lane == 0) {
            earlier = before;
            if (tile > 0) {
                *whole = Op::join(before, total);
                __threadfence();
                *flag = WHOLE;
            }
        }
    }
    __syncthreads();
    return earlier;
}
""",
}
