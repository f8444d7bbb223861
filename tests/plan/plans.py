"""Plans for the tests: short ways to write one, interpret it, and see how it is refused."""

from collections.abc import Mapping
from textwrap import dedent, indent

import pytest

from workbench.errors import NotCovered, PlanError
from workbench.model import H100, Diagnostic, TensorMeta, contiguous_strides
from workbench.plan.interpret import interpret, refuse_library
from workbench.plan.parse import parse
from workbench.plan.steps import Launch, Plan

KERNELS = """
__global__ void copy(const float* x, float* y, int n) {}
template <int BLOCK, typename T = float> __global__ void rows(const T* __restrict__ x, T* __restrict__ y) {}
__global__ void scale(const float* x, float* y, float factor, bool flag, long long n) {}
__global__ void add(const float* a, const float* b, float* y) {}
__global__ void swap(float* a, float* b) {}
"""

FIRST_LINE = 4
"""Line of the plan's first statement in ``source(body)``."""


def meta(
    *shape: int, dtype: str = "f32", strides: tuple[int, ...] | None = None, alignment: int = 256
) -> TensorMeta:
    """Metadata, contiguous unless strides are given."""
    return TensorMeta.model_validate(
        {
            "dtype": dtype,
            "shape": shape,
            "strides": contiguous_strides(shape) if strides is None else strides,
            "alignment": alignment,
        }
    )


def source(body: str, parameters: str = "x", kernels: str = KERNELS) -> str:
    """A ``.cu`` text whose plan has this body; its first line is ``FIRST_LINE``."""
    lines = indent(dedent(body).strip(), "    ")
    return f"#include <cuda_fp16.h>\n/* plan\ndef plan({parameters}):\n{lines}\n*/{kernels}"


def run(body: str, *, kernels: str = KERNELS, library=refuse_library, **tensors: TensorMeta) -> Plan:
    """Interpret a plan with this body; its parameters are the tensors, ``x`` of (6, 4) by default."""
    tensors = tensors or {"x": meta(6, 4)}
    return interpret(parse(source(body, ", ".join(tensors), kernels)), tensors, H100, library)


def value_of(expression: str, **tensors: TensorMeta) -> object:
    """The value of an expression, read back from a scalar argument of a launch."""
    body = f"y = zeros(1, f64)\nlaunch('k', grid=1, block=1, args=[y, {expression}])\nreturn y"
    plan = run(body, kernels="\n#define K __global__\n", **tensors)
    return plan.launches[0].args[1].value


def holds(condition: str, **tensors: TensorMeta) -> bool:
    """Whether a condition is true in a plan."""
    try:
        run(f"require({condition}, 'no')\nreturn zeros(1, f32)", **tensors)
    except NotCovered:
        return False
    return True


def refused(
    text: str, arguments: Mapping[str, TensorMeta] | None = None, library=refuse_library
) -> Diagnostic:
    """The one diagnostic of a text that must be refused; its caret lies on the line it names."""
    with pytest.raises(PlanError) as caught:
        interpret(parse(text), arguments or {"x": meta(6, 4)}, H100, library)
    assert not isinstance(caught.value, NotCovered)
    first = caught.value.diagnostics[0]
    assert first.severity == "error"
    assert "\n" not in first.message
    assert first.caret.split("\n")[0] == text.split("\n")[first.line - 1]
    return first


def refused_body(body: str, *, kernels: str = KERNELS, **tensors: TensorMeta) -> Diagnostic:
    """``refused`` for a plan with this body."""
    tensors = tensors or {"x": meta(6, 4)}
    return refused(source(body, ", ".join(tensors), kernels), tensors)


def pointed_at(diagnostic: Diagnostic) -> str:
    """The source text from the caret on."""
    return diagnostic.caret.split("\n")[0][diagnostic.column - 1 :]


def only_launch(plan: Plan) -> Launch:
    """The one launch of a plan."""
    (launch,) = plan.launches
    return launch
