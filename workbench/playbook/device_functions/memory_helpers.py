"""CUDA functions that read and write: packs of neighbours in one request, and accesses with a hint.

Owns their texts; cuda_helpers.py puts them among the others.
"""

from __future__ import annotations

from collections.abc import Mapping


def _loaded(name: str, intrinsic: str, comment: str) -> str:
    """A function that loads a pack through an intrinsic, in words of up to 16 bytes."""
    return f"""
// {comment}
template <int VEC, typename T>
__device__ Pack<T, VEC> {name}(const T* from) {{
    using Whole = typename Word<sizeof(T) * VEC>::Type;
    constexpr int PARTS = sizeof(T) * VEC / sizeof(Whole);
    union {{ Pack<T, VEC> pack; Whole words[PARTS]; }} both;
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {{
        both.words[part] = {intrinsic}(reinterpret_cast<const Whole*>(from) + part);
    }}
    return both.pack;
}}
"""


def _stored_rows(name: str, store: str, comment: str) -> str:
    """A function that stores rows of few elements."""
    return f"""
// {comment}
template <int VEC, int FEW, typename T>
__device__ void {name}(T* to, const Run<T, VEC * FEW>& rows) {{
    constexpr int WIDE = VEC > 1 ? VEC * (FEW & -FEW) : 1;
#pragma unroll
    for (int at = 0; at < VEC * FEW; at += WIDE) {{
        Pack<T, WIDE> pack;
#pragma unroll
        for (int k = 0; k < WIDE; ++k) {{
            pack.at[k] = rows.at[at + k];
        }}
        {store}(to + at, pack);
    }}
}}
"""


def _stored_tile(name: str, store: str) -> str:
    """A function with which a block stores what lies in shared memory as it does in memory."""
    whole = f"            {store}(to + at, load<WIDE>(tile + at));"
    return f"""
// A block stores what it has made in shared memory: vectors that lie side by side, the last in part.
template <int WIDE, typename T>
{_by_vectors(name, whole, "tile[k]")}"""


def _stored_padded(name: str, store: str) -> str:
    """The same of rows behind each of which shared memory has an element that is nobody's."""
    whole = f"""            Pack<T, WIDE> pack;
#pragma unroll
            for (int k = 0; k < WIDE; ++k) {{
                pack.at[k] = tile[at + k + (at + k) / FEW];
            }}
            {store}(to + at, pack);"""
    return f"""
// A block stores rows of FEW that it has made in shared memory, as vectors that lie side by side. Between two
// rows an element is left free there: threads that write a row each meet in no bank.
template <int WIDE, int FEW, typename T>
{_by_vectors(name, whole, "tile[k + k / FEW]")}"""


def _by_vectors(name: str, whole: str, element: str) -> str:
    """Such a function, from its head on, by what it does for a vector and where it finds an element."""
    return f"""__device__ void {name}(T* to, const T* tile, int count) {{
    for (int at = threadIdx.x * WIDE; at < count; at += THREADS * WIDE) {{
        if (count - at >= WIDE) {{
{whole}
        }} else {{
            for (int k = at; k < count; ++k) {{
                to[k] = {element};
            }}
        }}
    }}
}}
"""


