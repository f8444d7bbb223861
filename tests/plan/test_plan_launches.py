"""Launches: name expressions, grids, macros, and arguments held against the kernel's signature."""

import pytest
from plans import FIRST_LINE, meta, only_launch, pointed_at, refused, refused_body, run, source

from workbench.model import DTYPE_BYTES, TensorMeta
from workbench.plan.cuda_types import CPP_NAMES
from workbench.plan.expression import kernel_name
from workbench.plan.refusal import Refused
from workbench.plan.steps import BufferArg, ScalarArg


def launched(call: str, **tensors: TensorMeta):
    """The launch of a plan that allocates y, launches and returns zeros."""
    return only_launch(run(f"y = empty_like(x)\n{call}\nreturn zeros(1, f32)", **tensors))


def refused_launch(call: str, kernels: str | None = None, **tensors: TensorMeta):
    """The diagnostic of such a plan."""
    body = f"y = empty_like(x)\n{call}\nreturn zeros(1, f32)"
    extra = {} if kernels is None else {"kernels": "\n" + kernels}
    return refused_body(body, **extra, **tensors)


def fits(kernel: str, argument: str, expression: str = "k", const: str = "{}", **tensors: TensorMeta):
    """The bound argument of ``kernel``, a signature with one parameter."""
    body = f"launch('{expression}', grid=1, block=1, args=[{argument}], const={const})\nreturn zeros(1, f32)"
    (bound,) = run(body, kernels=f"\n{kernel}\n", **tensors).launches[0].args
    return bound


def misfit(
    kernel: str, argument: str, expression: str = "k", const: str = "{}", **tensors: TensorMeta
) -> str:
    """The message for an argument that does not fit."""
    body = f"launch('{expression}', grid=1, block=1, args=[{argument}], const={const})\nreturn zeros(1, f32)"
    return refused_body(body, kernels=f"\n{kernel}\n", **tensors).message


