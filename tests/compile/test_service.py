"""Real NVRTC compilations for sm_90a, without a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from workbench.compile import compile_kernel, load_cubin, service
from workbench.compile.options import fingerprint
from workbench.errors import DeviceError
from workbench.model import CompileFailed, CompileReport, Diagnostic
from workbench.workers import Died, Limits, Raised

SOFTMAX = """/* plan
def plan(x):
    y = empty_like(x)
    launch("softmax<256>", grid=x.shape[0], block=256, args=[x, y, x.shape[1]])
    return y
*/
template <int BLOCK>
__global__ void __launch_bounds__(BLOCK) softmax(const float* x, float* y, int cols) {
    __shared__ float partial[BLOCK];
    float largest = -INFINITY;
    for (int c = threadIdx.x; c < cols; c += BLOCK) largest = fmaxf(largest, x[blockIdx.x * cols + c]);
    partial[threadIdx.x] = largest;
    __syncthreads();
    y[blockIdx.x * cols + threadIdx.x] = expf(partial[BLOCK - 1 - threadIdx.x]);
}
"""


def compiled(source: str, *kernels: str, consts: tuple[tuple[str, str], ...] = ()) -> CompileReport:
    report = compile_kernel(source, [(kernel, consts) for kernel in kernels])
    assert isinstance(report, CompileReport), report
    return report


def refused(source: str, *kernels: str) -> tuple[Diagnostic, ...]:
    outcome = compile_kernel(source, [(kernel, ()) for kernel in kernels])
    assert isinstance(outcome, CompileFailed) and outcome.stage == "nvrtc"
    return outcome.diagnostics


def test_resources_per_instance_in_the_order_asked() -> None:
    report = compiled(SOFTMAX, "softmax<256>", "softmax<1024>", "softmax<2 * 64>")
    assert [r.kernel for r in report.kernels] == ["softmax<256>", "softmax<1024>", "softmax<2 * 64>"]
    assert [r.shared_bytes for r in report.kernels] == [1024, 4096, 512]
    assert all(8 <= r.registers <= 64 and r.barriers == 1 for r in report.kernels)
    assert (report.arch, report.cached, report.warnings) == ("sm_90a", False, ())


def test_spills_and_stack_are_reported() -> None:
    source = """template <int N> __global__ void __launch_bounds__(1024) spill(float* x) {
        float v[N];
        for (int i = 0; i < N; ++i) v[i] = x[i * 7];
        for (int i = 0; i < N; ++i) for (int j = 0; j < N; ++j) x[i * N + j] = v[i] * v[j] + v[(i + j) % N];
    }"""
    (resources,) = compiled(source, "spill<100>").kernels
    assert resources.spill_store_bytes > 0 and resources.spill_load_bytes > 0 and resources.stack_bytes > 0


def test_consts_are_macros_and_make_instances_of_their_own() -> None:
    source = (
        'extern "C" __global__ void k(float* x) { __shared__ float s[COLS]; s[threadIdx.x] = *x; *x = s[1]; }'
    )
    report = compile_kernel(source, [("k", (("COLS", "64"),)), ("k", (("COLS", "2 * 64"),))])
    assert isinstance(report, CompileReport)
    assert [(r.consts, r.shared_bytes) for r in report.kernels] == [
        ((("COLS", "64"),), 256),
        ((("COLS", "2 * 64"),), 512),
    ]


def test_overload_of_the_name_in_a_namespace() -> None:
    report = compiled("namespace a { __global__ void k(float* x) { *x = 1; } }", "a::k")
    assert report.kernels[0].kernel == "a::k"


def test_nothing_to_compile() -> None:
    assert compiled("not even CUDA").kernels == ()


def test_repeat_is_remembered_without_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    first = compiled(SOFTMAX, "softmax<256>")

    def never() -> Any:
        raise AssertionError("a cached kernel was compiled again")

    monkeypatch.setattr(service, "light", never)
    second = compiled(SOFTMAX, "softmax<256>")
    assert second.cached and second.kernels == first.kernels


def test_refusals_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    first = refused("__global__ void k() { oops; }", "k")
    monkeypatch.setattr(service, "light", None)
    assert refused("__global__ void k() { oops; }", "k") == first


def test_another_fingerprint_is_another_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(SOFTMAX, "softmax<256>")
    monkeypatch.setattr(service, "fingerprint", lambda: "another shim")
    assert not compiled(SOFTMAX, "softmax<256>").cached
    assert len(fingerprint()) == 64


def test_damaged_cache_is_compiled_anew(own_cache: Path) -> None:
    compiled(SOFTMAX, "softmax<256>")
    (entry,) = [path for path in own_cache.rglob("*") if path.is_file()]
    entry.write_bytes(entry.read_bytes()[:-10])
    assert not compiled(SOFTMAX, "softmax<256>").cached
    assert compiled(SOFTMAX, "softmax<256>").cached


def test_cubin_shares_the_cache_with_the_report() -> None:
    compiled(SOFTMAX, "softmax<256>", "softmax<128>")
    loaded = load_cubin(SOFTMAX, (), ("softmax<128>", "softmax<256>"))
    assert not isinstance(loaded, CompileFailed)
    image, names = loaded
    assert image.startswith(b"\x7fELF")
    assert names["softmax<256>"].encode() in image and set(names) == {"softmax<128>", "softmax<256>"}


def test_machine_code_comes_out_twice_even_where_a_header_names_its_internals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        "#include <cooperative_groups.h>\n"
        "__global__ void k(float* y) { cooperative_groups::this_grid().sync(); y[0] = 1.0f; }"
    )
    images = []
    for turn in ("first", "second"):
        monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / turn))
        loaded = load_cubin(source, (), ("k",))
        assert not isinstance(loaded, CompileFailed)
        images.append(loaded[0])
    assert b"_INTERNAL_" in images[0] and images[0] == images[1]


def test_cubin_of_a_bad_kernel() -> None:
    assert isinstance(load_cubin("__global__ void k() { oops; }", (), ("k",)), CompileFailed)


def test_error_at_the_persons_line() -> None:
    (found,) = refused(SOFTMAX.replace("fmaxf(largest,", "fmaxff(largest,"), "softmax<256>")
    assert (found.file, found.line) == ("kernel.cu", 11)
    line, caret = found.caret.split("\n")
    assert line[found.column - 1 :].startswith("fmaxff") and caret == " " * (found.column - 1) + "^"
    assert found.message == 'identifier "fmaxff" is undefined'


@pytest.mark.parametrize(
    ("statement", "advice"),
    [
        ("cudaDeviceSynchronize();", "there is no host code here"),
        ("half h;", "#include <cuda_fp16.h>"),
        ("float f = __half2float(0);", "#include <cuda_fp16.h>"),
        ("__nv_bfloat16 b;", "#include <cuda_bf16.h>"),
        ("int i = __shfl_down(1, 16);", "write __shfl_down_sync(0xffffffff, ...)"),
    ],
)
def test_what_a_student_would_write_is_met_with_advice(statement: str, advice: str) -> None:
    [found, *_] = refused(f"__global__ void k() {{ {statement} }}", "k")
    assert "is undefined: " in found.message
    assert advice in found.message


def test_column_counts_characters() -> None:
    (found,) = refused("__global__ void k(float* x) {\n\t/* é */ x[1] = g();\n}", "k")
    assert (found.line, found.column) == (2, 17)
    assert found.caret == "\t/* é */ x[1] = g();\n\t" + " " * 15 + "^"


def test_instantiation_is_explained() -> None:
    source = """template <class T, int N> struct Tile { static_assert(N > 3, "N must be > 3"); T v[N]; };
