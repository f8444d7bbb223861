"""Bytes and floating-point operations of ATen operations, from shapes alone. No torch.

Owns the list of operations that are library calls of their own (matrix products, convolutions,
sorting, ...). What of them a graph cannot do without is least_operations.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.model import (
    DTYPE_BYTES,
    H100,
    Case,
    Contract,
    OpNode,
    OutputSpec,
    Problem,
    Ref,
    cudnn_operations,
    over_fp32,
    size_of,
)
from workbench.model.aten_names import RECURRENT
from workbench.problem.slow_calls import batched_us, of_few_rows
from workbench.referee.convolution import Shape, convolution_of, convolved_of

_FREE = """
view _unsafe_view reshape permute transpose t expand select slice unsqueeze squeeze alias detach clone
split split_with_sizes unbind chunk narrow diagonal as_strided full full_like zeros zeros_like ones
ones_like arange scalar_tensor empty lift_fresh_copy convert_element_type
"""
_REDUCTIONS = "sum mean amax amin max min argmax argmin prod any all var std var_mean std_mean logsumexp"
_EXTERNAL = """
mm bmm addmm _addmm_activation baddbmm matmul mv dot linear _trilinear convolution conv2d conv1d conv3d sort
topk kthvalue median nanmedian cumsum
cumprod max_pool2d_with_indices max_pool3d_with_indices avg_pool2d avg_pool1d avg_pool3d _adaptive_avg_pool2d
upsample_nearest2d upsample_bilinear2d scatter scatter_add index_put nonzero grid_sampler_2d
_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention
scaled_dot_product_attention gru lstm rnn_tanh rnn_relu _fft_r2c _fft_c2c _fft_c2r
linalg_inv_ex _linalg_det _linalg_slogdet _linalg_solve_ex linalg_cholesky_ex cholesky_solve
cholesky_inverse linalg_solve_triangular
"""
FREE = frozenset(_FREE.split())
REDUCTIONS = frozenset(_REDUCTIONS.split())
EXTERNAL = frozenset(_EXTERNAL.split())


def flops(name: str, inputs: Sequence[Shape], output: Shape, args: Sequence[Any] = ()) -> float:
    """Operations of a matrix product or convolution (a multiply-add is two); 0 for anything else.

    ``args`` are the operation's own: a convolution's stride, padding, dilation and direction stand behind its
    three tensors. Done directly: an algorithm may need fewer, see ``fewest_flops``.
    """
    results = math.prod(output)
    match name:
        case "mm" | "bmm" | "matmul" | "mv" | "dot" | "linear":
            return 2.0 * results * inputs[0][-1]
        case "addmm" | "_addmm_activation" | "baddbmm":
            return 2.0 * results * inputs[1][-1]
        case "convolution":
            return 2.0 * convolution_of(inputs, output, args[3:7]).direct
        case "scaled_dot_product_attention":
            queries, keys = inputs[0][-2], inputs[1][-2]
            # Under a causal mask query i sees the keys 0 to i.
            few = min(queries, keys)
            seen = few * (few + 1) // 2 + (queries - few) * keys
            pairs = seen if len(args) > 5 and args[5] is True else queries * keys
            return 2.0 * math.prod(inputs[0][:-2]) * pairs * (inputs[1][-1] + inputs[2][-1])
        case _ if name in RECURRENT:  # matrices are weights, which every row meets at each step
            rows = math.prod(output[:2])
            return 2.0 * rows * sum(math.prod(shape) for shape in inputs if len(shape) == 2)
        case "conv1d" | "conv2d" | "conv3d" | "_trilinear":  # the weight has all that is summed over
            return 2.0 * results * math.prod(inputs[1][1:])
        case _:
            return 0.0


_OF_MATRICES = frozenset(("mm", "bmm", "addmm"))
LIBRARY_EFFICIENCY = 0.88
"""cuBLAS FP32 reaches 53 of 60 TFLOP/s at 4096 cubed."""


def library_operations(
    name: str,
    inputs: Sequence[Shape],
    output: Shape,
    args: Sequence[Any],
    contract: Contract,
    factor_bytes: int,
) -> float:
    """Operations of float32 that take as long as a library's call does, at the share that libraries draw.

    Products of matrices are taken to reach that share of their unit; a convolution reaches what cuDNN was
    seen to, by its sizes, where it multiplies float32 in float32 or 16-bit numbers.
    """
    direct = flops(name, inputs, output, args)
    plain = over_fp32(contract, factor_bytes) == 1.0
    rows = output[-2] if name in _OF_MATRICES and len(output) > 1 else 0
    if plain and (more := of_few_rows(rows, name == "bmm")) > 1.0:
        return LIBRARY_EFFICIENCY * more * direct
    if name == "bmm":
        batch, rows, columns = output
        us = batched_us(batch, rows, columns, inputs[0][-1], factor_bytes)
        waited = 1e-6 * us * LIBRARY_EFFICIENCY * H100.fp32_flops_per_s
        return max(direct / over_fp32(contract, factor_bytes), waited)
    if name != "convolution" or not (factor_bytes == 2 or (factor_bytes == 4 and contract == "ieee-fp32")):
        return direct / over_fp32(contract, factor_bytes)
    groups = int(args[8]) if len(args) > 8 else 1
    return LIBRARY_EFFICIENCY * cudnn_operations(
        convolved_of(inputs, output, args[3:7], groups, factor_bytes)
    )


def factors(name: str) -> slice:
    """Which of a product's tensors are multiplied: what is added comes first where there is one."""
    return slice(1, 3) if name in ("addmm", "_addmm_activation", "baddbmm") else slice(2)