WRONG_LAUNCHES = {
    "launch('cpoy', 1, 1, [x, y, 3])": ("unknown kernel 'cpoy'. Did you mean 'copy'?", "'cpoy'"),
    "launch('softmax', 1, 1, [x, y, 3])": ("The file has: copy, rows, scale, add, swap.", "'softmax'"),
    "launch(3, 1, 1)": ("kernel must be a string", "3, 1"),
    "launch('copy', 1, 1)": ("copy takes 3 arguments (x, y, n), 0 given", "launch("),
    "launch('copy', 1, 1, args=[x, y])": ("copy takes 3 arguments (x, y, n), 2 given", "[x, y]"),
    "launch('copy', 1, 1, args=[x, y, 3, 4])": ("(x, y, n), 4 given", "[x, y, 3, 4]"),
    "launch('copy', 1, 1, args=x)": ("args must be a list, not a tensor", "x)"),
    "launch('copy', 1, 1, [x, y, x])": (
        "argument 3, n: the kernel takes int by value; pass a number",
        "x])",
    ),
    "launch('copy', 1, 1, [x, 3, 4])": (
        "argument 2, y: the kernel takes float*; pass a tensor, not 3",
        "3, 4])",
    ),
    "launch('copy', 1, 1, [x, y, 3.5])": ("argument 3, n: the kernel takes int, not 3.5: use //", "3.5])"),
    "launch('copy', 1, 1, [x, y, 2 ** 31])": ("2147483648 does not fit int", "2 ** 31"),
    "launch('copy', 1, 1, [x, y, 'n'])": (
        "argument 3, n must be a tensor or a number, not the string",
        "'n'",
    ),
    "launch('copy', 1, 1, [x, None, 3])": ("argument 2, y must be a tensor or a number, not None", "None"),
    "launch('copy', 1, 1, [x, y, f32])": ("must be a tensor or a number, not the dtype f32", "f32"),
    "launch('copy', 1, 1, [y, x, 3])": (
        "argument 2, y: x is an input, which no kernel may write, while argument 1, x, is only read and gets "
        "an output: are the two swapped? copy takes (x, y, n)",
        "x, 3",
    ),
    "launch('copy', 1, 1, [x, x, 3])": (
        "x is an input, which no kernel may write: declare it const float*",
        "x, 3",
    ),
    "launch('copy', 1, 1, [y, view(x, 2), 3])": ("x is an input, which no kernel may write", "view(x"),
    "launch('copy', 1, 1, [x, empty(3, f16), 3])": (
        "takes float*, the tensor is f16: declare it __half*",
        "empty(",
    ),
    "launch('copy', 1, 1, [empty(3, i64), y, 3])": ("declare it const long long*", "empty("),
    "launch('scale', 1, 1, [x, y, 1e39, True, 3])": ("1e+39 is too large for float", "1e39"),
    "launch('scale', 1, 1, [x, y, 1, 2, 3])": ("argument 4, flag: 2 does not fit bool (0 to 1)", "2, 3"),
    "launch('scale', 1, 1, [x, y, 1, True, 2 ** 63])": ("does not fit long long", "2 ** 63"),
    "launch('copy', grid=0, block=1, args=[x, y, 3])": ("grid x is 0: at least 1 is needed", "0, block"),
    "launch('copy', grid=(1, -2), block=1, args=[x, y, 3])": ("grid y is -2: at least 1", "-2)"),
    "launch('copy', grid=2 ** 31, block=1, args=[x, y, 3])": (
        "grid x is 2147483648, a card takes at most",
        "2 **",
    ),
    "launch('copy', grid=(1, 65536), block=1, args=[x, y, 3])": ("grid y is 65536", "(1, 65536)"),
    "launch('copy', grid=(1, 1, 65536), block=1, args=[x, y, 3])": ("grid z is 65536", "(1, 1, 65536)"),
    "launch('copy', grid=(1, 1, 1, 1), block=1, args=[x, y, 3])": (
        "one to three sizes, not 4",
        "(1, 1, 1, 1)",
    ),
    "launch('copy', grid=(), block=1, args=[x, y, 3])": ("one to three sizes, not 0", "()"),
    "launch('copy', grid=1.0, block=1, args=[x, y, 3])": ("use // or cdiv for whole numbers", "1.0"),
    "launch('copy', grid=x, block=1, args=[x, y, 3])": (
        "grid must be whole numbers, not a tensor",
        "x, block",
    ),
    "launch('copy', grid=True, block=1, args=[x, y, 3])": ("grid must be whole numbers, not True", "True"),
    "launch('copy', grid=1, block=0, args=[x, y, 3])": ("block x is 0", "0, args"),
    "launch('copy', grid=1, block=1025, args=[x, y, 3])": (
        "block x is 1025, a card takes at most 1024",
        "1025",
    ),
    "launch('copy', grid=1, block=(1, 1, 65), args=[x, y, 3])": ("block z is 65", "(1, 1, 65)"),
    "launch('copy', grid=1, block=(64, 32), args=[x, y, 3])": ("a block of 2048 threads", "(64, 32)"),
    "launch('copy', grid=1, args=[x, y, 3])": ("launch() needs block", "launch("),
    "launch('copy', grid=1, blok=1, args=[x, y, 3])": (
        "no argument 'blok'. Did you mean 'block'?",
        "1, args",
    ),
    "launch('copy', 1, 1, [x, y, 3], smem=-1)": ("smem must be from 0", "-1)"),
    "launch('copy', 1, 1, [x, y, 3], smem=232449)": (
        "smem is 232449 bytes, a block of this card has 232448",
        "232449",
    ),
    "launch('copy', 1, 1, [x, y, 3], smem=1.5)": ("smem must be a whole number", "1.5"),
    "launch('copy', 3, 1, [x, y, 3], cluster=2)": ("grid x = 3 is no multiple of cluster x = 2", "2)"),
    "launch('copy', 32, 1, [x, y, 3], cluster=32)": ("a cluster of 32 blocks", "32)"),
    "launch('copy', 2, 1, [x, y, 3], cooperative=2)": ("cooperative is True or False, not 2", "2)"),
    "launch('copy', 2, 1, [x, y, 3], cluster=2, cooperative=True)": ("not both", "True)"),
    "launch('copy', 133, 1024, [x, y, 3], smem=120000, cooperative=True)": (
        "of 133 blocks of 1024 threads and 120000 bytes of shared memory: at most 132 are on this card at "
        "the same time, 1 on each of 132 multiprocessors for its shared memory",
        "133",
    ),
    "launch('copy', 265, 1024, [x, y, 3], cooperative=True)": (
        "at most 264 are on this card at the same time, 2 on each of 132",
        "265",
    ),
    "launch('copy', 4225, 1, [x, y, 3], cooperative=True)": ("at most 4224 are", "4225"),
    "launch('rows', 1, 1, [x, y])": (
        "rows is a template of 2 (BLOCK, T), 0 given: name it with values, as in "
        'launch("rows<4, float>", ...)',
        "'rows'",
    ),
    "launch('rows<>', 1, 1, [x, y])": ("0 given", "'rows<>'"),
    "launch('rows<1, float, 2>', 1, 1, [x, y])": ("3 given", "'rows<1"),
    "launch('copy<1>', 1, 1, [x, y, 3])": ("copy is not a template: leave out <1>", "'copy<1>'"),
    "launch('rows<1, half>', 1, 1, [x, y])": (
        "argument 1, x: the kernel takes __half*, the tensor is f32",
        "x, y])",
    ),
}


