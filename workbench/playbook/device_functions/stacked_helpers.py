"""CUDA functions of scans whose rows lie side by side: within a block, and among the pieces of its rows.

Owns their texts, in an order that compiles; cuda_helpers.py puts them among the others.
"""

from __future__ import annotations

from collections.abc import Mapping

STACKED: Mapping[str, str] = {
    "stacked_scan": """
// What comes before each thread where groups of LANES threads stand one below the other, each with VEC rows
// of its own: within a warp by shuffles, then over the warps' totals. `whole` is the total of all groups.
template <typename Op, int LANES, int VEC, typename T>
__device__ void stacked_scan(T (&values)[VEC], T (&whole)[VEC], T start) {
    constexpr int WARPS = THREADS / 32;
    __shared__ T totals[WARPS][LANES * VEC];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = lane % LANES * VEC;
#pragma unroll
    for (int k = 0; k < VEC; ++k) {
        T value = values[k];
        values[k] = start;
        if constexpr (LANES < 32) {
#pragma unroll
            for (int offset = LANES; offset < 32; offset *= 2) {
                const T above = __shfl_up_sync(0xffffffff, value, offset);
                value = lane >= offset ? Op::join(above, value) : value;
            }
            const T above = __shfl_up_sync(0xffffffff, value, LANES);
            values[k] = lane >= LANES ? above : start;
        }
        if (lane >= 32 - LANES) {
            totals[warp][first + k] = value;
        }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < VEC; ++k) {
        T before = start;
        whole[k] = start;
#pragma unroll
        for (int other = 0; other < WARPS; ++other) {
            before = other == warp ? whole[k] : before;
            whole[k] = Op::join(whole[k], totals[other][first + k]);
        }
        values[k] = Op::join(before, values[k]);
    }
    __syncthreads();  // totals may be written again only when everybody has read them
}
""",
    "pieces_before": """
// A total in words: 32 bits of it in each, beside a one that says they are there. So no fence need stand
// between a total and the news of it; a word that is zero says nothing yet.
template <typename T>
union InWords {
    T total;
    unsigned int part[sizeof(T) / 4];
};

template <int VEC, typename T>
__device__ void tell_totals(volatile unsigned long long* told, const T (&totals)[VEC]) {
    constexpr int WORDS = sizeof(T) / 4;
#pragma unroll
    for (int k = 0; k < VEC; ++k) {
        InWords<T> own;
        own.total = totals[k];
#pragma unroll
        for (int i = 0; i < WORDS; ++i) {
            told[k * WORDS + i] = 1ull << 32 | own.part[i];
        }
    }
}

// Joins the totals that `count` neighbouring pieces have told, or will. All words are asked for before the
// first is waited for.
template <typename Op, int MOST, int VEC, typename T>
__device__ void join_told(T (&joined)[VEC], const volatile unsigned long long* told, int apart, int count) {
    constexpr int WORDS = sizeof(T) / 4;
    unsigned long long word[MOST][VEC * WORDS];
#pragma unroll
    for (int piece = 0; piece < MOST; ++piece) {
#pragma unroll
        for (int i = 0; i < VEC * WORDS; ++i) {
            word[piece][i] = piece < count ? told[piece * apart + i] : 0;
        }
    }
#pragma unroll
    for (int piece = 0; piece < MOST; ++piece) {
        if (piece < count) {
#pragma unroll
            for (int k = 0; k < VEC; ++k) {
                InWords<T> other;
#pragma unroll
                for (int i = 0; i < WORDS; ++i) {
                    while (word[piece][k * WORDS + i] == 0) {
                        word[piece][k * WORDS + i] = told[piece * apart + k * WORDS + i];
                    }
                    other.part[i] = unsigned(word[piece][k * WORDS + i]);
                }
                joined[k] = Op::join(joined[k], other.total);
            }
        }
    }
}

// What the pieces of these rows before this one amount to. A piece tells its own total, for which it needs
// nobody; each 32nd tells the total of everything up to its end instead. So whoever comes first, a piece
// joins the same totals in the same order: those since the last 32nd, of which each group has a share.
template <typename Op, int LANES, int VEC, typename T>
__device__ void pieces_before(const T (&own)[VEC], T (&before)[VEC], T start,
                              volatile unsigned long long* told, int piece, int pieces) {
    constexpr int WORDS = sizeof(T) / 4, APART = LANES * VEC * WORDS;
    constexpr int GROUPS = THREADS / LANES, SHARE = GROUPS < 32 ? 32 / GROUPS : 1;
    const int group = threadIdx.x / LANES, stretch = piece / 32, nearest = stretch * 32 + group * SHARE;
    told += threadIdx.x % LANES * VEC * WORDS;
    volatile unsigned long long* up_to = told + pieces * APART;  // behind the words of pieces
    const bool tells_own = piece % 32 < 31, is_heard = group == 0 && piece + 1 < pieces;
    if (is_heard && tells_own) {
        tell_totals(told + piece * APART, own);
    }
    T heard[VEC];
#pragma unroll
    for (int k = 0; k < VEC; ++k) {
        heard[k] = start;
    }
    if (group == 0 && stretch > 0) {
        join_told<Op, 1>(heard, up_to + (stretch - 1) * APART, APART, 1);
    }
    join_told<Op, SHARE>(heard, told + nearest * APART, APART, piece - nearest);
    stacked_scan<Op, LANES>(heard, before, start);
    if (is_heard && !tells_own) {
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            heard[k] = Op::join(before[k], own[k]);
        }
        tell_totals(up_to + stretch * APART, heard);
    }
}

// The last piece of these rows to have heard the others clears what all have told, for the next launch.
__device__ void forget_pieces(unsigned long long* told, int words, bool last) {
    if (__syncthreads_or(last)) {
        __threadfence();
        for (int i = threadIdx.x; i < words; i += THREADS) {
            told[i] = 0;
        }
    }
}
""",
}
