"""The scan of kernel signatures: generated CUDA that a compiler takes must never be misread."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import meta

from workbench.plan.arguments import bind
from workbench.plan.binding import parameters_of
from workbench.plan.expression import kernel_name
from workbench.plan.lexer import tokens
from workbench.plan.refusal import Refused
from workbench.plan.signature import kernel_table
from workbench.plan.values import Tensor

TYPES = {
    "float": "float",
    "double": "double",
    "int": "int",
    "unsigned": "unsigned int",
    "unsigned int": "unsigned int",
    "long long": "long long",
    "long long int": "long long",
    "unsigned char": "unsigned char",
    "short": "short",
    "bool": "bool",
    "float4": "float4",
    "int2": "int2",
    "real": "float",
    "index_t": "long long",
    "MACRO_T": "double",
    "T": "float",
    "U": "int",
    "Pair<int, Pair<float, float>>": None,
    "Shape": None,
    "const typename Pair<T, U>::first": None,
}
"""Spelling to canonical type; None for what the scan leaves to the compiler."""

PRELUDE = """
#define MACRO_T double
#define LAUNCH(n) __launch_bounds__(n)
using real = float;
typedef long long index_t;
template <typename A, typename B> struct Pair { typedef A first; A a; B b; };
struct Shape { int rows, cols; };
namespace other { struct Shape { int n; }; inline __device__ float twice(float x) { return x + x; } }
__device__ const char* text = "__global__ void not_a_kernel(int) {";  // __global__ void nor_this(int) {}
"""
HEADS = {
    None: ("", None),
    "k<3>": ("template <int N>", "<3>"),
    "k<float, int>": ("template <typename T, class U>", "<float, int>"),
    "k<true, 4>": ("template <bool B, unsigned N = (1 < 2), int M = sizeof(Pair<int, int>)>", "<true, 4>"),
    "k<>": ("template <int N = 2, typename T = float, typename U = int>", "<>"),
}
BEFORE = ("", "static ", "LAUNCH(128) ", "__launch_bounds__(256, 2) ", "[[maybe_unused]] ")
AFTER = ("", "__launch_bounds__(64) ", "__launch_bounds__((1 << 5) * 4) ", "LAUNCH(32) ")
GAPS = (" ", "\n", "\t", " /* ( { , ; */ ", " // ) } __global__\n", " \\\n", "\n#pragma unroll\n")


def kernel_names(source: str) -> tuple[str, ...]:
    """In order of definition, each once."""
    return tuple(dict.fromkeys(s.name for s in kernel_table(source).signatures))


@dataclass(frozen=True)
class Written:
    """One parameter as generated."""

    text: str
    name: str
    kind: str | None
    pointer: bool
    const: bool


@st.composite
def parameters(draw: st.DrawFn, index: int, templated: bool) -> Written:
    """A parameter declaration and what it means."""
    known = [t for t in TYPES if templated or (t not in ("T", "U") and "T," not in t)]
    spelling = draw(st.sampled_from(known))
    const = draw(st.booleans()) or spelling.startswith("const ")
    east = draw(st.booleans())
    bare = spelling.removeprefix("const ")
    typed = (f"{bare} const" if east else f"const {bare}") if const else bare
    name = draw(st.sampled_from((f"p{index}", f"p{index}", "")))
    shape = draw(st.sampled_from(("value", "*", " *", "* __restrict__", "* const", "[]", "[4]")))
    if shape == "value":
        return Written(f"{typed} {name}", name, TYPES[spelling], False, const)
    if shape.startswith("["):
        name = f"p{index}"
        return Written(f"{typed} {name}{shape}", name, TYPES[spelling], True, const)
    return Written(f"{typed}{shape} {name}", name, TYPES[spelling], True, const)


@st.composite
def kernels(draw: st.DrawFn, index: int) -> tuple[str, str, tuple[Written, ...]]:
    """Text, name expression and parameters of a kernel."""
    head, arguments = HEADS[draw(st.sampled_from(list(HEADS)))]
    count = draw(st.integers(0, 5))
    written = tuple(draw(parameters(i, "typename T" in head)) for i in range(count))
    gap = draw(st.sampled_from(GAPS))
    inside = f",{gap}".join(p.text for p in written) or draw(st.sampled_from(("", "void")))
    before, after = draw(st.sampled_from(BEFORE)), draw(st.sampled_from(AFTER))
    order = draw(st.sampled_from((f"{before}__global__ void {after}", f"{before}void __global__ {after}")))
    extern = 'extern "C" ' if not head and "static" not in order and draw(st.booleans()) else ""
    if extern and before.startswith("["):
        order = order.removeprefix(before)
    body = draw(
        st.sampled_from(("{}", "{ if (threadIdx.x < 3) { float s[2] = {1.f, 2.f}; (void)s; } }", ";"))
    )
    name = f"k{index}"
    text = f"{head}{gap if head else ''}{extern}{order}{name}({gap}{inside}) {body}"
    space = draw(st.sampled_from(("", "", "outer", "a::b", "external")))
    if space == "external":
        text, space = f'extern "C++" {{ {text} }}', ""
    qualified = f"{space}::{name}" if space else name
    return (f"namespace {space} {{ {text} }}" if space else text), qualified + (arguments or ""), written


@st.composite
def files(draw: st.DrawFn) -> tuple[str, list[tuple[str, str, tuple[Written, ...]]]]:
    """A ``.cu`` text and its kernels."""
    found = [draw(kernels(i)) for i in range(draw(st.integers(1, 4)))]
    return PRELUDE + "\n".join(text for text, _, _ in found), found


def check_file(text: str, found: list[tuple[str, str, tuple[Written, ...]]]) -> None:
    """Every kernel is seen, and every parameter read as it was meant, or not at all."""
    table = kernel_table(text)
    assert kernel_names(text) == tuple(expression.partition("<")[0] for _, expression, _ in found)
    assert not table.open
    for signature, (_, expression, written) in zip(table.signatures, found, strict=True):
        read = parameters_of(signature, kernel_name(expression), table, ())
        assert read is not None and len(read) == len(written)
        for got, meant in zip(read, written, strict=True):
            assert got.name == meant.name
            assert (got.kind and got.kind.text) == meant.kind
            if meant.kind is not None:
                assert got.pointer is meant.pointer
            if meant.kind is not None and meant.pointer:
                assert got.const is meant.const


@settings(max_examples=150, deadline=None)
@given(files())
def test_generated_signatures_are_read_as_meant(file) -> None:
    check_file(*file)


@settings(max_examples=10, deadline=None)
@given(files())
def test_generated_signatures_are_real_cuda(file) -> None:
    """Keeps the generator honest: what it writes, NVRTC takes."""
    from workbench.compile import compile_kernel
    from workbench.model import CompileReport

    text, found = file
    instances = tuple((expression, ()) for _, expression, _ in found)
    report = compile_kernel(text.replace(") ;", ") {}"), instances, "sm_90a")
    assert isinstance(report, CompileReport), (report, text)


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="__global__ void k(){}<>,;*&=#\"'\\/\n templateintfloatconst:[]0.R", max_size=120))
def test_any_text_is_scanned(text: str) -> None:
    assert all(isinstance(name, str) for name in kernel_names(text))
    assert "".join("".join(t.text for t in tokens(text)).split()) == "".join(text.split())


@settings(max_examples=100, deadline=None)
@given(files(), st.data())
def test_mutated_signatures_are_scanned(file, data) -> None:
    text, _ = file
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 30))
    changed = (
        text[:at]
        + data.draw(st.sampled_from(("", "(", "}", "<", '"', "/*", "\n#if", "__global__")))
        + text[at + cut :]
    )
    table = kernel_table(changed)
    x = Tensor("x", meta(4), "x", 0, 4, "x", True)
    for signature in table.signatures:
        if all(part.isascii() and part.isidentifier() for part in signature.name.split("::")):
            try:
                bind(table, kernel_name(signature.name), (), [x])
            except Refused:
                continue


def test_kernel_names_in_order_without_repeats() -> None:
    text = "__global__ void b(int);\n__global__ void a() {}\n__global__ void b(int n) {}"
    assert kernel_names(text) == ("b", "a")
    assert [s.line for s in kernel_table(text).signatures] == [1, 2, 3]


def test_branches_open_the_same_namespaces() -> None:
    text = (
        "#if A\nnamespace a {\n#elif B\nnamespace a {\n#else\nnamespace a {\n#endif\n__global__ void k() {} }"
    )
    assert kernel_names(text) == ("a::k",)


def test_a_comparison_in_a_default_is_no_bracket() -> None:
    table = kernel_table(
        "__global__ void k(int a = 1 < 2, int b = (3 > 2), Pair<int, int> c = 4 >> 1, int d = 0) {}"
    )
    read = parameters_of(table.signatures[0], kernel_name("k"), table, ())
    assert [p.name for p in read] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    "text",
    [
        "__global__",
        "__global__ void",
        "__global__ void k",
        "__global__ void k(",
        "__global__ void k(int",
        "__global__ k;",
        "__global__ (",
        "template < __global__ void k() {}",
        "}}}} __global__ void k() {}",
        "/* __global__ void k() {}",
    ],
)
def test_broken_text_is_left_to_the_compiler(text: str) -> None:
    table = kernel_table(text)
    assert table.open or table.signatures or text.startswith("/*")


def test_a_long_file_is_scanned_in_linear_time() -> None:
    """A work bound without a clock: tokens are as many as the text has."""
    text = "/* a */ x = y; " * 2_000 + "__global__ void k(" + "int a, " * 500 + "int b) {}"
    assert kernel_names(text) == ("k",)
    assert len(tokens(text)) == 2_000 * 5 + 4 + 500 * 3 + 5


def test_what_grows_without_end_is_left_to_the_compiler() -> None:
    """Each of these would take years if it were followed."""
    empty = "#define A0\n" + "".join(f"#define A{i} " + f"A{i - 1} " * 50 + "\n" for i in range(1, 16))
    loop = "#define P Q\n#define Q P\n"
    heads = ", ".join(["typename T0"] + [f"typename T{i} = V<T{i - 1}, T{i - 1}>" for i in range(1, 60)])
    text = (
        f"{empty}{loop}__global__ void a(A15 int n) {{}} __global__ void p(const P* x) {{}}"
        f"template <{heads}> __global__ void t(const T59* x) {{}}"
    )
    x = Tensor("x", meta(4), "x", 0, 4, "x", True)
    for name in ("a", "p", "t<float>"):
        assert len(bind(kernel_table(text), kernel_name(name), (), [x])) == 1


@pytest.mark.many(3)
@pytest.mark.parametrize(
    "piece", ["__global__ (", "__global__ void k(", "template <", "struct {", "typedef int x", "using"]
)
def test_hostile_repetition(piece: str) -> None:
    """Read in a time that grows with the text; a quadratic scan would run into the timeout of the test."""
    assert isinstance(kernel_names(piece * (300_000 // len(piece))), tuple)
