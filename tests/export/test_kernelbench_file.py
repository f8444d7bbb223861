"""The exported file: its text, what it computes without a GPU, its host side, and what is refused."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path
from typing import Any

import pytest
from export.export_cases import CASES, kernel_of, problem_of

from workbench.compile import load_cubin
from workbench.errors import UsageError
from workbench.export import kernelbench_file
from workbench.export.launchers import device_text, host_text, launchers_of
from workbench.model import H100, Kernel, Returned, TensorMeta
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(params=CASES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def text_of(name: str) -> str:
    return kernelbench_file(problem_of(name), kernel_of(name), H100)


def test_golden(name: str) -> None:
    path = GOLDEN / f"{name}.py.txt"
    text = text_of(name)
    if os.environ.get("WORKBENCH_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


def test_multiplications_of_warp_groups_are_built_for_hopper() -> None:
    """torch asks nvcc for compute_90, which has none of them, unless it is told an architecture."""
    flag = "-gencode=arch=compute_90a,code=sm_90a"
    name = next(iter(CASES))
    kernel = kernel_of(name)
    assert flag not in kernelbench_file(problem_of(name), kernel, H100)
    asked = '__device__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }'
    hopper = Kernel(source=f"{kernel.source}\n{asked}\n")
    text = kernelbench_file(problem_of(name), hopper, H100)
    assert flag in text
    ast.parse(text)


def test_without_a_gpu_it_is_the_reference(name: str) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU: the file would build its kernels")
    theirs: dict[str, Any] = {}
    ours: dict[str, Any] = {}
    exec(compile(CASES[name][0], "theirs", "exec"), theirs)
    exec(compile(text_of(name), "ours", "exec"), ours)
    init = theirs["get_init_inputs"]() if "get_init_inputs" in theirs else theirs["init_inputs"]
    inputs = theirs["get_inputs"]() if "get_inputs" in theirs else theirs["inputs"]
    models = []
    for kind in (theirs[problem_of(name).entry], ours["ModelNew"]):
        torch.manual_seed(7)
        models.append(kind(*init).eval())
    reference, exported = models
    state = exported.state_dict()
    assert list(state) == list(reference.state_dict())
    assert all(torch.equal(state[key], value) for key, value in reference.state_dict().items())
    assert torch.equal(exported(*inputs), reference(*inputs))
    assert not exported(*inputs).requires_grad


def cuda_text(text: str) -> str:
    """What load_inline would be given as the CUDA file; the file's own code builds it."""
    tree = ast.parse(text)
    wanted = [
        node
        for node in tree.body
        if isinstance(node, ast.Assign | ast.FunctionDef) and "_kernels = " not in ast.unparse(node)
    ]
    names: dict[str, Any] = {"load_inline": dict}
    exec(ast.unparse(ast.Module(wanted, [])), names)
    return "\n".join(names["_build"]()["cuda_sources"])


RUNTIME = """
cudaError_t cudaGetLastError();
template <typename T> cudaError_t cudaFuncSetAttribute(T*, cudaFuncAttribute, int);
template <typename... P, typename... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t*, void (*kernel)(P...), A&&... given) {
    return cudaError_t((static_cast<P>(given), ..., 0));
}
template <typename... P> struct Started { void operator()(P...) const {} };
template <typename... P> Started<P...> started(void (*)(P...), dim3, dim3, int, cudaStream_t) { return {}; }
"""


def test_launchers_fit_their_kernels(name: str) -> None:
    """The CUDA compiler type-checks every launch; stand-ins declare the runtime's functions."""
    text = cuda_text(text_of(name)).replace("#include <stdexcept>", RUNTIME)
    text = re.sub(
        r"static void check\(cudaError_t status\) \{.*?\n\}\n", "void check(cudaError_t);\n", text, flags=re.S
    )
    launch = re.compile(r"(sizes\d::\w+(?:<\d+>)?)<<<(.*?)>>>\(", re.S)
    kernels = re.findall(r"(sizes\d::\w+(?:<\d+>)?)[,<]", text)
    text = launch.sub(r"started(\1, \2)(", text)
    answer = load_cubin(text, (), sorted(set(kernels)))
    assert isinstance(answer, tuple), answer.diagnostics[:3]


def test_a_wrong_launch_is_seen() -> None:
    """The check above can fail."""
    text = cuda_text(text_of("scale")).replace("(int)6144", '"6144"').replace("#include <stdexcept>", RUNTIME)
    text = re.sub(r"<<<(.*?)>>>\(", r"_(", text, flags=re.S)
    assert not isinstance(load_cubin(text, (), ["sizes0::scale<4>"]), tuple)


def test_includes_stand_before_the_macros() -> None:
    kernels, headers = device_text(kernel_of("scale").source)
    assert headers == ("<cuda_fp16.h>",)
    assert "plan" not in kernels and "#include" not in kernels and kernels.startswith("// Four")


REFUSED = {
    "instance": ({"kind": "module_instance"}, "it was built in the notebook"),
    "global tensor": ({"source": CASES["linear"][0].replace("self.layers =", "layers =")}, "layers.0.weight"),
    "starred": ({"source": CASES["linear"][0].replace("self, x", "self, *x")}, "name its inputs"),
}