def fewest_flops(
    name: str, inputs: Sequence[Shape], output: Shape, args: Sequence[Any] = (), transformed: float = 1.0
) -> float:
    """Operations by whatever algorithm: fewer than ``flops`` where a convolution has several taps.

    ``transformed`` is what a product of transformed tiles costs, in plain ones.
    """
    direct = flops(name, inputs, output, args)
    if name != "convolution":
        return direct
    return min(direct, 2.0 * transformed * convolution_of(inputs, output, args[3:7]).least)


_SLOW: Mapping[str, float] = {
    **dict.fromkeys(("div", "reciprocal", "true_divide"), 8.0),
    **dict.fromkeys(("exp", "exp2", "log", "log2", "log10", "rsqrt", "sqrt"), 8.0),
    **dict.fromkeys(("tanh", "sigmoid", "silu", "sin", "cos", "expm1", "log1p", "softplus"), 16.0),
    **dict.fromkeys(("logaddexp", "logaddexp2"), 36.0),
    **dict.fromkeys(("erf", "erfc", "gelu", "mish", "elu", "tan", "atan2", "asin", "acos", "atan"), 24.0),
    **dict.fromkeys(("sinh", "cosh", "asinh", "acosh", "atanh", "erfinv", "hypot"), 24.0),
    **dict.fromkeys(("fmod", "remainder", "floor_divide"), 24.0),
    **dict.fromkeys(("pow",), 48.0),
    **dict.fromkeys(("lgamma", "digamma"), 60.0),
}
"""By compiled code as kernels of one's own have it (playbook/analysis/arithmetic.py), a little less where a
compiler may know more, as of a power."""


def instructions(name: str) -> float:
    """Instructions a thread issues for one element of a pointwise operation or reduction, roughly."""
    return 0.0 if name in FREE or name in EXTERNAL else _SLOW.get(name, 1.0)


LOOKUPS = frozenset(["embedding", "gather", "index", "index_select", "take"])
"""Operations that read from their first operand only what they return."""


@dataclass(frozen=True)
class Sized:
    """A graph node with its sizes at one case."""

    node: OpNode
    name: str
    inputs: tuple[tuple[str, Shape, int], ...]
    """Referred result, its shape and bytes."""
    output: Shape
    written: int
    """Bytes of all results."""
    factor_bytes: int = 4
    """Of one element of a product's factors, the wider one's."""
    exact_bytes: int = 4
    """The same before conversions that lose nothing: what a kernel may multiply instead."""

    @property
    def flops(self) -> float:
        """Operations of this node, done directly."""
        return flops(self.name, self._shapes, self.output, self.node.args)

    def library_operations(self, contract: Contract) -> float:
        """Operations of float32 that take as long as this node does as a library's call."""
        return library_operations(
            self.name, self._shapes, self.output, self.node.args, contract, self.factor_bytes
        )

    def fewest_flops(self, transformed: float) -> float:
        """Operations of this node by whatever algorithm, in plain products."""
        return fewest_flops(self.name, self._shapes, self.output, self.node.args, transformed)

    @property
    def _shapes(self) -> list[Shape]:
        return [shape for _, shape, _ in self.inputs]

    @property
    def instructions(self) -> float:
        """Instructions of all threads for this node, loads and stores not counted."""
        if self.name == "pow" and len(self.node.args) > 1 and self.node.args[1] in (2, 3):
            return 2.0 * self.elements
        return instructions(self.name) * self.elements

    @property
    def elements(self) -> int:
        """Of the largest tensor at hand; a table counts only as far as something is looked up in it."""
        read = () if self.name in LOOKUPS else tuple(shape for _, shape, _ in self.inputs)
        return max(math.prod(shape) for shape in (self.output, *read))


def sized(problem: Problem, case: Case) -> tuple[Sized, ...]:
    """Every node of the graph with the sizes of one case."""
    sizes = case.size_map
    known: dict[str, tuple[tuple[Shape, int], ...]] = {
        name: ((meta.shape, meta.nbytes),) for name, meta in problem.metas(case).items()
    }
    bytes_of = {name: DTYPE_BYTES[meta.dtype] for name, meta in problem.metas(case).items()}
    exact = dict(bytes_of)
    result = []
    for node in problem.graph.nodes:
        outs = tuple(_out(spec, sizes) for spec in node.outs)
        inputs = tuple((ref.ref, *known[ref.ref][ref.item or 0]) for ref in references(node))
        known[node.name] = outs
        written = sum(n for _, n in outs)
        name, sources = node.base_name, [ref for ref, _, _ in inputs]
        bytes_of[node.name] = DTYPE_BYTES[node.outs[0].dtype]
        same = (name in FREE or name == "_to_copy") and sources
        exact[node.name] = min(bytes_of[node.name], exact[sources[0]]) if same else bytes_of[node.name]
        widths = [max((of[ref] for ref in sources[factors(name)]), default=4) for of in (bytes_of, exact)]
        result.append(Sized(node, name, inputs, outs[0][0], written, *widths))
    return tuple(result)


def _out(spec: OutputSpec, sizes: Mapping[str, int]) -> tuple[Shape, int]:
    shape = tuple(size_of(d, sizes) for d in spec.dims)
    return shape, math.prod(shape) * DTYPE_BYTES[spec.dtype]


def references(node: OpNode) -> tuple[Ref, ...]:
    """Every result or tensor a node reads, each once."""
    return tuple(dict.fromkeys(node.refs))


def readers_of(nodes: Iterable[Sized]) -> dict[str, list[Sized]]:
    """The nodes that read each tensor argument or result, by its name."""
    readers: dict[str, list[Sized]] = {}
    for one in nodes:
        for name, _, _ in one.inputs:
            readers.setdefault(name, []).append(one)
    return readers
