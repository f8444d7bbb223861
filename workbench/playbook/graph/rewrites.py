"""Algebraic rewrites of the op graph, each with a name; their numerics are proved by the referee.

Owns the rules. Pure: a graph in, a graph out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from workbench.model import Arg, Dim, DType, Graph, OpNode, OutputSpec, Problem, Ref, Sym
from workbench.playbook.graph.activations import activation_in_product
from workbench.playbook.graph.attention_rewrite import attention, shared_heads
from workbench.playbook.graph.box_sums import box_sum
from workbench.playbook.graph.constant_places import constant_places
from workbench.playbook.graph.few_edges import few_edges
from workbench.playbook.graph.few_in_order import few_in_order
from workbench.playbook.graph.few_largest import few_largest
from workbench.playbook.graph.few_sums import few_sums
from workbench.playbook.graph.few_terms import few_terms
from workbench.playbook.graph.graph_edit import GraphEdit, reachable, shape_of
from workbench.playbook.graph.half_spectrum import half_spectrum
from workbench.playbook.graph.joined_last import joined_last
from workbench.playbook.graph.known_largest import known_largest
from workbench.playbook.graph.last_written import last_written
from workbench.playbook.graph.moved_first import moved_first
from workbench.playbook.graph.nested_sums import nested_sums
from workbench.playbook.graph.parts_of_joined import parts_of_joined
from workbench.playbook.graph.put_steps import put_steps
from workbench.playbook.graph.rows_of_products import (
    bias_in_product,
    bias_on_rows,
    one_product,
    rows_as_they_lie,
)
from workbench.playbook.graph.separate_counts import separate_counts
from workbench.playbook.graph.short_axes import short_axis
from workbench.playbook.graph.solved_in_registers import solved_in_registers
from workbench.playbook.graph.summed_products import summed_product
from workbench.playbook.graph.tail_rewrites import bias_in_tail
from workbench.playbook.graph.totals_by_rows import totals_by_rows
from workbench.playbook.graph.turned_products import turned_product
from workbench.playbook.graph.wanted_rows import wanted_rows
from workbench.playbook.graph.weight_rewrites import affine_in_weights, diagonal_product, scale_in_tail
from workbench.playbook.graph.whole_records import whole_records

Rule = Callable[[GraphEdit, OpNode], OpNode | None]

RULES: Mapping[str, Rule] = {
    "wanted_rows": wanted_rows,
    "attention": attention,
    "diagonal_product": diagonal_product,
    "affine_in_weights": affine_in_weights,
    "scale_in_tail": scale_in_tail,
    "bias_in_tail": bias_in_tail,
    "turned_product": turned_product,
    "shared_heads": shared_heads,
    "summed_products": summed_product,
    "activation_in_product": activation_in_product,
    "half_spectrum": half_spectrum,
    "few_in_order": few_in_order,
    "solved_in_registers": solved_in_registers,
    "few_sums": few_sums,
    "short_axis": short_axis,
    "constant_places": constant_places,
    "few_terms": few_terms,
    "whole_records": whole_records,
    "few_edges": few_edges,
    "nested_sums": nested_sums,
    "separate_counts": separate_counts,
    "box_sum": box_sum,
    "known_largest": known_largest,
    "few_largest": few_largest,
    "last_written": last_written,
    "joined_last": joined_last,
    "totals_by_rows": totals_by_rows,
    "moved_first": moved_first,
}
"""Rewrites of one node each, by the name of their technique, in the order in which they are tried."""
_ALWAYS: tuple[Rule, ...] = (parts_of_joined, one_product, rows_as_they_lie, bias_on_rows, bias_in_product)
"""Those that nothing speaks against, in this order, after all others."""
GRAPH_REWRITES = ("linear_rowsum", *RULES)
"""Those that give another graph."""
TAKEN_OUT, DEPTHWISE, INTERLEAVED, WHOLE_WALKS = "taken_out", "depthwise", "interleaved", "whole_walks"
SCATTERED_SUMS, ROW_STEPS, WIDER_ROWS = "scattered_sums", "row_steps", "wider_rows"
JOINT_ROWS, MADE_ONCE = "joint_rows", "made_once"
_WHERE_LOWERED = (
    TAKEN_OUT, DEPTHWISE, INTERLEAVED, WHOLE_WALKS, SCATTERED_SUMS, ROW_STEPS, WIDER_ROWS, JOINT_ROWS,
    MADE_ONCE,
)  # fmt: skip
LOWERED = frozenset(_WHERE_LOWERED)
"""Those that are made where operations become kernels, each by the module of its name."""
REWRITES = (*GRAPH_REWRITES, *_WHERE_LOWERED)
"""All of them."""
ONLY_FUSED = frozenset(
    [
        "affine_in_weights",
        "scale_in_tail",
        "bias_in_tail",
        "constant_places",
        "few_terms",
        "few_largest",
        "few_in_order",
        "few_sums",
        "solved_in_registers",
        "whole_records",
        "summed_products",
    ]
)
"""Those that pay only where what they move is computed by a kernel that is there anyway."""

MAY_COST = frozenset(
    [
        "affine_in_weights",
        "attention",
        "turned_product",
        "shared_heads",
        "activation_in_product",
        "few_largest",
        "few_terms",
        "few_edges",
        "whole_records",
        "box_sum",
        "last_written",
        "joined_last",
        "totals_by_rows",
        "moved_first",
        "few_sums",
        "solved_in_registers",
        "summed_products",
        INTERLEAVED,
        WHOLE_WALKS,
        SCATTERED_SUMS,
        ROW_STEPS,
        JOINT_ROWS,
        MADE_ONCE,
    ]
)
"""Those that save bytes and may cost time: a launch more, a library's kernel for other shapes, or places that
many values want."""


def rewrite(problem: Problem, without: frozenset[str] = frozenset()) -> Graph:
    """The graph after every rewrite but those in ``without``."""
    return _rewritten(problem, without)[0]


def applying(problem: Problem) -> frozenset[str]:
    """Rewrites without which the graph would be another one."""
    whole, changing = _rewritten(problem, frozenset())
    return frozenset(name for name in changing if rewrite(problem, frozenset([name])) != whole)


def _rewritten(problem: Problem, without: frozenset[str]) -> tuple[Graph, list[str]]:
    """The graph, and the rewrites that changed it on the way: without another it would be the same."""
    # First, and always: what the other rules look for is hidden behind a choice for every step.
    graph = GraphEdit(problem, problem.graph, "step").rewritten(put_steps)
    problem = problem.model_copy(update={"graph": graph})
    graph = problem.graph if "linear_rowsum" in without else linear_rowsum(problem)
    changing = ["linear_rowsum"] if graph != problem.graph else []
    for name, rule in RULES.items():
        if name in without:
            continue
        before, graph = graph, GraphEdit(problem, graph, name).rewritten(rule)
        if graph is not before:
            changing.append(name)
    for rule in _ALWAYS:
        graph = GraphEdit(problem, graph, "rows").rewritten(rule)
    return graph, changing


def linear_rowsum(problem: Problem) -> Graph:
    """``sum(A @ B, 1)`` as ``A @ sum(B, 1)``: a matrix product becomes two passes over its operands.

    The sum is pushed through additions, scalar factors and reshapes that keep the last axis. The graph comes
    back unchanged where nothing matches, and a product that is read elsewhere stays: a layer norm needs it.
    """
    kept: frozenset[str] = frozenset()
    while True:
        rows = _RowSum(problem, kept)
        graph = rows.graph()
        still = rows.taken & {node.name for node in graph.nodes}
        if not still:
            return graph
        kept |= still


class _RowSum:
    """One walk; products that are ``kept`` are summed like anything else."""

    def __init__(self, problem: Problem, kept: frozenset[str]) -> None:
        self._kept = kept
        self.taken: set[str] = set()
        """Products whose sums are computed without them."""
        self._graph = problem.graph
        self._nodes = {node.name: node for node in problem.graph.nodes}
        self._inputs = {spec.name: OutputSpec(dtype=spec.dtype, dims=spec.dims) for spec in problem.tensors}
        self._added: list[OpNode] = []
        self._count = 0

    def graph(self) -> Graph:
        kept: list[OpNode] = []
        for node in self._graph.nodes:
            self._added = []
            replaced = self._replaced(node)
            kept += [*self._added, replaced] if replaced is not None else [node]
        return Graph(nodes=reachable(kept, self._graph.outputs), outputs=self._graph.outputs)

    def _replaced(self, node: OpNode) -> OpNode | None:
        if node.op != "aten.sum.dim_IntList" or not isinstance(node.args[0], Ref):
            return None
        spec = self._spec(node.args[0])
        axes = node.args[1]
        last = len(spec.dims) - 1
        if last < 1 or axes not in ((last,), (-1,)) or not self._reaches_product(node.args[0]):
            return None
        total = self._summed(node.args[0])
        args: tuple[Arg, ...] = (total, shape_of(node.outs[0].dims))
        return node.model_copy(update={"op": "aten.view.default", "args": args, "kwargs": ()})

    # Every ``_summed`` has the shape of its operand without the last axis.

    def _summed(self, ref: Ref) -> Ref:
        node = self._nodes.get(ref.ref)
        spec = self._spec(ref)
        kept = spec.dims[:-1]
        if not self._reaches_product(ref):  # only what lies above the product may be pulled apart
            return self._node("aten.sum.dim_IntList", (ref, (len(kept),)), spec.dtype, kept)
        match node:
            case OpNode(op="aten.mm.default", args=(Ref() as left, Ref() as right)):
                self.taken.add(node.name)
                return self._product(left, right, kept)
            case OpNode(op="aten.add.Tensor" | "aten.sub.Tensor", args=(Ref() as left, Ref() as right)):
                parts = (self._side(left, spec), self._side(right, spec))
                return self._node(node.op, parts, spec.dtype, kept)
            case OpNode(
                op="aten.mul.Tensor" | "aten.div.Tensor" | "aten.mul.Scalar", args=(Ref() as left, factor)
            ):
                return self._node(node.op, (self._summed(left), factor), spec.dtype, kept)
            case OpNode(op="aten.view.default", args=(Ref() as operand, *_)):
                return self._node(
                    "aten.view.default", (self._summed(operand), shape_of(kept)), spec.dtype, kept
                )
        return self._node("aten.sum.dim_IntList", (ref, (len(kept),)), spec.dtype, kept)

    def _product(self, left: Ref, right: Ref, kept: tuple[Dim, ...]) -> Ref:
        inner, width = self._spec(left).dims[-1], self._spec(left).dims
        weights = self._node("aten.sum.dim_IntList", (right, (1,)), "f32", (inner,))
        products = self._node("aten.mul.Tensor", (left, weights), "f32", width)
        return self._node("aten.sum.dim_IntList", (products, (1,)), "f32", kept)

    def _side(self, ref: Ref, whole: OutputSpec) -> Ref:
        """The sum over the last axis of one side of an addition, which may be broadcast."""
        spec = self._spec(ref)
        if spec.dims == whole.dims:
            return self._summed(ref)
        if spec.dims and spec.dims[-1] == whole.dims[-1]:
            kept = spec.dims[:-1]
            return self._node("aten.sum.dim_IntList", (ref, (len(kept),)), spec.dtype, kept)
        last = whole.dims[-1]
        count: Arg = Sym(sym=last) if isinstance(last, str) else last
        scaled = self._node("aten.mul.Tensor", (ref, count), spec.dtype, spec.dims)
        kept = spec.dims[:-1]
        return self._node("aten.view.default", (scaled, shape_of(kept)), spec.dtype, kept)

    def _reaches_product(self, ref: Ref) -> bool:
        node = self._nodes.get(ref.ref)
        match node:
            case OpNode(op="aten.mm.default", name=name):
                return name not in self._kept
            case OpNode(op="aten.add.Tensor" | "aten.sub.Tensor", args=(Ref() as left, Ref() as right)):
                return not node.kwargs and (self._reaches_product(left) or self._reaches_product(right))
            case OpNode(
                op="aten.mul.Tensor" | "aten.div.Tensor" | "aten.mul.Scalar", args=(Ref() as left, factor)
            ):
                return isinstance(factor, (int, float)) and self._reaches_product(left)
            case OpNode(op="aten.view.default", args=(Ref() as operand, *_)):
                dims = self._spec(operand).dims
                same = bool(dims) and dims[-1] == node.outs[0].dims[-1:][0] if node.outs[0].dims else False
                return same and self._reaches_product(operand)
        return False

    def _spec(self, ref: Ref) -> OutputSpec:
        for node in self._added:
            if node.name == ref.ref:
                return node.outs[0]
        if ref.ref in self._inputs:
            return self._inputs[ref.ref]
        return self._nodes[ref.ref].outs[ref.item or 0]

    def _node(self, op: str, args: tuple[Arg, ...], dtype: DType, dims: tuple[Dim, ...]) -> Ref:
        self._count += 1
        name = f"rowsum_{self._count}"
        out = OutputSpec(dtype=dtype, dims=dims)
        self._added.append(OpNode(name=name, op=op, args=args, outs=(out,)))
        return Ref(ref=name)
