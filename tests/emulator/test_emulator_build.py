"""Building: diagnostics at the person's lines, what is refused, the cache."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from launching import Out, Shape, run

from workbench.emulator import diagnostics, toolchain
from workbench.emulator.build import build, translation_unit
from workbench.emulator.unsupported import refuse_unsupported
from workbench.emulator.values import Mode
from workbench.errors import DeviceError, EmulatorBuildError, EmulatorUnsupported

COPY = "__global__ void copy(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }\n"


def test_repeat_comes_from_the_cache() -> None:
    first = build(COPY, [("copy", ())], "plain")
    again = build(COPY, [("copy", ())], "plain")
    assert again.cached
    assert again.binaries == first.binaries
    assert Path(first.binaries[0].path).exists()
    assert build(COPY, [("copy", ())], "checked").binaries[0].path != first.binaries[0].path


def test_one_library_for_each_set_of_macros() -> None:
    source = (
        "__global__ void fill(int* y) { y[threadIdx.x] = N; }\n"
        "template <int A> __global__ void f(int* y) { *y = A * N; }\n"
    )
    instances = [
        ("fill", (("N", "2"),)),
        ("f<1>", (("N", "2"),)),
        ("f<1>", (("N", "3"),)),
        ("f<1>", (("N", "3"),)),
    ]
    module = build(source, instances, "plain")
    assert [(b.consts, b.kernels) for b in module.binaries] == [
        ((("N", "2"),), ("fill", "f<1>")),
        ((("N", "3"),), ("f<1>",)),
    ]
    binary, entry = module.find(("f<1>", (("N", "2"),)))
    assert (binary, entry) == (module.binaries[0], 1)
    with pytest.raises(KeyError):
        module.find(("f<2>", ()))


def test_an_atomic_that_cuda_lacks_may_be_written_and_what_the_compiler_calls_is_linked(
    tmp_path: Path,
) -> None:
    source = (
        "__device__ float atomicMax(float* to, float x) {\n"
        "  return __int_as_float(atomicMax((int*)to, __float_as_int(x)));\n}\n"
        "__global__ void k(const float* x, float* y) {\n  float value = x[threadIdx.x];\n"
        "  __int128 wide = (__int128)(value * 1e6f) * 1000003;\n"
        "  atomicMax(y, sinhf((float)(wide / ((__int128)value + 1000003)) / 1e6f));\n}\n"
    )
    x = torch.linspace(0, 2, 32)
    args = {"x": x, "y": Out((1,), zero=True)}
    (tmp_path / "own.cu").write_text(source)
    found = run(f"{tmp_path}/own.cu:k", Shape(1, 32), args, "plain")
    torch.testing.assert_close(found.outputs[0], x.sinh().amax(0, True), rtol=1e-4, atol=0)


@pytest.mark.parametrize("mode", ["plain", "checked"])
@pytest.mark.parametrize(
    ("value", "linked"),
    [("x[i] * 2", set()), ("tanhf(x[i])", {"libm"}), ("x[i] * strlen(s)", {"libm", "libc"})],
)
def test_only_the_libraries_that_a_kernel_calls_are_linked(value: str, linked: set[str], mode: Mode) -> None:
    signature = "__global__ void k(const float* x, float* y, const char* s)"
    source = f"{signature} {{ int i = threadIdx.x; y[i] = {value}; }}\n"
    library = build(source, [("k", ())], mode).binaries[0].path
    told = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    assert {name for name in ("libm", "libc") if f"[{name}.so" in told} == linked


def test_macros_do_not_reach_the_headers() -> None:
    source = (
        "#include <cooperative_groups.h>\n#include <cuda_fp16.h>\n"
        "__global__ void fill(int* y) { y[0] = N + T + value; }\n"
    )
    build(source, [("fill", (("N", "2"), ("T", "3"), ("value", "4")))], "plain")


@pytest.mark.parametrize(
    ("source", "line", "column", "words"),
    [
        ("\n__global__ void k(float* y) {\n  y[0] = undeclared;\n}\n", 3, 10, "undeclared"),
        ("\n\ntemplate <class T> __device__ T twice(T v) { return v.none; }\n"
         "__global__ void k(float* y) { y[0] = twice(1.f); }\n", 3, 0, "none"),
        ("__global__ void k(float4* y) {\n  atomicMax(y, 1.f);\n}\n", 2, 0, "atomicMax"),
        ("__global__ void k(float* y) {\n  y[0] = 1.f\n}\n", 2, 0, "expected"),
    ],
)  # fmt: skip
def test_errors_stand_at_the_persons_lines(source: str, line: int, column: int, words: str) -> None:
    with pytest.raises(EmulatorBuildError) as caught:
        build(source, [("k", ())], "plain")
    found = caught.value.diagnostics[0]
    assert found.line == line
    assert words in found.message
    assert source.splitlines()[line - 1] in found.caret
    if column:
        assert (found.column, found.caret.splitlines()[1]) == (column, " " * (column - 1) + "^")


def test_unknown_kernel_is_named() -> None:
    with pytest.raises(EmulatorBuildError, match="other<3>: "):
        build(COPY, [("copy", ()), ("other<3>", ())], "plain")


def test_error_inside_a_header_moves_to_the_kernel() -> None:
    stderr = (
        "In file included from x:\nkernel.cu: In instantiation of 'f':\n"
        "kernel.cu:2:5:   required from here\n/x/atomics.h:20:3: error: static assertion failed: too wide\n"
    )
    (found,) = diagnostics.parse(stderr, "a\n    b\n", ["k"])
    assert (found.line, found.column, found.message) == (2, 5, "static assertion failed: too wide")
    assert found.caret == "    b\n    ^"


ADDS_TO_NOTHING = (
    "template <int N> __global__ void adds(const float* x, float* y) {\n    float sum, other = 0.0f;\n"
    "    for (int i = 0; i < N; i++) sum += x[i], other += x[i];\n    y[threadIdx.x] = sum + other;\n}\n"
)


@pytest.mark.parametrize("mode", ["plain", "checked"])
def test_a_variable_without_a_value_is_remarked_once(mode: Mode) -> None:
    (binary,) = build(ADDS_TO_NOTHING, [("adds<4>", ()), ("adds<8>", ())], mode).binaries
    (remark,) = binary.remarks
    assert (remark.severity, remark.line) == ("warning", 2)
    assert remark.message.startswith("sum ") and remark.message.endswith("used before it has a value")
    assert build(ADDS_TO_NOTHING, [("adds<4>", ()), ("adds<8>", ())], mode).binaries[0].remarks == (remark,)
    assert build(COPY, [("copy", ())], mode).binaries[0].remarks == ()


def test_a_silent_compiler_still_gives_a_diagnostic() -> None:
    assert diagnostics.parse("", "", ["k"])[0].message
    assert diagnostics.parse("g++: out of memory\n", "", ["k"])[0].message == "g++: out of memory"


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ('asm volatile("mov.u32 %0, %laneid;" : "=r"(x));', "inline PTX"),
        ("__cluster_dims__(2);", "a cluster that the kernel sets"),
        ("auto g = cooperative_groups::this_multi_grid();", "several cards"),
        ("CUtensorMap m;", "TMA"),
        ("child<<<1, 1>>>();", "launches from device code"),
        ("int n = sizeof(__PRETTY_FUNCTION__);", "a name that compilers give a meaning of their own"),
    ],
)
def test_what_cannot_run_is_said_before_the_compiler_stumbles(code: str, what: str) -> None:
    with pytest.raises(EmulatorUnsupported, match="the emulator cannot run this yet: ") as caught:
        refuse_unsupported(f"\n__global__ void k() {{\n{code}\n}}\n")
    assert (caught.value.diagnostics[0].line, what in str(caught.value)) == (3, True)


def test_words_in_comments_and_strings_are_no_features() -> None:
    refuse_unsupported('// asm("x") <<<\n/* this_grid()\n */ const char* s = "CUtensorMap"; int tasm(int);')


def test_missing_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    toolchain.compiler.cache_clear()
    with pytest.raises(DeviceError, match=r"no C\+\+ compiler found: install g\+\+"):
        toolchain.compiler()


def test_other_processors_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    toolchain.compiler.cache_clear()
    with pytest.raises(DeviceError, match="x86-64 only, not on arm64"):
        toolchain.compiler()


def with_own_kernels(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another cache, with what every kernel needs in it already: ten seconds less of g++."""
    build(COPY, [("copy", ())], "plain")
    cache = toolchain.cache_folder()
    monkeypatch.setenv("WORKBENCH_CACHE", str(folder))
    for kind in ("header-*", "half-*"):
        for made in cache.glob(kind):
            shutil.copytree(made, toolchain.cache_folder() / made.name)
    runtime = toolchain.runtime_path()
    shutil.copy(cache / runtime.name, runtime)


