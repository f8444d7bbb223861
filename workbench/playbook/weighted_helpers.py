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
// One pass instead of two: when the maximum grows, all weights so far shrink by the same factor. A vector has
// one new maximum and one factor. fmaxf passes NaN by, the sums do not.
struct OnlineWeighted {
    template <int VEC>
    __device__ static Weighted add(Weighted a, const float (&values)[VEC], const float (&others)[VEC]) {
        float top = a.top;
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            top = fmaxf(top, values[k]);
        }
        const float scale = expf(a.top - top);
        a = {top, a.sum * scale, a.along * scale};
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            const float weight = expf(values[k] - top);
            a.sum += weight;
            a.along += weight * others[k];
        }
        return a;
    }
    __device__ static Weighted add(Weighted a, float value, float other) {
        const float values[1] = {value}, others[1] = {other};
        return add(a, values, others);
    }
    __device__ static Weighted join(Weighted a, Weighted b) {
        const float top = fmaxf(a.top, b.top);
        const float by = expf(a.top - top), other_by = expf(b.top - top);
        return {top, a.sum * by + b.sum * other_by, a.along * by + b.along * other_by};
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
// weight, and the weights shrink by one factor; a vector has one new maximum. With ZERO, what weighs nothing
// counts as nothing, were it infinitely far. fmaxf passes NaN by, the sums do not.
template <bool ZERO>
struct OnlineDivergence {
    template <int VEC>
    __device__ static Divergence add(Divergence a, const float (&values)[VEC], const float (&others)[VEC]) {
        float top = a.top, other_top = a.other_top;
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            top = fmaxf(top, values[k]);
            other_top = fmaxf(other_top, others[k]);
        }
        a = moved(a, top, other_top);
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            const float distance = values[k] - top;
            const float other = others[k] - other_top;
            const float weight = expf(distance);
            a.sum += weight;
            a.other_sum += expf(other);
            a.cross += weight * other;
            a.own += ZERO && weight == 0.0f ? 0.0f : weight * distance;
        }
        return a;
    }
    __device__ static Divergence add(Divergence a, float value, float other) {
        const float values[1] = {value}, others[1] = {other};
        return add(a, values, others);
    }
    // The same sums relative to larger maxima; where all weights vanish, or none was seen yet, how far these
    // were below does not matter.
    __device__ static Divergence moved(Divergence a, float top, float other_top) {
        const float down = fmaxf(a.top - top, -1000.0f);
        const float scale = expf(down);
        const float sum = a.sum * scale;
        const float other_down = sum == 0.0f ? 0.0f : a.other_top - other_top;
        return {top, sum, other_top, a.other_sum * expf(a.other_top - other_top),
                (a.cross + other_down * a.sum) * scale, (a.own + down * a.sum) * scale};
    }
    __device__ static Divergence join(Divergence a, Divergence b) {
        const float top = fmaxf(a.top, b.top), other_top = fmaxf(a.other_top, b.other_top);
        a = moved(a, top, other_top);
        b = moved(b, top, other_top);
        return {top, a.sum + b.sum, other_top, a.other_sum + b.other_sum, a.cross + b.cross, a.own + b.own};
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
    const float scale = expf(w.top - top);
    w = {top, w.sum * scale, w.along * scale};
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        w.sum += exchange(w.sum, offset);
        w.along += exchange(w.along, offset);
    }
    return w;
}
""",
    "exchange_divergence": """
// The lanes of a warp learn the two maxima first: what goes with them is then moved once, not at every step.
template <typename Op, int LANES = 32>
__device__ Divergence warp_reduce(Divergence d) {
    float top = d.top, other_top = d.other_top;
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        top = fmaxf(top, exchange(top, offset));
        other_top = fmaxf(other_top, exchange(other_top, offset));
    }
    d = Op::moved(d, top, other_top);
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