@pytest.mark.parametrize("call", WRONG_LAUNCHES)
def test_wrong_launches_point_at_the_argument(call: str) -> None:
    words, pointed = WRONG_LAUNCHES[call]
    diagnostic = refused_launch(call)
    assert words in diagnostic.message
    assert diagnostic.line == FIRST_LINE + 1
    assert pointed_at(diagnostic).startswith(pointed)


def test_a_launch_over_several_lines_is_pointed_at_where_it_is_wrong() -> None:
    diagnostic = refused_launch("launch('copy', grid=1, block=1,\n    args=[x,\n          3,\n          4])")
    assert diagnostic.line == FIRST_LINE + 3
    assert pointed_at(diagnostic) == "3,"


def test_a_file_without_kernels() -> None:
    assert "no __global__ function" in refused_launch("launch('copy', 1, 1, [x, y, 3])", "").message


@pytest.mark.parametrize(
    ("expression", "normal"),
    [
        ("copy", "copy"),
        (" ns :: copy ", "ns::copy"),
        ("k< 256 >", "k<256>"),
        ("k<256,float>", "k<256, float>"),
        ("k<unsigned  int, -3, 0x1F, 4u>", "k<unsigned int, -3, 0x1F, 4u>"),
        ("k<ns::Tile<4, 4>, true>", "k<ns::Tile<4, 4>, true>"),
        ("k<const float>", "k<const float>"),
        ("k<>", "k<>"),
    ],
)
def test_name_expressions(expression: str, normal: str) -> None:
    assert kernel_name(expression).text == normal


@pytest.mark.parametrize(
    "expression",
    [
        "", " ", "3", "k;", "k()", "k<f(3)>", "k<3", "k>3", "k<3>>", "k<3>x", "k<<3>>", "k<,>", "k<3,>",
        "k<3,,4>",
        "k<1+1>", "k<3-4>", "k<-x>", "k<->", "k<1.5>", "k<1e5>", "k<'a'>", 'k<"a">', "k<a;b>", "k<{1}>",
        "k\n#define x",
        "k<3 4>", "k<a 3>", "::k", "k::", "a::b::", "k<a::>", "k<sizeof(int)>", "k<a*>", "k<a&>",
        "k/**/", "k<3>::f",
        "k//", "ké", "k<1'000>", "k" * 500, "1k", "k<3x>", "k@", "k$",
    ],
)  # fmt: skip
def test_name_expressions_hold_no_code(expression: str) -> None:
    with pytest.raises(Refused):
        kernel_name(expression)


CONSTS = {
    "{'A': 3}": "3",
    "{'A': -3}": "(-3)",
    "{'A': True}": "true",
    "{'A': False}": "false",
    "{'A': 0.5}": "0.5",
    "{'A': -1e-05}": "(-1e-05)",
    "{'A': f16}": "__half",
    "{'A': i64}": "long long",
    "{'A': 2 ** 63 - 1}": "9223372036854775807",
    "{'A': 1e300}": "1e+300",
}


@pytest.mark.parametrize("const", CONSTS)
def test_consts_are_numbers_as_cpp_writes_them(const: str) -> None:
    launch = launched(f"launch('copy', 1, 1, [x, y, 3], const={const})")
    assert launch.consts == (("A", CONSTS[const]),)


def test_consts_are_sorted_and_instances_distinct() -> None:
    loop = "for n in (4, 2, 4):\n    launch('copy', n, 1, [x, y, 3], {'B': n, 'A': 1})"
    body = f"y = empty_like(x)\n{loop}\nreturn y"
    instances = run(body).instances
    assert instances == (("copy", (("A", "1"), ("B", "4"))), ("copy", (("A", "1"), ("B", "2"))))