template <class T> __device__ T first(T a) { Tile<T, 2> z{}; return z.v[0] + a; }
template <class T> __global__ void k(T* x) {
    x[0] = first(x[1]);
}"""
    found = refused(source, "k<float>")
    assert "N must be > 3" in found[0].message and found[0].line == 1
    notes = [(note.line, note.message) for note in found[1:]]
    assert (2, 'in instantiation of class "Tile<T, N> [with T=float, N=2]"') in notes
    assert (4, 'in instantiation of "T first(T) [with T=float]"') in notes


def test_candidates_are_kept_as_notes() -> None:
    source = "__device__ float f(int a) { return a; }\n__global__ void k(float* x) { *x = f(1, 2); }"
    error, *notes = refused(source, "k")
    assert error.line == 2 and all(note.severity == "note" for note in notes)


def test_argument_types_are_part_of_the_message() -> None:
    source = """__device__ float f(int a, int b) { return a; }
__device__ float f(float* a) { return *a; }
__global__ void k(float* x) { *x = f(x, 2, 3); }"""
    error, *notes = refused(source, "k")
    assert "argument types are: (float *, int, int)" in error.message
    assert {note.line for note in notes} == {1, 2}


def test_unclosed_brace_points_back() -> None:
    found = refused("__global__ void k(float* x) {\n  if (x) {\n}\n", "k")
    assert {d.line for d in found if d.severity == "error"} <= {3, 4}
    assert any(d.severity == "note" and "to match this" in d.message for d in found)


def test_misspelt_kernel() -> None:
    (found,) = refused(SOFTMAX.replace('launch("softmax<', 'launch("sofmax<'), "sofmax<256>")
    assert found.line == 4
    assert found.message == "no kernel named 'sofmax' in this file. Did you mean 'softmax'?"


@pytest.mark.parametrize("kernel", ["softmax<float>", "softmax<1, 2>", "softmax<>"])
def test_wrong_template_arguments(kernel: str) -> None:
    (found,) = refused(SOFTMAX, kernel)
    assert kernel in found.message and "template arguments" in found.message and found.line == 4


def test_not_a_kernel() -> None:
    (found,) = refused("__device__ void helper() {}", "helper")
    assert "'helper' is not a kernel" in found.message


def test_overloaded_kernel() -> None:
    (found,) = refused("__global__ void k(float*) {}\n__global__ void k(int*) {}", "k")
    assert "more than one kernel" in found.message


def test_malformed_name() -> None:
    (found,) = refused(SOFTMAX, "softmax<256")
    assert "softmax<256" in found.message


def test_too_much_shared_memory() -> None:
    source = "\n__global__ void big(float* x) { __shared__ float s[90000]; s[threadIdx.x] = *x; *x = s[1]; }"
    (found,) = refused(source, "big")
    assert found.line == 2
    assert found.message == "kernel 'big' declares 360,000 bytes of shared memory; a block has 232,448"


def test_undefined_function() -> None:
    (found,) = refused("__device__ float other(float);\n__global__ void k(float* x) { *x = other(*x); }", "k")
    assert found.line == 1 and found.message == "function 'other' is declared but not defined in this file"


def test_bad_assembly() -> None:
    (found,) = refused('__global__ void k(float* x) {\n asm("bogus.f32 %0;" : "=f"(*x)); }', "k")
    assert found.line == 2 and "bogus" in found.message


def test_host_header() -> None:
    (found,) = refused("#include <vector>\n__global__ void k() {}", "k")
    assert found.line == 1 and '"vector"' in found.message and "no host library" in found.message


def test_an_error_in_a_header_stands_where_it_is_included() -> None:
    source = "#include <cuda_fp16.h>\n\n#include <cub/cub.cuh>\n__global__ void k() {}"
    (header,) = refused(source, "k")
    assert (header.file, header.line, header.caret) == ("kernel.cu", 3, "#include <cub/cub.cuh>\n^")
    assert "cub/block" in header.message and ", line " in header.message


def test_warnings_come_with_the_report() -> None:
    (warning,) = compiled("__global__ void k(float* x) {\n  int unused;\n}", "k").warnings
    assert (warning.severity, warning.line) == ("warning", 2) and "unused" in warning.message


def test_nul_character() -> None:
    (found,) = refused("__global__ void k() {}\n\0 __global__ void hidden() {}", "k")
    assert found.line == 2 and "NUL" in found.message


@pytest.mark.parametrize("name", ["__DATE__", "__TIME__"])
def test_the_day_of_compiling(name: str) -> None:
    """Judged today, such a kernel may be another one tomorrow."""
    (found,) = refused(f"__global__ void k(float* x) {{\n  x[0] = {name}[7];\n}}", "k")
    assert found.line == 2 and found.message.startswith(f"{name} is when it is compiled")


def test_invalid_unicode() -> None:
    (found,) = refused("\n\n// \ud800", "k")
    assert found.line == 3 and "Unicode" in found.message


def test_endless_template_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "LIMITS", Limits(wall_s=20, cpu_s=1))
    source = """template <int N, int M> struct F {
    static constexpr long v = F<N - 1, 2 * M>::v + F<N - 1, 2 * M + 1>::v;
};
template <int M> struct F<0, M> { static constexpr long v = M; };
__global__ void k(long* x) { *x = F<24, 0>::v; }"""
    (found,) = refused(source, "k")
    assert "limit of 1 s" in found.message


def test_a_compiler_that_crashes_costs_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    class Crashing:
        def call(self, *_: object) -> Died:
            return Died(signal="SIGSEGV", message="the process crashed")

    monkeypatch.setattr(service, "light", Crashing)
    (found,) = refused("__global__ void k() {}", "k")
    assert "the process crashed" in found.message


def test_a_broken_toolchain_is_a_machine_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def call(self, *_: object) -> Raised:
            return Raised(type="ImportError", message="libnvrtc.so.13", traceback="")

    monkeypatch.setattr(service, "light", Broken)
    with pytest.raises(DeviceError, match="libnvrtc"):
        compile_kernel("__global__ void k() {}", [("k", ())])


def test_calling_process_stays_light() -> None:
    code = "import sys, workbench.compile; assert not {'torch', 'cuda', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
