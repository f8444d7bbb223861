"""Device functions that generated kernels share: NaN-aware comparison, reductions, and those of other files.

Owns their text. Each is emitted once, only when a kernel asks for it, in the order of ``_TEXTS``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from workbench.playbook.device_functions.cluster_helpers import CLUSTERS
from workbench.playbook.device_functions.division_helpers import DIVISIONS
from workbench.playbook.device_functions.memory_helpers import MEMORY
from workbench.playbook.device_functions.moment_helpers import CO_MOMENTS, CO_MOMENTS_EXCHANGES
from workbench.playbook.device_functions.place_helpers import PLACE_OF_VALUE, PLACES
from workbench.playbook.device_functions.scan_helpers import SCANS
from workbench.playbook.device_functions.scatter_helpers import SCATTERS
from workbench.playbook.device_functions.softmax_helpers import SOFTMAX
from workbench.playbook.device_functions.split_helpers import SPLITS
from workbench.playbook.device_functions.stacked_helpers import STACKED
from workbench.playbook.device_functions.tensor_core_helpers import TENSOR_CORES
from workbench.playbook.device_functions.weighted_helpers import WEIGHTED, WEIGHTED_EXCHANGES

_TEXTS: Mapping[str, str] = {
    "larger": """
// The larger of two; NaN wins, as in torch.
template <typename T>
__device__ T larger(T a, T b) {
    return a > b || a != a ? a : b;
}
// Of floats that is one instruction, where C++ needs two comparisons and a choice.
template <>
__device__ inline float larger(float a, float b) {
    float most = a;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
    return most;
}
""",
    "smaller": """
// The smaller of two; NaN wins, as in torch.
template <typename T>
__device__ T smaller(T a, T b) {
    return a < b || a != a ? a : b;
}
// Of floats that is one instruction, where C++ needs two comparisons and a choice.
template <>
__device__ inline float smaller(float a, float b) {
    float least = a;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(least) : "f"(a), "f"(b));
    return least;
}
""",
    "sign": """
// -1, 0 or 1; of NaN it is 0, as torch has it.
template <typename T>
__device__ T sign(T a) {
    return T((a > 0) - (a < 0));
}
""",
    "left_by": """
// Shifted by any number of places, as torch has it: all bits are gone beyond the width.
template <typename T>
__device__ T left_by(T a, T by) {
    return by < 0 || by >= T(8 * sizeof(T)) ? T(0) : T(a << by);
}
""",
    "right_by": """
// Shifted by any number of places, as torch has it: the sign is left beyond the width.
template <typename T>
__device__ T right_by(T a, T by) {
    const T last = T(8 * sizeof(T) - 1);
    return a >> (by < 0 || by > last ? last : by);
}
""",
    "floordiv": """
