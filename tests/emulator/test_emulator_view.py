"""g++ builds the code that NVRTC builds: conditions, pasted words, attributes, calls of the system."""

import re

import pytest
import torch
from launching import Out, Shape, plan_of

from workbench.compile import compile_kernel
from workbench.emulator import view
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.unsupported import without_comments
from workbench.emulator.view import nvrtc_view
from workbench.errors import EmulatorBuildError, EmulatorUnsupported
from workbench.model import CompileFailed, CompileReport

KERNEL = "__global__ void fill(float* y) {{ y[threadIdx.x] = {}; }}\n"


def seen(condition: str) -> str:
    """Which side of a condition g++ gets."""
    source = f"#if {condition}\nconst int side = 1;\n#else\nconst int side = 2;\n#endif\n"
    return nvrtc_view(source, (("N", "4"),)).strip()


@pytest.mark.many(3)
@pytest.mark.parametrize(
    ("condition", "taken"),
    [
        ("defined(__CUDACC_RTC__)", True),
        ("!defined __CUDACC_RTC__", False),
        ("__CUDA_ARCH__ >= 900", True),
        ("defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800", False),
        ("defined(__GNUC__) || defined(__linux__)", False),
        ("defined(__WORKBENCH_EMULATOR__)", False),
        ("N == 4", True),
        ("USE_TENSOR_CORES", False),
        ("__cplusplus >= 201703L", True),
    ],
)
def test_conditions_are_decided_as_nvrtc_does(condition: str, taken: bool) -> None:
    assert seen(condition) == f"const int side = {1 if taken else 2};"
    wanted = "" if taken else "!"
    source = f"#if {wanted}({condition})\n__global__ void k() {{}}\n#endif\n"
    assert isinstance(compile_kernel(source, [("k", (("N", "4"),))]), CompileReport)


def test_the_table_is_nvrtcs() -> None:
    checks = "".join(f"#if {n} != {v}\n#error {n}\n#endif\n" for n, v in view.PREDEFINED.items())
    checks += "".join(f"#ifdef {name}\n#error {name}\n#endif\n" for name in sorted(view.ABSENT))
    report = compile_kernel(checks + "__global__ void k() {}\n", [("k", ())])
    assert isinstance(report, CompileReport), report


def test_lines_includes_and_guards_stay() -> None:
    source = (
        "#include <cuda_fp16.h>\n#ifndef M_PI\n#define M_PI 3.0\n#endif\n#if __CUDA_ARCH__ >= 800\n"
        "#pragma unroll 4\nint a;  // twice\n#else\n#include <nowhere.h>\nint b;\n#endif\nint c;\n"
    )
    lines = nvrtc_view(source, ()).split("\n")
    assert lines[:4] == source.split("\n")[:4]
    assert [lines[5], lines[6], lines[11]] == ["#pragma unroll 4", "int a;  // twice", "int c;"]
    assert "nowhere" not in "".join(lines) and "int b" not in "".join(lines)


