"""CUDA functions by which a thread changes what lies in memory, whoever else does so at the same time.

Owns their texts; cuda_helpers.py puts them among the others.
"""

from __future__ import annotations

from collections.abc import Mapping


def _extreme(name: str, chosen: str, which: str) -> str:
    """The larger or smaller of two numbers stays: CUDA has atomics of it for whole numbers only."""
    return f"""
// The {which} of two numbers stays; NaN wins, as in torch. Who finds that another was faster looks again.
__device__ void {name}(float* at, float value) {{
    unsigned* word = reinterpret_cast<unsigned*>(at);
    unsigned seen = *word, held = ~seen;
    while (held != seen) {{
        held = seen;
        const float best = {chosen}(__uint_as_float(held), value);
        if (__float_as_uint(best) == held) return;
        seen = atomicCAS(word, held, __float_as_uint(best));
    }}
}}

__device__ void {name}(double* at, double value) {{
    unsigned long long* word = reinterpret_cast<unsigned long long*>(at);
    unsigned long long seen = *word, held = ~seen;
    while (held != seen) {{
        held = seen;
        const double best = {chosen}(__longlong_as_double(held), value);
        if (static_cast<unsigned long long>(__double_as_longlong(best)) == held) return;
        seen = atomicCAS(word, held, static_cast<unsigned long long>(__double_as_longlong(best)));
    }}
}}
"""


SCATTERS: Mapping[str, str] = {
    "add_at": """
// CUDA adds whole numbers of 64 bits without a sign: their bits are the same.
__device__ void add_at(long long* at, long long value) {
    atomicAdd(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(value));
}
""",
    "add_all": """
// VEC neighbours are added to those at a place, up to four of them in one request. Each is an addition of its
// own: others may add to the same elements at the same time. Nobody waits for the sums.
template <int VEC>
__device__ void add_all(float* at, const Pack<float, VEC>& values) {
    if constexpr (VEC % 4 == 0) {
#pragma unroll
        for (int k = 0; k < VEC; k += 4) {
            const float* four = values.at + k;
            atomicAdd(reinterpret_cast<float4*>(at + k), make_float4(four[0], four[1], four[2], four[3]));
        }
    } else if constexpr (VEC == 2) {
        atomicAdd(reinterpret_cast<float2*>(at), make_float2(values.at[0], values.at[1]));
    } else {
        atomicAdd(at, values.at[0]);
    }
}
""",
    "largest_at": _extreme("largest_at", "larger", "larger"),
    "smallest_at": _extreme("smallest_at", "smaller", "smaller"),
}
