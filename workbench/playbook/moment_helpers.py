"""Device functions of co-moments: means of two operands, and sums of products of the deviations from them.

Owns their text; co_moments.py says which reductions they make.
"""

from __future__ import annotations

from collections.abc import Mapping

CO_MOMENTS: Mapping[str, str] = {
    "co_moments_struct": """
// Of two values a column: their count and means, and the sums of products and of squares of their deviations
// from these means, of what was seen so far.
struct CoMoments {
    float count;
    float mean;
    float other_mean;
    float cross;
    float squares;
    float other_squares;
};
""",
    "co_moments": """
// One pass instead of two, without the cancellation of E[xy] - E[x]E[y]: where two parts are joined, the sums
// grow by what lies between their means (Chan, Golub and LeVeque, 1983). A count is no extreme number: a fast
// division suffices, while a branch for extremes in each step would keep the next loads from being issued.
struct OnlineCoMoments {
    __device__ static CoMoments add(CoMoments a, float value, float other) {
        const float count = a.count + 1.0f;
        const float from_mean = value - a.mean;
        const float from_other = other - a.other_mean;
        const float mean = a.mean + __fdividef(from_mean, count);
        const float other_mean = a.other_mean + __fdividef(from_other, count);
        return {count, mean, other_mean, a.cross + from_mean * (other - other_mean),
                a.squares + from_mean * (value - mean),
                a.other_squares + from_other * (other - other_mean)};
    }
    __device__ static CoMoments join(CoMoments a, CoMoments b) {
        if (b.count == 0.0f) return a;
        const float count = a.count + b.count;
        const float share = __fdividef(b.count, count);
        const float between = b.mean - a.mean;
        const float other_between = b.other_mean - a.other_mean;
        const float weighed = between * (a.count * share);
        const float other_weighed = other_between * (a.count * share);
        return {count, a.mean + between * share, a.other_mean + other_between * share,
                a.cross + b.cross + weighed * other_between,
                a.squares + b.squares + weighed * between,
                a.other_squares + b.other_squares + other_weighed * other_between};
    }
};
""",
    "co_moments_several": """
// Takes the first `there` of several pairs of values in at once: their own means and sums of products, joined
// with what was seen before. One division, and one wait for the means so far, where each alone would have its
// own.
template <int MOST>
__device__ CoMoments add_several(CoMoments seen, int there, const float (&values)[MOST],
                                 const float (&others)[MOST]) {
    float sum = 0.0f, other_sum = 0.0f;
#pragma unroll
    for (int i = 0; i < MOST; ++i) {
        sum += i < there ? values[i] : 0.0f;
        other_sum += i < there ? others[i] : 0.0f;
    }
    const float mean = sum / there, other_mean = other_sum / there;  // products where `there` is a constant
    float cross = 0.0f, squares = 0.0f, other_squares = 0.0f;
#pragma unroll
    for (int i = 0; i < MOST; ++i) {
        const float from_mean = i < there ? values[i] - mean : 0.0f;
        const float from_other = i < there ? others[i] - other_mean : 0.0f;
        cross += from_mean * from_other;
        squares += from_mean * from_mean;
        other_squares += from_other * from_other;
    }
    return OnlineCoMoments::join(seen, {float(there), mean, other_mean, cross, squares, other_squares});
}
""",
}
"""Texts by the names that kernels ask for."""

CO_MOMENTS_EXCHANGES: Mapping[str, str] = {
    "exchange_co_moments": """
__device__ inline CoMoments exchange(CoMoments m, int offset) {
    return {exchange(m.count, offset), exchange(m.mean, offset), exchange(m.other_mean, offset),
            exchange(m.cross, offset), exchange(m.squares, offset), exchange(m.other_squares, offset)};
}
""",
}
"""How a warp's lanes hand them to one another."""
