"""CUDA functions for products on Hopper's tensor cores: TF32 factors, sums in float32.

Owns their texts; cuda_helpers.py puts them among the others. Forms and layouts are those of the PTX ISA,
"Asynchronous Warpgroup Level Matrix Instructions".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_ACROSS = 128
_LINE = 100
_TF32 = (
    8,
    "eight",
    "four\n"
    "// elements of the left factor, and where the right one's lie in shared memory (right_at); "
    "the sums are there\n"
    "// when products_done has returned.",
)
_OF_16_BITS = (
    16,
    "sixteen",
    "eight\n"
    "// elements of the left factor, two a register, and where the right one's lie in shared memory "
    "(right_at);\n"
    "// the sums are there when products_done has returned.",
)
"""Terms that one instruction takes in, the same in words, and what is said of its operands."""


def _filled(parts: Sequence[str], indent: str) -> str:
    """A list over as many lines as it takes."""
    lines = [""]
    for at, part in enumerate(parts):
        piece = part + (", " if at < len(parts) - 1 else "")
        if len(indent) + len(lines[-1]) + len(piece) > _LINE:
            lines.append("")
        lines[-1] += piece
    return ("\n" + indent).join(line.rstrip() for line in lines)


def _multiply_add(across: int, dtype: str = "tf32") -> str:
    count = across // 2
    terms, told, given = _TF32 if dtype == "tf32" else _OF_16_BITS
    flags = "1, 1, 1" if dtype == "tf32" else "1, 1, 1, 0"
    sums = _filled([f'"+f"(sums[{at}])' for at in range(count)], " " * 10)
    places = "".join(
        f'        "{", ".join(f"%{at}" for at in range(first, min(first + 16, count)))}'
        f'{", " if first + 16 < count else "}, "}"\n'
        for first in range(0, count, 16)
    )
    head = f"// Four warps together: 64 rows by {across} columns of sums take in {told} terms more."
    return f"""
{head} A thread gives {given}
__device__ inline void multiply_add(float (&sums)[{count}], const unsigned int (&left)[4],
    unsigned long long right) {{
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n{across}k{terms}.f32.{dtype}.{dtype} {{"
{places}        "{{%{count}, %{count + 1}, %{count + 2}, %{count + 3}}}, %{count + 4}, {flags};"
        : {sums}
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right));
}}
"""


OTHER_COLUMNS: Mapping[int, str] = {columns: f"multiply_add_{columns}" for columns in range(8, 128, 8)}
"""The text of ``multiply_add`` for so many columns of sums; of 128 it is under its own name."""


_COPIED = """if constexpr (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
            ::"r"(place), "l"(from), "r"(read) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
            ::"r"(place), "l"(from), "n"(BYTES), "r"(read) : "memory");
    }
"""
"""A statement that begins a copy of BYTES from ``from`` to ``place``, of which so many are ``read``."""


def _with_copies(text: str) -> str:
    """The text of a function with that statement at its @."""
    return text.replace("@", _COPIED)


def of_16_bits(dtype: str, columns: int) -> str:
    """The text of ``multiply_add`` for factors of 16 bits, and so many columns of sums."""
    return f"multiply_add_{dtype}_{columns}"


TENSOR_CORES: Mapping[str, str] = {
    "split_in_two": """
// A float as the sum of two that tensor cores take: high has its first 11 bits, rounded, low what is left.
// An infinity has no low part: that comes out as NaN, as it does of NaN itself.
__device__ inline void split_in_two(float value, unsigned int& high, unsigned int& low) {
    high = (__float_as_uint(value) + 0x1000u) & 0xffffe000u;
    low = __float_as_uint(value - __uint_as_float(high));
}
""",
    "multiply_add": _multiply_add(_ACROSS),
    **{name: _multiply_add(columns) for columns, name in OTHER_COLUMNS.items()},
    **{
        of_16_bits(dtype, columns): _multiply_add(columns, dtype)
        for dtype in ("f16", "bf16")
        for columns in range(8, _ACROSS + 1, 8)
    },
    "products": """
