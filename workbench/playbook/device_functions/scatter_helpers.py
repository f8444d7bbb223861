"""CUDA functions by which a thread changes what lies in memory, whoever else does so at the same time.

Owns their texts; cuda_helpers.py puts them among the others.
"""

from __future__ import annotations

from collections.abc import Mapping


def _extreme(name: str, which: str, grows: str, falls: str, nan: str) -> str:
    """The larger or smaller of two numbers stays; CUDA has atomics of that for whole numbers only.

    ``grows`` is the atomic for numbers without a sign, ``falls`` the one for those with a sign, whose bits
    are the larger the further below zero they are; ``nan`` has bits that win both.
    """

    def function(ctype: str, whole: str, as_whole: str) -> str:
        return f"""
__device__ void {name}({ctype}* at, {ctype} value) {{
    const {whole} bits = value != value ? {nan} : {as_whole}(value);
    if (bits >= 0) {{
        {grows}(reinterpret_cast<{whole}*>(at), bits);
    }} else {{
        {falls}(reinterpret_cast<unsigned {whole}*>(at), static_cast<unsigned {whole}>(bits));
    }}
}}
"""

    return (
        f"""
// The {which} of two numbers stays; NaN wins, as in torch. Bits of floats are in the order of whole numbers,
// and where there is a sign in the opposite one. What lies there first has NaN's bits as they are here.
"""
        + function("float", "int", "__float_as_int").lstrip("\n")
        + function("double", "long long", "__double_as_longlong").replace("0x7fffffff", "0x7fffffffffffffff")
    )


SCATTERS: Mapping[str, str] = {
    "add_at": """
// CUDA adds whole numbers of 64 bits without a sign: their bits are the same.
__device__ void add_at(long long* at, long long value) {
    atomicAdd(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(value));
}
""",
    "put_at": """
// CUDA exchanges words of 64 bits without a sign, whatever their bits stand for.
__device__ void put_at(long long* at, long long value) {
    atomicExch(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(value));
}
__device__ void put_at(double* at, double value) {
    put_at(reinterpret_cast<long long*>(at), __double_as_longlong(value));
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
    "largest_at": _extreme("largest_at", "larger", "atomicMax", "atomicMin", "0x7fffffff"),
    "smallest_at": _extreme("smallest_at", "smaller", "atomicMin", "atomicMax", "-1"),
}