// Quotient rounded down, as Python's //.
template <typename T>
__device__ T floordiv(T a, T b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
""",
    "floordiv_f32": """
// Quotient rounded down, as Python's //: from the exact remainder, since a / b may be rounded up to a whole
// number.
__device__ inline float floordiv(float a, float b) {
    if (b == 0.0f) return a / b;
    const float rest = fmodf(a, b);
    const float steps = (a - rest) / b - float(rest != 0.0f && (rest < 0.0f) != (b < 0.0f));
    return steps == 0.0f ? copysignf(0.0f, a / b) : rintf(steps);
}
""",
    "floordiv_f64": """
// Quotient rounded down, as Python's //: from the exact remainder, since a / b may be rounded up to a whole
// number.
__device__ inline double floordiv(double a, double b) {
    if (b == 0.0) return a / b;
    const double rest = fmod(a, b);
    const double steps = (a - rest) / b - double(rest != 0.0 && (rest < 0.0) != (b < 0.0));
    return steps == 0.0 ? copysign(0.0, a / b) : rint(steps);
}
""",
    **DIVISIONS,
    "python_mod": """
// Remainder with the sign of the divisor, as Python's %.
template <typename T>
__device__ T python_mod(T a, T b) {
    const T rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
""",
    "python_mod_f32": """
// Remainder with the sign of the divisor, as Python's %.
__device__ inline float python_mod(float a, float b) {
    const float rest = fmodf(a, b);
    return rest != 0.0f && (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}
""",
    "python_mod_f64": """
// Remainder with the sign of the divisor, as Python's %.
__device__ inline double python_mod(double a, double b) {
    const double rest = fmod(a, b);
    return rest != 0.0 && (rest < 0.0) != (b < 0.0) ? rest + b : rest;
}
""",
    "byte_of": """
// A float as a byte: through int, so that -5 wraps round to 251 as it does in torch. CUDA by itself makes 0
// of all that is negative.
template <typename T>
__device__ unsigned char byte_of(T value) {
    return static_cast<unsigned char>(static_cast<int>(value));
}
""",
    "nearest_bf16": """
// The nearest number that bfloat16 has, as a float. A conversion of two numbers at once, of which one is not
// needed: that of a single one, which is then computed with, goes through a unit a quarter as fast.
__device__ inline float nearest_bf16(float value) {
    return __high2float(__floats2bfloat162_rn(0.0f, value));
}
""",
    "integer_power": """
// Whole power by repeated squaring; it wraps around as torch's does. A negative exponent leaves
// 1 and -1 as they are, up to the sign, and makes 0 of everything else.
template <typename T>
__device__ T integer_power(T base, T exponent) {
    if (exponent < 0) {
        return base == 1 ? 1 : base != -1 ? 0 : exponent % 2 == 0 ? 1 : -1;
    }
    T result = 1;
    for (; exponent > 0; exponent /= 2) {
        if (exponent % 2 == 1) result *= base;
        base *= base;
    }
    return result;
}
""",
    **MEMORY,
    **PLACE_OF_VALUE,
    "running": """
// A maximum and the sum of exponentials relative to it.
struct Running {
    float top;
    float sum;
};
""",
    "moments": """
// Count, mean and sum of squared deviations of what was seen so far (Welford, Chan et al.).
struct Moments {
    float count;
    float mean;
    float squares;
};
""",
    "logistic": """
__device__ float logistic(float x) { return 1.0f / (1.0f + expf(-x)); }
""",
    "sum": """
struct Sum {
    template <typename T>
    __device__ static T join(T a, T b) { return a + b; }
};
""",
    "prod": """
struct Product {
    template <typename T>
    __device__ static T join(T a, T b) { return a * b; }
};
""",
    "max": """
struct Max {
    template <typename T>
    __device__ static T join(T a, T b) { return larger(a, b); }
};
""",
    "min": """
struct Min {
    template <typename T>
    __device__ static T join(T a, T b) { return smaller(a, b); }
};
""",
    "fast_erf": """
// erf, off by two millionths at most, small results too, in half of erff's instructions.
// Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.28.
__device__ inline float fast_erf(float x) {
    const float t = fabsf(x);
    float p = fmaf(t, 4.30638e-5f, 2.765672e-4f);
    p = fmaf(t, p, 1.520143e-4f);
    p = fmaf(t, p, 9.2705272e-3f);
    p = fmaf(t, p, 4.22820123e-2f);
    p = fmaf(t, p, 7.05230784e-2f);
    p = fmaf(t, p, 1.0f);
    p *= p;
    p *= p;
    p *= p;
    p *= p;
    return copysignf(1.0f - __fdividef(1.0f, p), x);
}
""",
    "logsumexp": """
// log(exp(a) + exp(b)) without overflow; two infinities of one sign stay what they are.
struct LogSumExp {
    template <typename T>
    __device__ static T join(T a, T b) {
        const T top = larger(a, b), less = smaller(a, b);
        return top == less && isinf(top) ? top : top + log1p(exp(less - top));
    }
};
""",
    "lastmax": """
// The larger of two and its place; of equals the later one, as torch.cummax has it. NaN wins.
struct LastMax {
    template <typename T>
    __device__ static Best<T> join(Best<T> a, Best<T> b) {
        return b.value != b.value || (a.value == a.value && b.value >= a.value) ? b : a;
    }
};
""",
    "lastmin": """
// The smaller of two and its place; of equals the later one, as torch.cummin has it. NaN wins.
struct LastMin {
    template <typename T>
    __device__ static Best<T> join(Best<T> a, Best<T> b) {
        return b.value != b.value || (a.value == a.value && b.value <= a.value) ? b : a;
    }
};
""",
    "any": """
struct Any {
    __device__ static bool join(bool a, bool b) { return a || b; }
};
""",
    "all": """
struct All {
    __device__ static bool join(bool a, bool b) { return a && b; }
};
""",
    **PLACES,
    **SOFTMAX,
    "welford": """
// One pass instead of two, without the cancellation of E[x^2] - E[x]^2. A count is no extreme number: a fast
// division suffices, while a branch for extremes in each step would keep the next loads from being issued.
struct Welford {
    __device__ static Moments add(Moments a, float value) {
        const float count = a.count + 1.0f;
        const float difference = value - a.mean;
        const float mean = a.mean + __fdividef(difference, count);
        return {count, mean, a.squares + difference * (value - mean)};
    }
    __device__ static Moments join(Moments a, Moments b) {
        if (b.count == 0.0f) return a;
        const float count = a.count + b.count;
        const float difference = b.mean - a.mean;
        const float share = __fdividef(b.count, count);
        const float squares = a.squares + b.squares + difference * (a.count * share) * difference;
        return {count, a.mean + difference * share, squares};
    }
};
""",
    "welford_vector": """
// Takes a vector in at once: its own mean and squared deviations, joined with what was seen before. One
// division, and one wait for the mean so far, where its elements one by one would each have their own.
template <int VEC>
__device__ Moments add_vector(Moments seen, const float (&values)[VEC]) {
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < VEC; ++k) {
        sum += values[k];
    }
    const float mean = sum * (1.0f / VEC);
    float squares = 0.0f;
#pragma unroll
    for (int k = 0; k < VEC; ++k) {
        squares += (values[k] - mean) * (values[k] - mean);
    }
    return Welford::join(seen, {VEC, mean, squares});
}
""",
    "welford_several": """
// Takes the first `there` of several values in at once: their own mean and squared deviations, joined with
// what was seen before. One division, and one wait for the mean so far, where each alone would have its own.
template <int MOST>
__device__ Moments add_several(Moments seen, int there, const float (&values)[MOST]) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < MOST; ++i) {
        sum += i < there ? values[i] : 0.0f;
    }
    const float mean = sum / there;  // a product where `there` is a constant
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < MOST; ++i) {
        const float difference = i < there ? values[i] - mean : 0.0f;
        squares += difference * difference;
    }
    return Welford::join(seen, {float(there), mean, squares});
}
""",
    **CO_MOMENTS,
    **WEIGHTED,
    "exchange": """