// Where a factor begins in shared memory, as the instruction wants to know it: lines of 128 bytes, eight of
// them in 1024, whose pieces of 16 bytes have changed places, so that eight lines are in different banks.
__device__ inline unsigned long long right_at(const void* place) {
    const unsigned long long address = static_cast<unsigned int>(__cvta_generic_to_shared(place));
    return address >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
// Sums and factors in registers are ready to be used.
__device__ inline void products_begin() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
// Products since the last call belong together.
__device__ inline void products_end() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// All products are done but those of the last LEFT groups.
template <int LEFT>
__device__ inline void products_done() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
// What this thread has stored in shared memory is there for tensor cores, too.
__device__ inline void show_to_tensor_cores() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
""",
    "copy_or_zero": _with_copies("""
// VEC floats on their way to shared memory, zeros where there are none: the thread does not wait.
template <int VEC>
__device__ inline void copy_or_zero(float* to, const float* from, bool there) {
    constexpr int BYTES = VEC * sizeof(float);
    const unsigned int place = static_cast<unsigned int>(__cvta_generic_to_shared(to));
    const int read = there ? BYTES : 0;
    @}
"""),
    "copy_or_zero_16bit": _with_copies("""
// VEC elements of 16 bits on their way to shared memory, zeros where there are none. The thread does not wait
// for two and more; one alone goes through a register, as no such copy is that small.
template <int VEC, typename T>
__device__ inline void copy_or_zero(unsigned short* to, const T* from, bool there) {
    constexpr int BYTES = VEC * sizeof(T);
    static_assert(sizeof(T) == 2, "elements of 16 bits");
    const unsigned int place = static_cast<unsigned int>(__cvta_generic_to_shared(to));
    const int read = there ? BYTES : 0;
    if constexpr (BYTES == 2) {
        *to = there ? *reinterpret_cast<const unsigned short*>(from) : 0;
    } else @}
"""),
    "side_by_side": """
// VEC elements of 16 bits of one channel, and behind them as many of another: a word of each two.
template <int VEC>
__device__ inline void side_by_side(unsigned int* at) {
    if constexpr (VEC == 8) {
        uint4* const place = reinterpret_cast<uint4*>(at);
        const uint4 one = place[0], other = place[1];
        place[0] = make_uint4(
            __byte_perm(one.x, other.x, 0x5410), __byte_perm(one.x, other.x, 0x7632),
            __byte_perm(one.y, other.y, 0x5410), __byte_perm(one.y, other.y, 0x7632));
        place[1] = make_uint4(
            __byte_perm(one.z, other.z, 0x5410), __byte_perm(one.z, other.z, 0x7632),
            __byte_perm(one.w, other.w, 0x5410), __byte_perm(one.w, other.w, 0x7632));
    } else if constexpr (VEC == 4) {
        const uint4 both = *reinterpret_cast<uint4*>(at);
        *reinterpret_cast<uint4*>(at) = make_uint4(
            __byte_perm(both.x, both.z, 0x5410), __byte_perm(both.x, both.z, 0x7632),
            __byte_perm(both.y, both.w, 0x5410), __byte_perm(both.y, both.w, 0x7632));
    } else if constexpr (VEC == 2) {
        const unsigned int one = at[0], other = at[1];
        at[0] = __byte_perm(one, other, 0x5410);
        at[1] = __byte_perm(one, other, 0x7632);
    }  // one element of each is where it belongs
}
""",
    "summed_alone": """
// One sum of products, term by term.
__device__ __noinline__ float summed_alone(const float* left, size_t left_step, const float* right,
    size_t right_step, int terms) {
    float sum = 0.0f;
    for (int term = 0; term < terms; ++term) {
        sum = fmaf(left[term * left_step], right[term * right_step], sum);
    }
    return sum;
}
""",
}
