"""Device functions of co-moments: means of two operands, and sums of products of the deviations from them.

Owns their text; co_moments.py says which reductions they make.
"""

from __future__ import annotations

from collections.abc import Mapping

CO_MOMENTS: Mapping[str, str] = {
    "co_moments_struct": """
// Of two values a column: their count and means, and the sums of products and of squares of their deviations
// from these means, of what was seen so far. A mean is two numbers, of which the second is what rounding has
// cut off the first: far from zero, two means would else be rounded before their distance is taken.
struct CoMoments {
    float count;
    float mean, rest;
    float other_mean, other_rest;
    float cross;
    float squares, other_squares;
};
""",
    "co_moments": """
// One pass instead of two, without the cancellation of E[xy] - E[x]E[y]: where two parts are joined, the sums
// grow by what lies between their means (Chan, Golub and LeVeque, 1983). A count is no extreme number: a fast
// division suffices, while a branch for extremes in each step would keep the next loads from being issued.
struct OnlineCoMoments {
    // Moves a mean, and keeps what its rounding cuts off.
    __device__ static void move(float& mean, float& rest, float by) {
        const float moved = mean + by;
        const float taken = moved - mean;
        rest += (mean - (moved - taken)) + (by - taken);
        mean = moved;
    }
    __device__ static CoMoments add(CoMoments a, float value, float other) {
        a.count += 1.0f;
        const float from_mean = value - a.mean - a.rest;
        const float from_other = other - a.other_mean - a.other_rest;
        move(a.mean, a.rest, __fdividef(from_mean, a.count));
        move(a.other_mean, a.other_rest, __fdividef(from_other, a.count));
        const float left = value - a.mean - a.rest;
        const float other_left = other - a.other_mean - a.other_rest;
        a.cross += from_mean * other_left;
        a.squares += from_mean * left;
        a.other_squares += from_other * other_left;
        return a;
    }
    __device__ static CoMoments join(CoMoments a, CoMoments b) {
        if (b.count == 0.0f) return a;
        // One, and not nearly one, where nothing was seen before: the means are then taken over as they are.
        const float share = a.count == 0.0f ? 1.0f : __fdividef(b.count, a.count + b.count);
        const float apart = b.mean - a.mean, rest_apart = b.rest - a.rest;
        const float other_apart = b.other_mean - a.other_mean, other_rest_apart = b.other_rest - a.other_rest;
        const float between = apart + rest_apart, other_between = other_apart + other_rest_apart;
        const float weight = a.count * share;
        a.cross += b.cross + between * weight * other_between;
        a.squares += b.squares + between * weight * between;
        a.other_squares += b.other_squares + other_between * weight * other_between;
        move(a.mean, a.rest, apart * share);
        move(a.other_mean, a.other_rest, other_apart * share);
        a.rest += rest_apart * share;
        a.other_rest += other_rest_apart * share;
        a.count += b.count;
        return a;
    }
};
""",
    "co_moments_several": """
// Takes the first `there` of several pairs of values in at once: their own means and sums of products, joined
// with what was seen before. One division, and one wait for the means so far, where each alone would have its
// own. What is left of the deviations when they are summed is what rounding has cut off the means.
template <int MOST>
__device__ CoMoments add_several(CoMoments seen, int there, const float (&values)[MOST],
                                 const float (&others)[MOST]) {
    float sum = 0.0f, other_sum = 0.0f;
#pragma unroll
    for (int i = 0; i < MOST; ++i) {
        sum += i < there ? values[i] : 0.0f;
        other_sum += i < there ? others[i] : 0.0f;
    }
    const float share = 1.0f / there;  // known where `there` is a constant
    const float mean = sum * share, other_mean = other_sum * share;
    float left = 0.0f, other_left = 0.0f, cross = 0.0f, squares = 0.0f, other_squares = 0.0f;
#pragma unroll
    for (int i = 0; i < MOST; ++i) {
        const float from_mean = i < there ? values[i] - mean : 0.0f;
        const float from_other = i < there ? others[i] - other_mean : 0.0f;
        left += from_mean;
        other_left += from_other;
        cross += from_mean * from_other;
        squares += from_mean * from_mean;
        other_squares += from_other * from_other;
    }
    const float rest = left * share, other_rest = other_left * share;
    return OnlineCoMoments::join(seen, {float(there), mean, rest, other_mean, other_rest,
                                        cross - left * other_rest, squares - left * rest,
                                        other_squares - other_left * other_rest});
}
""",
}
"""Texts by the names that kernels ask for."""

CO_MOMENTS_EXCHANGES: Mapping[str, str] = {
    "exchange_co_moments": """
__device__ inline CoMoments exchange(CoMoments m, int offset) {
    return {exchange(m.count, offset), exchange(m.mean, offset), exchange(m.rest, offset),
            exchange(m.other_mean, offset), exchange(m.other_rest, offset), exchange(m.cross, offset),
            exchange(m.squares, offset), exchange(m.other_squares, offset)};
}
""",
}
"""How a warp's lanes hand them to one another."""