@pytest.mark.parametrize(
    ("const", "words"),
    [
        ("3", "const must be a dict"),
        ("{'A B': 3}", "cannot name a macro"),
        ("{'': 3}", "cannot name a macro"),
        ("{'3A': 3}", "cannot name a macro"),
        ("{'A(x)': 3}", "cannot name a macro"),
        ("{'A=1;': 3}", "cannot name a macro"),
        ("{'Ä': 3}", "cannot name a macro"),
        ("{'int': 3}", "a word of CUDA C++"),
        ("{'threadIdx': 3}", "a word of CUDA C++"),
        ("{'__global__': 3}", "reserved for the compiler"),
        ("{'A__B': 3}", "reserved for the compiler"),
        ("{'_A': 3}", "reserved for the compiler"),
        ("{'copy': 3}", "would replace the kernel's own name"),
        ("{'A': '3'}", "must be a number, a bool or a dtype, not the string '3'"),
        ("{'A': (3,)}", "must be a number"),
        ("{'A': None}", "must be a number"),
        ("{'A': x}", "must be a number"),
        ("{'A': 2 ** 63}", "does not fit 64 bits"),
        ("{'A': -(2 ** 63)}", "does not fit 64 bits"),
        ("{'A': inf}", "write INFINITY"),
        ("{'A': nan}", "write INFINITY"),
    ],
)
def test_wrong_consts(const: str, words: str) -> None:
    diagnostic = refused_launch(f"launch('copy', 1, 1, [x, y, 3], const={const})")
    assert words in diagnostic.message


@pytest.mark.parametrize("dtype", DTYPE_BYTES)
def test_a_pointer_takes_its_own_dtype_and_no_other(dtype: str) -> None:
    for other in DTYPE_BYTES:
        kernel = f"__global__ void k(const {CPP_NAMES[other]}* __restrict__ p) {{}}"
        same = other == dtype or (other == "u8" and DTYPE_BYTES[dtype] == 1)  # raw bytes
        if same:
            assert fits(kernel, "x", x=meta(4, dtype=dtype)) == BufferArg(buffer="x")
        else:
            assert f"the tensor is {dtype}: declare it const {CPP_NAMES[dtype]}*" in misfit(
                kernel, "x", x=meta(4, dtype=dtype)
            )


@pytest.mark.parametrize(
    ("parameter", "dtype"),
    [
        ("const float4* p", "f32"), ("const float4* p", "f16"), ("uint4 const* p", "bf16"),
        ("const half2* p", "f16"),
        ("const void* p", "i64"), ("const unsigned* p", "f32"), ("const uint16_t* p", "bf16"),
        ("const std::int32_t* p", "i32"),
        ("const int64_t* p", "i64"), ("const long* p", "i64"), ("const char* p", "i8"),
        ("const unsigned char* p", "bool"),
        ("const float p[]", "f32"), ("const float p[16]", "f32"),
        ("float const * const __restrict__ p", "f32"),
        ("const float* __restrict__", "f32"), ("const float *", "f32"), ("const volatile float* p", "f32"),
        ("[[maybe_unused]] const float* p", "f32"), ("const float* p = nullptr", "f32"),
        ("const Tensor<float, 4> p", "f32"),
        ("const Params* p", "f32"), ("Params p", "f32"), ("const float (&p)[4]", "f32"),
        ("const float** p", "i64"),
        ("const __grid_constant__ CUtensorMap p", "f32"), ("decltype(nullptr) p", "f32"),
        ("const struct S* p", "f32"),
        ("const unsigned long long int* p", "i64"), ("const cuda::std::uint8_t* p", "u8"),
        ("const ::half* p", "f16"),
        ("const double2* p", "f32"), ("alignas(16) const float* p", "f32"),
        ("const nv_bfloat16* p", "bf16"),
    ],
)  # fmt: skip
def test_pointers_that_fit(parameter: str, dtype: str) -> None:
    assert fits(f"__global__ void k({parameter}) {{}}", "x", x=meta(4, dtype=dtype)) == BufferArg(buffer="x")


