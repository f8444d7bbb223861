"""A graph being rewritten: who uses what, what shape it has, and the nodes that a rule adds.

Owns the bookkeeping of rewrites; knows no rule. Pure: the graph it was given stays as it is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import cached_property

from workbench.model import Arg, Contract, Dim, DType, Graph, OpNode, OutputSpec, Problem, Ref, Sym
from workbench.playbook.ir.agreements import sizes_of
from workbench.playbook.ir.sizes import Sizes

RESULTS = "workbench.results"
"""A node with several results, each of which another node makes."""
WRITTEN = "workbench.written"
"""A node that is another one in memory: what is made of it is not computed anew for each that reads it."""
RECORD = "workbench.record"
"""A concatenation of what one thread makes: each piece is stored where it belongs, however few they are."""
_FILLED = ("aten.full.default", "aten.full_like.default")


class GraphEdit:
    """One walk over a graph. ``stem`` begins the names of added nodes."""

    def __init__(self, problem: Problem, graph: Graph, stem: str) -> None:
        self.graph = graph
        self._problem = problem
        self._nodes = {node.name: node for node in graph.nodes}
        self._specs = {spec.name: OutputSpec(dtype=spec.dtype, dims=spec.dims) for spec in problem.tensors}
        self._users: dict[str, list[OpNode | None]] = {}
        for ref in graph.outputs:
            self._users.setdefault(ref.ref, []).append(None)
        for node in graph.nodes:
            for name in {ref.ref for ref in node.refs}:
                self._users.setdefault(name, []).append(node)
        self._stem = stem
        self._added: dict[str, OpNode] = {}

    def again(self) -> GraphEdit:
        """Another walk over the same graph, as to see what would be added."""
        return GraphEdit(self._problem, self.graph, self._stem)

    @property
    def added(self) -> Mapping[str, OpNode]:
        """What was added at the node at hand, by name and in order."""
        return self._added

    def rewritten(self, rule: Callable[[GraphEdit, OpNode], OpNode | None]) -> Graph:
        """Every node replaced by the rule's answer where it has one; what nobody needs any more is gone.

        The same graph where it has none, and all nodes are needed.
        """
        kept: list[OpNode] = []
        for node in self.graph.nodes:
            self._added = {}
            replaced = rule(self, node)
            kept += [*self._added.values(), replaced] if replaced is not None else [node]
        needed = reachable(kept, self.graph.outputs)
        if len(needed) == len(self.graph.nodes) and all(map(operator.is_, needed, self.graph.nodes)):
            return self.graph
        return Graph(nodes=needed, outputs=self.graph.outputs)

    @property
    def given(self) -> dict[str, tuple[Dim, ...]]:
        """Shapes of the problem's tensors, by name."""
        return {spec.name: spec.dims for spec in self._problem.tensors}

    @property
    def contract(self) -> Contract:
        """How exact products of float32 are to be."""
        return self._problem.contract

    @cached_property
    def cases(self) -> list[dict[str, int]]:
        """Sizes of the declared cases."""
        return [case.size_map for case in self._problem.cases]

    @cached_property
    def orders(self) -> Mapping[str, tuple[int, ...]]:
        """Axes of the problem's results from slowest to fastest in memory, as torch has them, by node."""
        pairs = zip(self.graph.outputs, self._problem.outputs, strict=True)
        return {ref.ref: spec.order or tuple(range(len(spec.dims))) for ref, spec in pairs}

    @cached_property
    def sizes(self) -> Sizes:
        """Reads the dimensions of shapes."""
        return sizes_of(self._problem)

    def made(self, arg: Arg) -> OpNode | None:
        """The node behind an argument; None for inputs, numbers, and a library's results beyond the first."""
        if not isinstance(arg, Ref):
            return None
        made = self._added.get(arg.ref) or self._nodes.get(arg.ref)
        if made is not None and made.op == RESULTS:
            return self.made(made.args[arg.item or 0])
        return None if arg.item else made

    def piece_of(self, ref: Ref) -> tuple[Ref, int, int] | None:
        """Of one of the pieces that a tensor is split into: the tensor, the axis, and where the piece begins.

        None for anything else.
        """
        match self._nodes.get(ref.ref):
            case OpNode(op="aten.split_with_sizes.default", args=(Ref() as of, (*sizes,), *rest)):
                axis, before = rest[0] if rest else 0, sizes[: ref.item or 0]
                if isinstance(axis, int) and all(isinstance(size, int) for size in before):
                    return (
                        of,
                        axis % len(self.spec(of).dims),
                        sum(size for size in before if isinstance(size, int)),
                    )
        return None

    def users(self, node: OpNode) -> list[OpNode | None]:
        """Who reads a node's results; None stands for the problem's output."""
        return self._users.get(node.name, [])

    def is_read(self, node: OpNode, item: int) -> bool:
        """True where somebody reads this one of a node's results."""
        refs = [*self.graph.outputs, *(ref for other in self.graph.nodes for ref in other.refs)]
        return any(ref.ref == node.name and (ref.item or 0) == item for ref in refs)

    def spec(self, ref: Ref) -> OutputSpec:
        """Type and shape."""
        if ref.ref in self._specs:
            return self._specs[ref.ref]
        return self._nodes[ref.ref].outs[ref.item or 0]

    def constant(self, arg: Arg) -> float | None:
        """The number that an argument is everywhere; None for what is no constant."""
        made = self.made(arg)
        if made is not None and made.op == "aten.scalar_tensor.default":
            arg = made.args[0]
        elif made is not None and made.op in _FILLED:
            arg = made.args[1]
        return float(arg) if isinstance(arg, (bool, int, float)) else None

    def add(
        self,
        op: str,
        args: tuple[Arg, ...],
        out: OutputSpec,
        stem: str = "",
        kwargs: tuple[tuple[str, Arg], ...] = (),
    ) -> Ref:
        """A node before the one at hand; ``stem`` is what it is called if the name is free."""
        name = stem = stem or self._stem
        count = 1
        while name in self._nodes or name in self._specs:
            count += 1
            name = f"{stem}_{count}"
        self._specs[name] = out
        self._added[name] = OpNode(name=name, op=op, args=args, kwargs=kwargs, outs=(out,))
        return Ref(ref=name)

    def view(self, ref: Ref, dims: tuple[Dim, ...]) -> Ref:
        """The tensor in another shape."""
        out = OutputSpec(dtype=self.spec(ref).dtype, dims=dims)
        return self.add("aten.view.default", (ref, shape_of(dims)), out)

    def permuted(self, ref: Ref, axes: tuple[int, ...]) -> Ref:
        """The tensor with its axes in another order; itself where that is the order that it has."""
        if axes == tuple(range(len(axes))):
            return ref
        spec = self.spec(ref)
        out = OutputSpec(dtype=spec.dtype, dims=tuple(spec.dims[axis] for axis in axes))
        return self.add("aten.permute.default", (ref, axes), out)

    def scalar(self, number: float, dtype: DType) -> Ref:
        """A tensor of one number, without dimensions."""
        out = OutputSpec(dtype=dtype, dims=())
        return self.add("aten.scalar_tensor.default", (number,), out, kwargs=(("dtype", dtype),))

    def converted(self, ref: Ref, dtype: DType) -> Ref:
        """The tensor in another type; itself where it has that type."""
        spec = self.spec(ref)
        if spec.dtype == dtype:
            return ref
        out = OutputSpec(dtype=dtype, dims=spec.dims)
        return self.add("prims.convert_element_type.default", (ref, dtype), out, "converted")


def argument(node: OpNode, named: dict[str, Arg], position: int, name: str, default: Arg) -> Arg:
    """An argument by its position or by its name."""
    return node.args[position] if len(node.args) > position else named.get(name, default)


def shape_of(dims: tuple[Dim, ...]) -> tuple[Arg, ...]:
    """Sizes as an operation takes them."""
    return tuple(Sym(sym=dim) if isinstance(dim, str) else dim for dim in dims)


def reachable(nodes: list[OpNode], outputs: tuple[Ref, ...]) -> tuple[OpNode, ...]:
    """The nodes that the outputs need."""
    wanted = {ref.ref for ref in outputs}
    kept = []
    for node in reversed(nodes):
        if node.name in wanted:
            kept.append(node)
            wanted |= {ref.ref for ref in node.refs}
    return tuple(reversed(kept))
