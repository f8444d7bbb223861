"""CUDA functions of reductions that tell where the extreme value is.

Owns their texts; cuda_helpers.py puts them among the others.
"""

from __future__ import annotations

from collections.abc import Mapping

PLACE_OF_VALUE: Mapping[str, str] = {
    "best": """
// A candidate of an arg-reduction: its value and its column.
template <typename T>
struct Best {
    T value;
    int column;
};
""",
}

PLACES: Mapping[str, str] = {
    "argmax": """
struct ArgMax {
    // A column behind all before it: of equal values the first stays, and a NaN that was seen.
    template <typename T>
    __device__ static Best<T> add(Best<T> a, T value, int column) {
        return !(value <= a.value) && a.value == a.value ? Best<T>{value, column} : a;
    }
    template <typename T>
    __device__ static Best<T> join(Best<T> a, Best<T> b) {
        const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
        const bool same = a.value == b.value || (a_nan && b_nan);
        return (same ? a.column < b.column : a_nan || (!b_nan && a.value > b.value)) ? a : b;
    }
};
""",
    "argmin": """
struct ArgMin {
    template <typename T>
    __device__ static Best<T> add(Best<T> a, T value, int column) {
        return !(value >= a.value) && a.value == a.value ? Best<T>{value, column} : a;
    }
    template <typename T>
    __device__ static Best<T> join(Best<T> a, Best<T> b) {
        const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
        const bool same = a.value == b.value || (a_nan && b_nan);
        return (same ? a.column < b.column : a_nan || (!b_nan && a.value < b.value)) ? a : b;
    }
};
""",
}