@pytest.mark.parametrize(
    ("parameter", "dtype"),
    [
        ("const float* p", "f16"), ("const half* p", "bf16"), ("const int* p", "i64"),
        ("const unsigned* p", "f16"),
        ("const half2* p", "f32"), ("const long long* p", "i32"), ("const bool* p", "u8"),
        ("const float p[]", "f64"),
        ("const std::int32_t* p", "f32"), ("const unsigned short int* p", "i32"),
    ],
)  # fmt: skip
def test_pointers_that_do_not_fit(parameter: str, dtype: str) -> None:
    assert "the tensor is" in misfit(f"__global__ void k({parameter}) {{}}", "x", x=meta(4, dtype=dtype))


@pytest.mark.parametrize(
    ("parameter", "given", "expected"),
    [
        ("int n", "3", ScalarArg(value=3, ctype="int")),
        ("const int n", "True", ScalarArg(value=1, ctype="int")),
        ("unsigned n", "2 ** 32 - 1", ScalarArg(value=2**32 - 1, ctype="unsigned int")),
        ("size_t n", "2 ** 64 - 1", ScalarArg(value=2**64 - 1, ctype="unsigned long")),
        ("int64_t n", "-(2 ** 63)", ScalarArg(value=-(2**63), ctype="long long")),
        ("char n", "127", ScalarArg(value=127, ctype="char")),
        ("bool b", "1", ScalarArg(value=True, ctype="bool")),
        ("float f", "3", ScalarArg(value=3.0, ctype="float")),
        ("float", "-inf", ScalarArg(value=float("-inf"), ctype="float")),
        ("double f", "1e300", ScalarArg(value=1e300, ctype="double")),
        ("__half f", "65504", ScalarArg(value=65504.0, ctype="__half")),
        ("index_t n", "2 ** 40", ScalarArg(value=2**40, ctype="index_t")),
        ("typename Traits<float>::index n", "3", ScalarArg(value=3, ctype="Traits<float>::index")),
        ("cuda::std::size_t n", "3", ScalarArg(value=3, ctype="unsigned long")),
        ("std::int32_t", "3", ScalarArg(value=3, ctype="int")),
        ("unsigned long long int", "3", ScalarArg(value=3, ctype="unsigned long long")),
    ],
)
def test_numbers_that_fit(parameter: str, given: str, expected: ScalarArg) -> None:
    bound = fits(f"__global__ void k({parameter}) {{}}", given)
    assert bound == expected
    assert type(bound.value) is type(expected.value)


@pytest.mark.parametrize(
    ("parameter", "given", "words"),
    [
        ("unsigned n", "-1", "-1 does not fit unsigned int (0 to 4294967295)"),
        ("int n", "-(2 ** 31) - 1", "does not fit int (-2147483648 to 2147483647); declare it long long"),
        ("short n", "40000", "does not fit short"),
        ("__half f", "65505", "too large for __half"),
        ("float4 v", "3", "cannot pass a float4 by value"),
        ("int n", "nan", "the kernel takes int, not nan"),
        ("const float* p", "3", "takes float*; pass a tensor, not 3"),
    ],
)
def test_numbers_that_do_not_fit(parameter: str, given: str, words: str) -> None:
    assert words in misfit(f"__global__ void k({parameter}) {{}}", given)


