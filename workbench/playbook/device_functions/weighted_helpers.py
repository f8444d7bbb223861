"""Device functions of sums weighted with exponentials, which go along with the maxima they are relative to.

Owns their text; weighted_sums.py says which reductions they make.
"""

from __future__ import annotations

from collections.abc import Mapping

WEIGHTED: Mapping[str, str] = {
    "weighted_struct": """
// A maximum, the sum of the weights exp(value - maximum), and the sum of what has these weights.
struct Weighted {
    float top;
    float sum;
    float along;
};
""",
    "weighted": """
// One pass instead of two: when the maximum grows, all weights so far shrink by the same factor. fmaxf passes
// NaN by, the sums do not.
struct OnlineWeighted {
    __device__ static Weighted raised(Weighted a, float value, float other) {
        return {fmaxf(a.top, value), a.sum, a.along};
    }
    __device__ static Weighted moved(Weighted a, Weighted to) {
        const float scale = exp_below(a.top - to.top);
        return {to.top, a.sum * scale, a.along * scale};
    }
    __device__ static Weighted taken(Weighted a, float value, float other) {
        const float weight = exp_below(value - a.top);
        return {a.top, a.sum + weight, a.along + weight * other};
    }
    __device__ static Weighted add(Weighted a, float value, float other) {
        return taken(moved(a, raised(a, value, other)), value, other);
    }
    __device__ static Weighted join(Weighted a, Weighted b) {
        const float top = fmaxf(a.top, b.top);
        const float by = exp_below(a.top - top), other_by = exp_below(b.top - top);
        return {top, a.sum * by + b.sum * other_by, a.along * by + b.along * other_by};
    }
};
""",
    "distances_struct": """
// A maximum, the sum of exponentials relative to it, and the sum of how far the count of values lie below it.
struct Distances {
    float top;
    float sum;
    float below;
    float count;
};
""",
    "distances": """
// One pass instead of two: when the maximum grows, every value so far lies as much further below it. What is
// added up are distances: sums of large values would cancel. fmaxf passes NaN by, the sums do not.
struct OnlineDistances {
    __device__ static Distances raised(Distances a, float value) {
        a.top = fmaxf(a.top, value);
        return a;
    }
    // What has seen no value yet does not move: it would be by more than a float holds, times 0.
    __device__ static Distances moved(Distances a, Distances to) {
        const float down = a.count == 0.0f ? 0.0f : a.top - to.top;
        return {to.top, a.sum * exp_below(down), a.below + a.count * down, a.count};
    }
    __device__ static Distances taken(Distances a, float value) {
        const float distance = value - a.top;
        return {a.top, a.sum + exp_below(distance), a.below + distance, a.count + 1.0f};
    }
    __device__ static Distances add(Distances a, float value) {
        return taken(moved(a, raised(a, value)), value);
    }
    __device__ static Distances join(Distances a, Distances b) {
        const Distances to = raised(a, b.top);
        a = moved(a, to);
        b = moved(b, to);
        return {to.top, a.sum + b.sum, a.below + b.below, a.count + b.count};
    }
};
""",
    "divergence": """
// Of two rows: a maximum and the sum of exponentials relative to it each. The exponentials of the first are
// weights: of the distances from the second's maximum, summed up in cross, and from the first's, in own.
struct Divergence {
    float top;
    float sum;
    float other_top;
    float other_sum;
    float cross;
    float own;
};

// One pass instead of three: when a maximum grows, the distances so far grow by as much, each times its
// weight, and the weights shrink by one factor. With ZERO, what weighs nothing
// counts as nothing, were it infinitely far: 0 times the lowest float. fmaxf passes NaN by, the sums do not.
template <bool ZERO>
struct OnlineDivergence {
    __device__ static Divergence raised(Divergence a, float value, float other) {
        a.top = fmaxf(a.top, value);
        a.other_top = fmaxf(a.other_top, other);
        return a;
    }
    __device__ static Divergence taken(Divergence a, float value, float other) {
        const float distance = value - a.top;
        const float other_distance = other - a.other_top;
        const float weight = exp_below(distance);
        a.sum += weight;
        a.other_sum += exp_below(other_distance);
        a.cross += weight * other_distance;
        a.own += weight * (ZERO ? fmaxf(distance, -FLT_MAX) : distance);
        return a;
    }
    __device__ static Divergence add(Divergence a, float value, float other) {
        return taken(moved(a, raised(a, value, other)), value, other);
    }
    // The same sums relative to larger maxima; where all weights vanish, or none was seen yet, how far these
    // were below does not matter.
    __device__ static Divergence moved(Divergence a, Divergence to) {
        const float down = fmaxf(a.top - to.top, -1000.0f);
        const float scale = exp_below(down);
        const float sum = a.sum * scale;
        const float other_down = sum == 0.0f ? 0.0f : a.other_top - to.other_top;
        return {to.top, sum, to.other_top, a.other_sum * exp_below(a.other_top - to.other_top),
                (a.cross + other_down * a.sum) * scale, (a.own + down * a.sum) * scale};
    }
    __device__ static Divergence join(Divergence a, Divergence b) {
        const Divergence to = raised(a, b.top, b.other_top);
        a = moved(a, to);
        b = moved(b, to);
        return {to.top, a.sum + b.sum, to.other_top, a.other_sum + b.other_sum,
                a.cross + b.cross, a.own + b.own};
    }
};
""",
}
"""Texts by the names that kernels ask for."""

WEIGHTED_EXCHANGES: Mapping[str, str] = {
    "exchange_weighted": """
// The lanes of a warp learn the one maximum first: what goes with it is then scaled once, not at every step.
template <typename Op, int LANES = 32>
__device__ Weighted warp_reduce(Weighted w) {
    float top = w.top;
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        top = fmaxf(top, exchange(top, offset));
    }
    const float scale = exp_below(w.top - top);
    w = {top, w.sum * scale, w.along * scale};
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        w.sum += exchange(w.sum, offset);
        w.along += exchange(w.along, offset);
    }
    return w;
}
""",
    "exchange_distances": """
// The lanes of a warp learn the one maximum first: what goes with it is then moved once, not at every step.
template <typename Op, int LANES = 32>
__device__ Distances warp_reduce(Distances d) {
    Distances to = d;
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        to = Op::raised(to, exchange(to.top, offset));
    }
    d = Op::moved(d, to);
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        d.sum += exchange(d.sum, offset);
        d.below += exchange(d.below, offset);
        d.count += exchange(d.count, offset);
    }
    return d;
}
""",
    "exchange_divergence": """
// The lanes of a warp learn the two maxima first: what goes with them is then moved once, not at every step.
template <typename Op, int LANES = 32>
__device__ Divergence warp_reduce(Divergence d) {
    Divergence to = d;
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        to = Op::raised(to, exchange(to.top, offset), exchange(to.other_top, offset));
    }
    d = Op::moved(d, to);
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        d.sum += exchange(d.sum, offset);
        d.other_sum += exchange(d.other_sum, offset);
        d.cross += exchange(d.cross, offset);
        d.own += exchange(d.own, offset);
    }
    return d;
}
""",
}
"""How a warp joins them; these stand behind the exchange of a number."""