REFUSED = {
    "reserved name": ("#ifdef __SIZEOF_INT128__\n#endif\n", "line 1: .*condition on __SIZEOF_INT128__"),
    "header's name": ("\n#if defined(INT_MAX)\nint x;\n#endif\n", "line 2: .*condition on INT_MAX"),
    "has_include": ("#if __has_include(<stdio.h>)\n#endif\n", "condition on __has_include"),
    "digraph": ("%:ifdef __GNUC__\n%:endif\n", "directive %:ifdef"),
    "line": ("#line 7\n", "directive #line"),
    "qualifier": ("#undef __device__\n", "another meaning for __device__"),
    "built-in": ("#define threadIdx blockIdx\n", "another meaning for threadIdx"),
    "constructor": ("__attribute__((constructor)) void f() {}\n", "the attribute constructor"),
    "section": ('__attribute__((aligned(4), section(".text"))) int f;\n', "the attribute section"),
    "gnu": ("[[gnu::constructor]] void f() {}\n", "the attribute gnu::constructor"),
    "pragma": ("\n#pragma GCC optimize(0)\n", "line 2: .*#pragma GCC"),
    "operator": ('_Pragma("GCC push_options")\n', "_Pragma"),
    "pasted": ("#define C(a, b) a##b\nvoid f() { C(as, m)(\"nop\"); }\n", "inline PTX"),
    "pasted attribute": (
        "#define C(a, b) a##b\nC(__attri, bute__)((constructor)) void f() {}\n",
        "the attribute constructor",
    ),
    "pasted otherwise": ("#define C(a, b) a%:%:b\nvoid f() { C(as, m)(\"nop\"); }\n", "inline PTX"),
    "named": ("#define A asm\nvoid f() { A(\"nop\"); }\n", "inline PTX"),
    "qualified": ("void f() { asm inline(\"nop\"); }\n", "inline PTX"),
    "word of two lines": ("void f() { as\\\nm(\"nop\"); }\n", "inline PTX"),
    "attribute of two lines": ("__attri\\\nbute__((constructor)) void f() {}\n", "the attribute constructor"),
    "behind a raw string": (
        'const char* s = R"x("/*)x";\n#ifdef __GNUG__\n#endif\n// */\n', "line 2: .*condition on __GNUG__"
    ),
    "behind a long number": (
        "const int n = 1'0;  // '/*\n#ifdef __GNUG__\n#endif\n// */\n", "line 2: .*condition on __GNUG__"
    ),
    "behind the end of a comment, on two lines": (
        "/* *\\\n/\n#ifdef __GNUG__\n#endif\n/* */\n", "line 3: .*condition on __GNUG__"
    ),
    "comment that may go on": ("// \\ \nint x;\n", "line 1: .*blanks after a backslash"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_two_compilers_would_read_differently_is_refused(case: str) -> None:
    text, words = REFUSED[case]
    with pytest.raises(EmulatorUnsupported, match=words):
        build(text + KERNEL.format("1.0f"), [("fill", ())], "plain")


def test_literals_and_lines_that_go_on_are_blanked_as_compilers_read_them() -> None:
    text = (
        "#define TWICE(x) \\\n  ((x) + (x))  // don't\nconstexpr int N = 1'0 - 8;  /* \" */\n"
        '__device__ const char* WORD = "/*", *R = R"(asm \\\n)"; // asm \\\nasm\n'
    )
    assert without_comments(text).count("\n") == text.count("\n")
    assert not re.search(r"asm|don|\*/|/\*", without_comments(text))
    plan = plan_of("fill", Shape(1, 4), {"y": Out((4,))})
    module = build(text + KERNEL.format("TWICE(float(N))"), [("fill", ())], "plain")
    assert execute(plan, module, {}).outputs[0].tolist() == [4.0] * 4


HOST = {
    "function": ('extern "C" int getppid();\n', "getppid()", "line 1: getppid is no function of a GPU"),
    "initialiser": ("float start() { return __ldg((float*)8); }\nfloat x = start();\n", "x", "constructors"),
    "object": ("struct S { float v; S() { v = clock(); } };\nS s;\n", "s.v", "constructors"),
}


@pytest.mark.parametrize("case", HOST)
@pytest.mark.parametrize("mode", ["plain", "checked"])
def test_code_of_a_process_is_refused(case: str, mode: str) -> None:
    text, value, words = HOST[case]
    with pytest.raises(EmulatorBuildError, match=words):
        build(text + KERNEL.format(value), [("fill", ())], mode)  # type: ignore[arg-type]


def test_a_kernel_with_two_faces_shows_the_gpus() -> None:
    source = (
        '#ifndef __CUDACC_RTC__\nextern "C" void _exit(int);\n#define VALUE (_exit(0), 2.0f)\n#else\n'
        "#define VALUE 1.0f\n#endif\n" + KERNEL.format("VALUE")
    )
    plan = plan_of("fill", Shape(1, 4), {"y": Out((4,))})
    execution = execute(plan, build(source, [("fill", ())], "plain"), {})
    assert execution.outputs[0].tolist() == [1.0] * 4
    assert not isinstance(compile_kernel(source, [("fill", ())]), CompileFailed)


POWER = """
extern "C" __global__ void powers(const float* x, float* y) {
    float power = x[threadIdx.x];
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(power));
    y[threadIdx.x] = power;
}
"""


def test_a_known_instruction_runs_and_flushes_what_is_too_small_for_a_normal_float() -> None:
    x = torch.tensor([0.0, -1.5, 3.0, -126.0, -127.0, -torch.inf, torch.inf, torch.nan])
    plan = plan_of("powers", Shape(1, 8), {"x": x, "y": Out((8,))})
    (y,) = execute(plan, build(POWER, [("powers", ())], "plain"), {"x": x}).outputs
    expected = x.double().exp2().float()
    expected[4] = 0.0
    torch.testing.assert_close(y, expected, equal_nan=True)


@pytest.mark.parametrize("more", ["; trap", " + 1"])
def test_a_known_instruction_with_anything_beside_it_is_refused(more: str) -> None:
    text = POWER.replace("%1;", f"%1{more};")
    assert text != POWER
    with pytest.raises(EmulatorUnsupported, match="inline PTX"):
        build(text, [("powers", ())], "plain")


EXTREMES = """
extern "C" __global__ void extremes(const float* x, const float* y, float* most, float* least) {
    const float a = x[threadIdx.x], b = y[threadIdx.x];
    float larger = a, smaller = a;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(smaller) : "f"(a), "f"(b));
    most[threadIdx.x] = larger;
    least[threadIdx.x] = smaller;
}
"""


def test_nan_wins_of_two() -> None:
    values = torch.tensor([0.0, -0.0, 2.5, -3.0, torch.inf, -torch.inf, torch.nan])
    x, y = (part.reshape(-1).contiguous() for part in torch.meshgrid(values, values, indexing="ij"))
    plan = plan_of("extremes", Shape(1, 49), {"x": x, "y": y, "most": Out((49,)), "least": Out((49,))})
    most, least = execute(plan, build(EXTREMES, [("extremes", ())], "plain"), {"x": x, "y": y}).outputs
    torch.testing.assert_close(most, torch.maximum(x, y), equal_nan=True)
    torch.testing.assert_close(least, torch.minimum(x, y), equal_nan=True)
    assert not isinstance(compile_kernel(EXTREMES, [("extremes", ())]), CompileFailed)


def test_two_operands_of_an_instruction_that_has_one_are_refused() -> None:
    with pytest.raises(EmulatorUnsupported, match="inline PTX"):
        build(EXTREMES.replace("max.NaN.f32", "ex2.approx.ftz.f32"), [("extremes", ())], "plain")