@pytest.mark.parametrize(
    ("kernel", "expression", "const"),
    [
        ("template <typename T> __global__ void k(const T* p) {}", "k<half>", "{}"),
        ("template <class T> __global__ void k(const T* p) {}", "k<__half>", "{}"),
        ("template <typename T = half> __global__ void k(const T* p) {}", "k<>", "{}"),
        ("template <int N, typename T = half, typename U = T> "
         "__global__ void k(const U* p) {}", "k<3>", "{}"),
        ("template <typename T> __global__ void k(T* p) {}", "k<const half>", "{}"),
        ("template <typename T> __global__ void k(const typename Traits<T>::raw* p) {}", "k<float>", "{}"),
        ("template <typename... Ts> __global__ void k(Ts*... p) {}", "k<float>", "{}"),
        ("template <int N, typename... Ts> __global__ void k(const float* p, Ts... rest) {}", "k<3>", "{}"),
        ("template <template <typename> class V> __global__ void k(const V<float>* p) {}", "k<Vec>", "{}"),
        ("using scalar = half; __global__ void k(const scalar* p) {}", "k", "{}"),
        ("typedef __half scalar;\n__global__ void k(const scalar* p) {}", "k", "{}"),
        ("typedef unsigned short uint16_t;\n__global__ void k(const uint16_t* p) {}", "k", "{}"),
        ("using p_t = const float*; __global__ void k(p_t p) {}", "k", "{}"),
        ("struct A { using T = float; }; struct B { using T = half; }; "
         "__global__ void k(const T* p) {}", "k", "{}"),
        ("struct float2 { half a; half b; }; __global__ void k(const float2* p) {}", "k", "{}"),
        ("#define T half\n__global__ void k(const T* p) {}", "k", "{}"),
        ("#define ARGS const half* p\n__global__ void k(ARGS) {}", "k", "{}"),
        ("#define PTR(T) const T*\n__global__ void k(PTR(half) p) {}", "k", "{}"),
        ("#define P const T*\n#define T half\n__global__ void k(P p) {}", "k", "{}"),
        ("__global__ void k(const T* p) {}", "k", "{'T': f16}"),
        ("#ifndef T\n#define T float\n#endif\n__global__ void k(const T* p) {}", "k", "{'T': f16}"),
        ("#ifdef A\n#define T float\n#else\n#define T half\n#endif\n"
         "__global__ void k(const T* p) {}", "k", "{}"),
        ("__global__ void k(const float* p) {} __global__ void k(const half* p) {}", "k", "{}"),
        ("__global__ void k(const float* p, int n) {} __global__ void k(const half* p) {}", "k", "{}"),
        ("#if A\n__global__ void k(const float* p) {\n#else\n"
         "__global__ void k(const half* p) {\n#endif\n}", "k", "{}"),
        ("__global__ void k(const float* p,\n#ifdef A\nint n\n#endif\n) {}", "k", "{}"),
        ("#define KERNEL __global__ void\nKERNEL k(const half* p) {}", "k", "{}"),
        ("#define K(name, T) __global__ void name(const T* p) {}\nK(k, half)", "k", "{}"),
        ("template <typename T> requires requires(T t) { t.x; } "
         "__global__ void k(const T* p) {}", "k<float>", "{}"),
        ("namespace a { __global__ void k(const half* p) {} } using namespace a;", "k", "{}"),
        ("namespace a { __global__ void k(const half* p) {} } using a::k;", "k", "{}"),
        ("namespace a::b { __global__ void k(const half* p) {} }", "a::b::k", "{}"),
        ("namespace a { namespace { __global__ void k(const half* p) {} } }", "a::k", "{}"),
        ("namespace a { inline namespace v1 { __global__ void k(const half* p) {} } }", "a::k", "{}"),
        ("namespace a { __global__ void k(const half* p) {} } namespace b = a;", "b::k", "{}"),
        ("#ifdef A\nnamespace a {\n#endif\n"
         "__global__ void k(const half* p) {}\n#ifdef A\n}\n#endif", "k", "{}"),
        ("namespace a {\n__global__ void k(const half* p) {}", "k", "{}"),
        ('extern "C" __global__ void k(const half* p) {}', "k", "{}"),
        ('extern "C" { __global__ void k(const half* p) {} }', "k", "{}"),
        ("__global__ void k(const half* p);", "k", "{}"),
        ("template <typename T> __global__ void k(const T*) {} template <> "
         "__global__ void k<half>(const half*) {}", "k<half>", "{}"),
        ("template <typename T> __global__ void k(const T*) {}\ntemplate "
         "__global__ void k<half>(const half*);", "k<half>", "{}"),
        ("template <int N>\n#pragma nv_diag_suppress 1\n__global__ void k(const half* p) {}", "k<3>", "{}"),
    ],
)  # fmt: skip
def test_no_false_refusal(kernel: str, expression: str, const: str) -> None:
    bound = fits(kernel, "x", expression, const, x=meta(4, dtype="f16"))
    assert bound == BufferArg(buffer="x")