template <typename T>
__device__ T exchange(T value, int offset) {
    return __shfl_xor_sync(0xffffffff, value, offset);
}
""",
    "exchange_best": """
template <typename T>
__device__ Best<T> exchange(Best<T> best, int offset) {
    return {exchange(best.value, offset), exchange(best.column, offset)};
}
""",
    "exchange_running": """
// Maxima with their sums: the largest of all first, then each sum relative to it. One exponential a lane,
// where joining two by two takes two at every exchange. A maximum is never NaN: NaN is in the sums.
template <typename Op, int LANES = 32>
__device__ Running warp_reduce(Running value) {
    float top = value.top;
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        top = fmaxf(top, exchange(top, offset));
    }
    float sum = value.sum * exp_below(value.top - top);
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        sum += exchange(sum, offset);
    }
    return {top, sum};
}
""",
    "exchange_moments": """
__device__ inline Moments exchange(Moments m, int offset) {
    return {exchange(m.count, offset), exchange(m.mean, offset), exchange(m.squares, offset)};
}
""",
    **CO_MOMENTS_EXCHANGES,
    **WEIGHTED_EXCHANGES,
    "warp_reduce": """
// Butterfly: after log2(LANES) exchanges every lane has the result of its group.
template <typename Op, int LANES = 32, typename T>
__device__ T warp_reduce(T value) {
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        value = Op::join(value, exchange(value, offset));
    }
    return value;
}
""",
    "join_lanes": """