MEMORY: Mapping[str, str] = {
    "pack": """
// VEC neighbours that move as one memory instruction.
template <typename T, int VEC>
struct alignas(sizeof(T) * VEC) Pack {
    T at[VEC];
};
""",
    "load": """
template <int VEC, typename T>
__device__ Pack<T, VEC> load(const T* from) {
    return *reinterpret_cast<const Pack<T, VEC>*>(from);
}
""",
    "place_in": """
// Where element k of the vector at i is in a line of SIZE elements. Lines begin at borders of vectors where
// VEC divides SIZE; that and that no place is negative lets the compiler compute with k beforehand.
template <int VEC, int SIZE>
__device__ int place_in(int i, int k) {
    return SIZE % VEC == 0 ? int(unsigned(i) % SIZE) + k : int(unsigned(i + k) % SIZE);
}
""",
    "load_if": """
// VEC neighbours where they are wanted, else zeros: nothing is read then.
template <int VEC, typename T>
__device__ Pack<T, VEC> load_if(bool wanted, const T* from) {
    Pack<T, VEC> pack{};
    if (wanted) pack = load<VEC>(from);
    return pack;
}
""",
    "load_where": """
// One load where all neighbours begin at borders of vectors; elsewhere VEC loads.
template <bool AT_BORDERS, int VEC, typename T>
__device__ Pack<T, VEC> load_where(const T* from) {
    if constexpr (AT_BORDERS) {
        return load<VEC>(from);
    } else {
        Pack<T, VEC> pack;
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            pack.at[k] = from[k];
        }
        return pack;
    }
}
""",
    "load_run": """
// Elements that follow one another.
template <typename T, int IN_RUN>
struct Run {
    T at[IN_RUN];
};

// The windows of VEC results side by side, where each begins APART elements behind the one before.
template <int VEC, int APART, typename T>
__device__ Run<T, VEC * APART> load_run(const T* from) {
    Run<T, VEC * APART> run;
#pragma unroll
    for (int part = 0; part < APART; ++part) {
        const auto pack = load<VEC>(from + part * VEC);
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            run.at[part * VEC + k] = pack.at[k];
        }
    }
    return run;
}
""",
    "load_rows": """
// VEC rows of FEW elements, which follow one another: as many vectors at once as divide a row.
template <int VEC, int FEW, typename T>
__device__ Run<T, VEC * FEW> load_rows(const T* from) {
    constexpr int WIDE = VEC > 1 ? VEC * (FEW & -FEW) : 1;
    Run<T, VEC * FEW> rows;
#pragma unroll
    for (int at = 0; at < VEC * FEW; at += WIDE) {
        const auto pack = load<WIDE>(from + at);
#pragma unroll
        for (int k = 0; k < WIDE; ++k) {
            rows.at[at + k] = pack.at[k];
        }
    }
    return rows;
}
""",
    "store_rows": _stored_rows("store_rows", "store", "The same of results."),
    "store_rows_once": _stored_rows("store_rows_once", "store_once", "The same, streamed through the cache."),
    "store_tile": _stored_tile("store_tile", "store"),
    "store_tile_once": _stored_tile("store_tile_once", "store_once"),
    "store_padded": _stored_padded("store_padded", "store"),
    "store_padded_once": _stored_padded("store_padded_once", "store_once"),
    "load_group": """
// VEC neighbours, which begin where a group of SIZE does; where that is more, the group.
template <int VEC, int SIZE, typename T>
__device__ Pack<T, (VEC > SIZE ? VEC : SIZE)> load_group(const T* from) {
    if constexpr (VEC >= SIZE) {
        return load<VEC>(from);
    } else {
        Pack<T, SIZE> pack;
#pragma unroll
        for (int k = 0; k < SIZE; ++k) {
            pack.at[k] = from[k];
        }
        return pack;
    }
}
""",
    "load_repeated": """
// VEC neighbours of a row of SIZE elements that repeats: one load where none of them lies beyond its end.
template <int VEC, int SIZE, typename T, typename Index>
__device__ Pack<T, VEC> load_repeated(const T* row, Index i) {
    if constexpr (SIZE % VEC == 0) {
        return load<VEC>(row + i % SIZE);
    } else {
        Pack<T, VEC> pack;
        int at = i % SIZE;
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            pack.at[k] = row[at];
            at = at + 1 < SIZE ? at + 1 : 0;
        }
        return pack;
    }
}
""",
    "load_row": """
// Neighbours in a row, from BEFORE elements in front of the column on. What is outside the row stays as it
// was. Rows begin and end, and the column lies, at borders of vectors.
template <int VEC, int BEFORE, int SEEN, typename T>
__device__ void load_row(T (&to)[SEEN], const T* from, int column, int size, bool is_there) {
    constexpr int FIRST = (BEFORE + VEC - 1) / VEC * VEC;
#pragma unroll
    for (int at = -FIRST; at < SEEN - BEFORE; at += VEC) {
        if (is_there && column + at >= 0 && column + at < size) {
            const auto pack = load<VEC>(from + at);
#pragma unroll
            for (int k = 0; k < VEC; ++k) {
                if (at + k >= -BEFORE && at + k < SEEN - BEFORE) to[BEFORE + at + k] = pack.at[k];
            }
        }
    }
}
""",
    "store": """
template <int VEC, typename T>
__device__ void store(T* to, Pack<T, VEC> pack) {
    *reinterpret_cast<Pack<T, VEC>*>(to) = pack;
}
""",
    "store_at": """
// The pack at an element of a row whose packs lie at multiples of VEC. Places counted in packs: the compiler
// takes stores apart, and with places counted in elements it does not always find their parts again.
template <int VEC, typename T>
__device__ void store_at(T* row, size_t at, Pack<T, VEC> pack) {
    reinterpret_cast<Pack<T, VEC>*>(row)[at / VEC] = pack;
}
""",
    "load_within": """
// VEC neighbours from i on, of a line of SIZE elements; for those beyond its end, the first of them again.
template <int VEC, long long SIZE, typename T, typename Index>
__device__ Pack<T, VEC> load_within(const T* line, Index i) {
    if (SIZE % VEC == 0 || Index(SIZE) - i >= VEC) return load<VEC>(line + i);
    Pack<T, VEC> pack;
#pragma unroll
    for (int k = 0; k < VEC; ++k) {
        pack.at[k] = line[k < Index(SIZE) - i ? i + k : i];
    }
    return pack;
}
""",
    "store_within": """
// VEC neighbours from i on, as far as the line of SIZE elements goes.
template <int VEC, long long SIZE, typename T, typename Index>
__device__ void store_within(T* line, Index i, Pack<T, VEC> pack) {
    if (SIZE % VEC == 0 || Index(SIZE) - i >= VEC) return store(line + i, pack);
#pragma unroll
    for (int k = 0; k < VEC; ++k) {
        if (k < Index(SIZE) - i) line[i + k] = pack.at[k];
    }
}
""",
    "fetch": """
// Neighbours on their way to shared memory: the thread does not wait. Too small for that, they are copied.
template <int VEC, typename T>
__device__ void fetch(T* to, const T* from) {
    constexpr int BYTES = sizeof(T) * VEC, WORD = BYTES < 16 ? BYTES : 16;
    if constexpr (BYTES < 4) {
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            to[k] = from[k];
        }
    } else {
#pragma unroll
        for (int part = 0; part < BYTES / WORD; ++part) {
            __pipeline_memcpy_async(to + part * VEC * WORD / BYTES, from + part * VEC * WORD / BYTES, WORD);
        }
    }
}
""",
    "fetch_or_zero": """
// A number on its way to shared memory, a zero where there is none (at < 0): the thread does not wait.
__device__ void fetch_or_zero(float* to, const float* from, int at) {
    __pipeline_memcpy_async(to, from + max(at, 0), sizeof(float), at < 0 ? sizeof(float) : 0);
}
""",
    "word": """
// The built-in type of so many bytes, which the cache-hint intrinsics take.
template <int BYTES> struct Word { using Type = uint4; };
template <> struct Word<1> { using Type = unsigned char; };
template <> struct Word<2> { using Type = unsigned short; };
template <> struct Word<4> { using Type = unsigned int; };
template <> struct Word<8> { using Type = uint2; };
""",
    "load_word": """
// VEC neighbours as they come from memory, in one word: narrow elements that are not needed yet would take a
// register each.
template <int VEC, typename T>
__device__ typename Word<sizeof(T) * VEC>::Type load_word(const T* from) {
    return *reinterpret_cast<const typename Word<sizeof(T) * VEC>::Type*>(from);
}

template <typename T, int VEC>
__device__ typename Word<sizeof(T) * VEC>::Type word_of(Pack<T, VEC> pack) {
    union { Pack<T, VEC> pack; typename Word<sizeof(T) * VEC>::Type word; } both;
    both.pack = pack;
    return both.word;
}

template <typename T, int VEC>
__device__ Pack<T, VEC> parts_of(typename Word<sizeof(T) * VEC>::Type word) {
    union { Pack<T, VEC> pack; typename Word<sizeof(T) * VEC>::Type word; } both;
    both.word = word;
    return both.pack;
}
""",
    "load_once": _loaded(
        "load_once",
        "__ldcs",
        "Read data that is used once: evicted first, so that it does not push out what is used again.",
    ),
    "load_now": _loaded(
        "load_now",
        "__ldca",
        "A load that stays where it is written: __ldca may read what others write, so it crosses no fence.\n"
        "// It goes through L1: what many rows share, as a weight a column, is there for the next row.",
    ),
    "store_once": """
// Write data that nobody reads soon: streamed through the cache.
template <int VEC, typename T>
__device__ void store_once(T* to, Pack<T, VEC> pack) {
    using Whole = typename Word<sizeof(T) * VEC>::Type;
    constexpr int PARTS = sizeof(T) * VEC / sizeof(Whole);
    union { Pack<T, VEC> pack; Whole words[PARTS]; } both;
    both.pack = pack;
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
        __stcs(reinterpret_cast<Whole*>(to) + part, both.words[part]);
    }
}
""",
}