def test_processes_may_build_the_same_thing_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_own_kernels(tmp_path, monkeypatch)
    source = COPY + "// at once\n"
    code = (
        "from workbench.emulator.build import build; "
        f"print(build({source!r}, [('copy', ())], 'plain').binaries[0].path)"
    )
    root = str(Path(toolchain.__file__).parents[2])
    processes = [
        subprocess.Popen([sys.executable, "-c", code], cwd=root, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    paths = {process.communicate()[0].strip() for process in processes}
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(paths) == 1
    assert not list((tmp_path / "emulator").glob("tmp-*"))


def test_old_kernels_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    folder = toolchain.cache_folder()
    for age, name in ((9000, "old"), (5000, "newer"), (0, "newest")):
        for suffix in (".json", ".so"):
            file = folder / f"kernel-{name}{suffix}"
            file.touch()
            os.utime(file, (time.time() - age,) * 2)
    toolchain.prune(keep=1)
    assert sorted(path.name for path in folder.iterdir()) == ["kernel-newest.json", "kernel-newest.so"]
    toolchain.prune(keep=0)
    assert len(list(folder.iterdir())) == 2


def test_lines_are_the_persons_own() -> None:
    text = translation_unit("a\nb\n", (("N", "1"),), ("k",))
    assert text.startswith('#define N 1\n#line 1 "kernel.cu"\na\nb\n')
    assert "EMU_EXPORT(0, (k))" in text


def test_a_kernel_deleted_by_another_process_is_built_again() -> None:
    source = COPY + "// deleted by another process\n"
    first = build(source, [("copy", ())], "plain").binaries[0]
    Path(first.path).with_suffix(".json").unlink()
    again = build(source, [("copy", ())], "plain")
    assert not again.cached
    assert Path(again.binaries[0].path).exists()


def test_pruning_beside_another_process_that_prunes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    folder = toolchain.cache_folder()
    old = folder / "kernel-old.json"
    old.touch()
    os.utime(old, (0, 0))
    monkeypatch.setattr(toolchain, "_kernels", lambda: ["kernel-gone.json", old.name])
    toolchain.prune(keep=0)
    assert not old.exists()


def test_a_second_cache_in_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime of the first cache is loaded already; kernels of both must reach the one they call."""
    x = torch.arange(64.0)
    args = {"x": x, "y": Out((64,)), "n": 64}
    first = run("copy.cu:copy_coalesced", Shape(1, 64), args)
    with_own_kernels(tmp_path, monkeypatch)
    second = run("copy.cu:copy_coalesced", Shape(1, 64), args)
    assert torch.equal(first.outputs[0], x)
    assert torch.equal(second.outputs[0], x)