@pytest.mark.parametrize(("change", "words"), REFUSED.values(), ids=REFUSED)
def test_refused(change: dict[str, Any], words: str) -> None:
    problem = problem_of("linear").model_copy(update=change)
    with pytest.raises(UsageError, match=words):
        kernelbench_file(problem, kernel_of("linear"), H100)


def test_nothing_to_export() -> None:
    kernel = Kernel(source='/* plan\ndef plan(A):\n    return library("aten.mul.Scalar", A, 3.5)\n*/\n')
    with pytest.raises(UsageError, match="starts no kernel"):
        kernelbench_file(problem_of("scale"), kernel, H100)
    refusing = kernel_of("scale").source.replace("A.is_contiguous", "A.shape[0] == 1")
    with pytest.raises(UsageError, match="covers none of the declared sizes"):
        kernelbench_file(problem_of("scale"), Kernel(source=refusing), H100)


def test_c_names_cannot_be_compiled_twice() -> None:
    source = kernel_of("linear").source.replace("__global__ void raise", 'extern "C" __global__ void raise')
    with pytest.raises(UsageError, match='leave out extern "C"'):
        kernelbench_file(problem_of("linear"), Kernel(source=source), H100)


def test_a_cooperative_launch_is_one_in_the_exported_file_too() -> None:
    source = """/* plan
def plan(x):
    y = empty_like(x)
    launch("meet", grid=4, block=32, args=[x, y], cooperative=True)
    return y
*/
__global__ void meet(const float* x, float* y) {}
"""
    meta = TensorMeta(dtype="f32", shape=(128,), strides=(1,))
    program = parse(source)
    text = host_text(launchers_of(interpret(program, {"x": meta}, H100).launches, program.kernels))
    assert "together.id = cudaLaunchAttributeCooperative;" in text
    assert "check(cudaLaunchKernelEx(&config, sizes0::meet, Address{x}, Address{y}));" in text


def test_transforms_and_complex_numbers_are_torchs_own_in_the_file() -> None:
    """What the exported lines compute; there is nothing to launch in them."""
    import torch
    from problem.cells import opened

    from workbench.export.steps import StepText
    from workbench.referee.librarymeta import library_meta

    problem = opened(
        "import torch\ndef twice(z):\n    return torch.fft.fft(torch.fft.fft(z)), torch.fft.fft(z)\n"
        "inputs = [torch.randn(4, 6, dtype=torch.cfloat)]"
    )
    source = (
        "/* plan\ndef plan(z):\n"
        '    spectrum = library("aten._fft_c2c", z, (1,), 0, True)\n'
        '    return library("aten._fft_c2c", spectrum, (1,), 0, True), spectrum\n*/\n'
    )
    program = parse(source)
    plan = interpret(program, problem.metas(problem.cases[0]), H100, library_meta=library_meta)
    text = StepText(problem, program, (), ("given",))
    lines = [*text.bindings(), *text.lines(plan)]
    body = "\n".join(f"    {line}" for line in lines)
    names: dict[str, Any] = {"torch": torch, "_laid_out": lambda tensor, shape: tensor}
    exec(f"def forward(given):\n{body}", names)
    z = torch.randn(4, 6, dtype=torch.cfloat)
    twice, spectrum = names["forward"](z)
    torch.testing.assert_close(twice, torch.fft.fft(torch.fft.fft(z)))
    torch.testing.assert_close(spectrum, torch.fft.fft(z))


RETURNS = {
    "builtins:dict": "{'y': out}",
    "builtins:list": "[out]",
    "__main__:Found": "Found(y=out)",
    "torch.return_types:max": "torch.return_types.max((out,))",
    "": "out,",
}


@pytest.mark.parametrize("kind", RETURNS)
def test_results_are_returned_as_the_reference_does(kind: str) -> None:
    changes = {
        "source": f"class Found: ...\n{problem_of('scale').source}",
        "returns_tuple": True,
        "returned": Returned(kind=kind, names=("y",)) if kind else None,
    }
    text = kernelbench_file(problem_of("scale").model_copy(update=changes), kernel_of("scale"), H100)
    assert re.findall(r"^ +return (.*out.*)$", text, re.MULTILINE) == [RETURNS[kind]]


def test_results_are_put_into_one_another_again() -> None:
    pair = Returned(kind="builtins:tuple", parts=(None,))
    nothing = Returned(kind="builtins:NoneType")
    how = Returned(kind="builtins:dict", names=("state", "loss"), parts=(pair, nothing))
    problem = problem_of("scale").model_copy(update={"returns_tuple": True, "returned": how})
    text = kernelbench_file(problem, kernel_of("scale"), H100)
    assert re.findall(r"^ +return (.*out.*)$", text, re.MULTILINE) == ["{'state': (out,), 'loss': None}"]


def test_results_of_a_type_that_is_elsewhere_are_refused() -> None:
    problem = problem_of("scale").model_copy(update={"returned": Returned(kind="elsewhere:Found")})
    with pytest.raises(UsageError, match="returns a Found, which its own text does not define"):
        kernelbench_file(problem, kernel_of("scale"), H100)