// What each of SIZE values comes to over the lanes of a warp. A lane gives away half of its values and takes
// the other half of a neighbour's, until it has few: 62 exchanges for 64 values, where each by itself takes
// five. Lane l is left with the results from l * SIZE / 32 on.
template <typename Op, int LEFT, int REACH = 16, typename T, int SIZE>
__device__ void join_lanes(T (&values)[SIZE]) {
    if constexpr (LEFT > 1) {
        const bool upper = (threadIdx.x & REACH) != 0;
#pragma unroll
        for (int at = 0; at < LEFT / 2; ++at) {
            const T given = upper ? values[at] : values[at + LEFT / 2];
            const T kept = upper ? values[at + LEFT / 2] : values[at];
            values[at] = Op::join(kept, __shfl_xor_sync(0xffffffff, given, REACH));
        }
    } else {
        values[0] = Op::join(values[0], __shfl_xor_sync(0xffffffff, values[0], REACH));
    }
    if constexpr (REACH > 1) {
        join_lanes<Op, (LEFT > 1 ? LEFT / 2 : 1), REACH / 2>(values);
    }
}
""",
    "block_reduce": """
// Every warp reduces with shuffles; one value a warp goes through shared memory.
template <typename Op, typename T>
__device__ T block_reduce(T value) {
    constexpr int WARPS = THREADS / 32;
    __shared__ T partial[WARPS];
    value = warp_reduce<Op>(value);
    if (threadIdx.x % 32 == 0) {
        partial[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = warp_reduce<Op, WARPS>(partial[threadIdx.x % WARPS]);
    __syncthreads();  // partial may be written again only when everybody has read it
    return value;
}
""",
    "block_reduce_both": """
// Two values at once: both go through shared memory between one pair of barriers, and the shuffles of one
// fill the waits of the other's.
template <typename OpA, typename OpB, typename A, typename B>
__device__ void block_reduce_both(A& a, B& b) {
    constexpr int WARPS = THREADS / 32;
    __shared__ A partial_a[WARPS];
    __shared__ B partial_b[WARPS];
    a = warp_reduce<OpA>(a);
    b = warp_reduce<OpB>(b);
    if (threadIdx.x % 32 == 0) {
        partial_a[threadIdx.x / 32] = a;
        partial_b[threadIdx.x / 32] = b;
    }
    __syncthreads();
    a = warp_reduce<OpA, WARPS>(partial_a[threadIdx.x % WARPS]);
    b = warp_reduce<OpB, WARPS>(partial_b[threadIdx.x % WARPS]);
    __syncthreads();  // both may be written again only when everybody has read them
}
""",
    "block_tree": """
// A tree in shared memory: half of the threads join pairs, then a quarter, until one value is left.
template <typename Op, typename T>
__device__ T block_reduce(T value) {
    __shared__ T partial[THREADS];
    partial[threadIdx.x] = value;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            partial[threadIdx.x] = Op::join(partial[threadIdx.x], partial[threadIdx.x + half]);
        }
        __syncthreads();
    }
    value = partial[0];
    __syncthreads();  // partial may be written again only when everybody has read it
    return value;
}
""",
    **SCANS,
    **STACKED,
    **SPLITS,
    **SCATTERS,
    **TENSOR_CORES,
}

_NEEDS: Mapping[str, tuple[str, ...]] = {
    "load": ("pack",),
    "load_if": ("load",),
    "hear_rows": ("pack",),
    "load_where": ("load",),
    "load_row": ("load",),
    "load_group": ("load",),
    "load_repeated": ("load",),
    "load_run": ("load",),
    "load_rows": ("load_run",),
    "store_rows": ("load_run", "store"),
    "store_rows_once": ("load_run", "store_once"),
    "store_tile": ("load", "store"),
    "store_tile_once": ("load", "store_once"),
    "store_padded": ("store",),
    "store_padded_once": ("store_once",),
    "load_within": ("load",),
    "store_at": ("pack",),
    "store_within": ("store",),
    "store": ("pack",),
    "load_word": ("pack", "word"),
    "load_once": ("pack", "word"),
    "load_now": ("pack", "word"),
    "store_once": ("pack", "word"),
    "max": ("larger",),
    "min": ("smaller",),
    "argmax": ("best",),
    "argmin": ("best",),
    "softmax": ("running", "larger", "exp_below"),
    "logsum": ("softmax",),
    "welford": ("moments",),
    "welford_vector": ("welford",),
    "welford_several": ("welford",),
    "co_moments": ("co_moments_struct",),
    "co_moments_several": ("co_moments",),
    "weighted": ("weighted_struct", "exp_below"),
    "distances": ("distances_struct", "exp_below"),
    "divergence": ("exp_below",),
    "divergence_open": ("divergence",),
    "exchange_weighted": ("exchange", "weighted_struct", "exp_below"),
    "exchange_distances": ("exchange", "distances_struct", "exp_below"),
    "exchange_divergence": ("exchange", "divergence"),
    "exchange_best": ("exchange", "best"),
    "exchange_narrow": ("exchange",),  # __shfl_xor_sync returns an int for a short or a char
    "exchange_running": ("exchange", "running", "exp_below"),
    "exchange_moments": ("exchange", "moments"),
    "exchange_co_moments": ("exchange", "co_moments_struct"),
    "warp_reduce": ("exchange",),
    "logsumexp": ("larger", "smaller"),
    "lastmax": ("best",),
    "lastmin": ("best",),
    "running_logsum": ("running", "exp_below"),
    "logsum_of_values": ("running_logsum",),
    "lane_scan": ("last_lane",),
    "last_lane_best": ("last_lane", "best"),
    "last_lane_running": ("last_lane", "running"),
    "shift_up_best": ("shift_up", "best"),
    "shift_up_running": ("shift_up", "running"),
    "pieces_before": ("stacked_scan",),
    "look_back": ("warp_reduce",),
    "look_back_at_once": ("block_reduce", "min"),
    "block_reduce": ("warp_reduce",),
    "block_reduce_both": ("warp_reduce",),
    "words": ("tell",),
    "told": ("tell",),
    "cluster_reduce": ("warp_reduce", "cluster_meet"),
    "cluster_in_turn": ("warp_reduce", "cluster_meet"),
    "add_all": ("pack",),
}

OPS: Mapping[str, str] = {
    "sum": "Sum", "prod": "Product", "max": "Max", "min": "Min", "any": "Any", "all": "All",
    "argmax": "ArgMax", "argmin": "ArgMin", "softmax": "OnlineSoftmax",
    "logsum": "OnlineLogSum", "welford": "Welford", "weighted": "OnlineWeighted",
    "distances": "OnlineDistances", "co_moments": "OnlineCoMoments",
    "divergence": "OnlineDivergence<true>", "divergence_open": "OnlineDivergence<false>",
}  # fmt: skip
"""Name of the struct that joins two partial results, by reduction."""
_OWN_BUTTERFLY = frozenset(["softmax", "logsum", "weighted", "distances", "divergence", "divergence_open"])
"""Reductions whose partial results a warp joins in a way of their own: nobody calls the general one."""


def helper_texts(wanted: Iterable[str]) -> list[str]:
    """Texts of the wanted functions and what they need, in an order that compiles."""
    needed: set[str] = set()
    stack = list(wanted)
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            stack.extend(_NEEDS.get(name, ()))
    if "warp_reduce" not in needed:
        needed = {name for name in needed if not name.startswith("exchange")}
    elif needed & OPS.keys() and needed & OPS.keys() <= _OWN_BUTTERFLY:
        needed.discard("warp_reduce")
    if "block_tree" in needed:  # both are called block_reduce
        needed.discard("block_reduce")
    texts = dict(_TEXTS)
    if not any(name.startswith("exchange_") for name in needed):
        needed.discard("exchange")
        shuffle = "__shfl_xor_sync(0xffffffff, value, offset)"
        texts["warp_reduce"] = _TEXTS["warp_reduce"].replace("exchange(value, offset)", shuffle)
    if "shift_up" in needed:
        for name in ("lane_scan", "block_scan", "block_scan_parts", "stacked_scan"):
            texts[name] = _TEXTS[name].replace("__shfl_up_sync(0xffffffff, value,", "shift_up(value,")
    texts.update(CLUSTERS)
    return [text.strip("\n") for name, text in texts.items() if name in needed]
