"""Device functions of sums of exponentials that go along with the maximum they are relative to.

Owns their text, and that of the exponential they take.
"""

from __future__ import annotations

from collections.abc import Mapping

SOFTMAX: Mapping[str, str] = {
    "exp_below": """
// exp of a distance from a maximum, never positive, for a sum in which the maximum itself counts as 1.
// The hardware's power of two, without the six instructions that expf has for the last digits of results near
// 0: exp(d) is off by |d| / 2^24 of itself, which is never more than 0.4 / 2^24. Below 2^-126 it is 0.
__device__ inline float exp_below(float distance) {
    float power = distance * 1.44269504f;  // the logarithm of e to the base 2
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(power));
    return power;
}
""",
    "take_vector": """
// Takes a vector in at once, or one of each of two rows: their maxima first, so that the sums so far change
// scale once, and not at every element.
template <typename Op, typename A, int VEC, typename... Others>
__device__ A take_vector(A a, const float (&values)[VEC], const Others&... others) {
    A to = a;
#pragma unroll
    for (int k = 0; k < VEC; ++k) {
        to = Op::raised(to, values[k], others[k]...);
    }
    a = Op::moved(a, to);
#pragma unroll
    for (int k = 0; k < VEC; ++k) {
        a = Op::taken(a, values[k], others[k]...);
    }
    return a;
}
""",
    "take_vectors": """
// Takes several vectors in at once, as many as are there: all maxima first, so that the sums so far change
// scale once.
template <typename Op, typename A, int MANY, int VEC, typename... Others>
__device__ A take_vectors(A a, int there, const float (&values)[MANY][VEC], const Others&... others) {
    A to = a;
#pragma unroll
    for (int i = 0; i < MANY; ++i) {
        if (i < there) {
#pragma unroll
            for (int k = 0; k < VEC; ++k) {
                to = Op::raised(to, values[i][k], others[i][k]...);
            }
        }
    }
    a = Op::moved(a, to);
#pragma unroll
    for (int i = 0; i < MANY; ++i) {
        if (i < there) {
#pragma unroll
            for (int k = 0; k < VEC; ++k) {
                a = Op::taken(a, values[i][k], others[i][k]...);
            }
        }
    }
    return a;
}
""",
    "softmax": """
// One pass instead of two: when the maximum grows, the sum so far is rescaled to it.
struct OnlineSoftmax {
    // One value: either it or the sum is scaled, by exp of minus their distance; one exponential, no branch.
    __device__ static Running add(Running a, float value) {
        const float distance = value - a.top;
        const float scale = exp_below(-fabsf(distance));
        // value - value is 0, but NaN for infinity, as it would be in two passes.
        const float rescaled = a.sum * scale + (1.0f + (value - value));
        return distance > 0.0f ? Running{value, rescaled} : Running{a.top, a.sum + scale};
    }
    // In three steps, each of which is made for all values at hand before the next.
    __device__ static Running raised(Running a, float value) { return {fmaxf(a.top, value), a.sum}; }
    __device__ static Running moved(Running a, Running to) {
        return {to.top, a.sum * exp_below(a.top - to.top)};
    }
    __device__ static Running taken(Running a, float value) {
        return {a.top, a.sum + exp_below(value - a.top)};
    }
    __device__ static Running join(Running a, Running b) {
        const float top = larger(a.top, b.top);
        return {top, a.sum * exp_below(a.top - top) + b.sum * exp_below(b.top - top)};
    }
};
""",
    "logsum": """
// The same where only the logarithm is wanted. The largest is never infinite: as in two passes, which take 0
// in its place, an infinite value then leaves an infinite sum, and not NaN.
struct OnlineLogSum : OnlineSoftmax {
    __device__ static Running add(Running a, float value) {
        const float capped = value > FLT_MAX ? FLT_MAX : value;
        const float distance = capped - a.top;
        const float scale = exp_below(-fabsf(distance));
        const float rescaled = a.sum * scale + (1.0f + (value - capped));
        return distance > 0.0f ? Running{capped, rescaled} : Running{a.top, a.sum + scale};
    }
    __device__ static Running raised(Running a, float value) {
        return {fmaxf(a.top, fminf(value, FLT_MAX)), a.sum};
    }
};
""",
    "running_logsum": """
// The logarithm of a sum of exponentials on its way: the largest value so far, and the sum of exponentials
// of distances from it. One exponential for each value or join, and a logarithm only of what is stored.
// The largest is never infinite: an infinite value leaves an infinite sum, and not NaN.
struct RunningLogSum {
    __device__ static Running add(Running a, float value) {
        const float capped = value > FLT_MAX ? FLT_MAX : value, distance = capped - a.top;
        const float scale = exp_below(-fabsf(distance));
        const float rescaled = a.sum * scale + (1.0f + (value - capped));
        return distance >= 0.0f ? Running{capped, rescaled} : Running{a.top, a.sum + scale};
    }
    __device__ static Running join(Running a, Running b) {
        const float distance = b.top - a.top, scale = exp_below(-fabsf(distance));
        return distance > 0.0f ? Running{b.top, a.sum * scale + b.sum}
                               : Running{a.top, a.sum + b.sum * scale};
    }
};
""",
    "logsum_of_values": """
// The values of a thread: their largest first, so that the sum never changes scale.
template <int MANY>
__device__ Running logsum_of(const float (&values)[MANY]) {
    Running all{-FLT_MAX, 0.0f};
#pragma unroll
    for (int k = 0; k < MANY; ++k) {
        all.top = fmaxf(all.top, fminf(values[k], FLT_MAX));
    }
#pragma unroll
    for (int k = 0; k < MANY; ++k) {
        all.sum += exp_below(values[k] - all.top);
    }
    return all;
}
""",
}
"""Texts by the names that kernels ask for."""