@pytest.mark.parametrize(
    ("kernel", "expression", "const", "words"),
    [
        ("template <typename T> __global__ void k(const T* p) {}", "k<float>", "{}", "takes float*"),
        ("template <typename T> __global__ void k(T* p) {}", "k<half>", "{}", "declare it const __half*"),
        ("template <typename T = float> __global__ void k(const T* p) {}", "k<>", "{}", "takes float*"),
        ("using scalar = float; __global__ void k(const scalar* p) {}", "k", "{}", "takes float*"),
        ("#define T float\n__global__ void k(const T* p) {}", "k", "{}", "takes float*"),
        ("__global__ void k(const T* p) {}", "k", "{'T': f32}", "takes float*"),
        ("__global__ void k(const float* p, int n) {} "
         "__global__ void k(const float* p) {}", "k", "{}", "takes float*"),
        ("namespace a { __global__ void k(const half* p) {} }", "a::q", "{}", "unknown kernel 'a::q'"),
        ("namespace a { __global__ void k(const half* p) {} }", "k", "{}", "Did you mean 'a::k'?"),
        ("template <> __global__ void k<half>(const half* p) {}", "k<half>", "{}", "no __global__ function"),
        ("// __global__ void k(const half* p) {}", "k", "{}", "no __global__ function"),
        ('const char* s = "__global__ void k(const half* p) {}";', "k", "{}", "no __global__ function"),
        ('const char* s = R"x(__global__ void k(const half* p) {})x";', "k", "{}", "no __global__ function"),
    ],
)  # fmt: skip
def test_what_is_understood_is_checked(kernel: str, expression: str, const: str, words: str) -> None:
    assert words in misfit(kernel, "x", expression, const, x=meta(4, dtype="f16"))


@pytest.mark.parametrize(
    ("kernel", "value", "ctype"),
    [
        ("#define K __global__", 3, "int"),
        ("#define K __global__", 2**31, "long long"),
        ("#define K __global__", 0.5, "float"),
        ("#define K __global__", True, "bool"),
    ],
)
def test_scalars_of_unseen_kernels_have_a_literals_type(kernel: str, value: float, ctype: str) -> None:
    assert fits(kernel, str(value)) == ScalarArg(value=value, ctype=ctype)


OVERLAPS = [
    ("a = view(y, 4, 0)", "[a, z]", "elements overlap each other"),
    ("a = view(y, (3, 3), (2, 1))", "[a, z]", "elements overlap each other"),
    ("a = view(y, 4)\nb = view(y, 4, offset=2)", "[a, b]", "arguments 1 and 2 are overlapping memory"),
    ("a = view(y, 24)\nb = view(y, (2, 2), (4, 1), offset=10)", "[a, b]", "overlapping memory"),
    ("a = view(y, (2, 2), (4, 1), offset=10)\nb = view(y, 24)", "[a, b]", "overlapping memory"),
    ("a = view(y, (6, 2), (4, 1))\nb = view(y, (6, 2), (4, 1), offset=1)", "[a, b]", "overlapping memory"),
]


@pytest.mark.parametrize(("views", "args", "words"), OVERLAPS)
def test_writes_through_overlapping_views(views: str, args: str, words: str) -> None:
    call = f"z = zeros(99, f32)\n{views}\nlaunch('swap', 1, 1, {args})"
    assert words in refused_launch(call).message


@pytest.mark.parametrize(
    "views",
    [
        "a = view(y, 4)\nb = view(y, 4, offset=4)",
        "a = view(y, (6, 2), (4, 1))\nb = view(y, (6, 2), (4, 1), offset=2)",
        "a = view(y, 12, 2)\nb = view(y, 12, 2, offset=1)",
        "a = view(y, (2, 2), (3, 2))\nb = zeros(3, f32)",
        "a = y\nb = y",
        "a = empty(0, f32)\nb = view(a, 0)",
    ],
)
def test_disjoint_views_may_be_written(views: str) -> None:
    launched(f"{views}\nlaunch('swap', 1, 1, [a, b])")


def test_the_same_buffer_twice_is_refused_where_a_pointer_is_restrict() -> None:
    diagnostic = refused_launch("launch('rows<1>', 1, 1, [y, y])")
    assert "the same memory, and one is __restrict__" in diagnostic.message


def test_reading_overlapping_views_is_fine() -> None:
    launched("launch('add', 1, 1, [view(x, 4), view(x, 4, offset=1), y])")


def test_a_launch_needs_no_arguments() -> None:
    text = source("launch('k', 1, 1)\nreturn zeros(1, f32)", kernels="\n__global__ void k() {}")
    refused(text.replace("launch('k', 1, 1)", "launch('k', 1, 1, [x])"))
    assert (
        run("launch('k', 1, 1)\nreturn zeros(1, f32)", kernels="\n__global__ void k(void) {}")
        .launches[0]
        .args
        == ()
    )
