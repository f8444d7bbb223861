"""Products of a few rows with a large matrix, as sums of products: a kernel then reads the matrix once.

Owns which products those are. Sixteen tokens that are decoded at the same time, a router's eight scores of
every token, a query's scores of all keys: the large matrix is read once, and little is computed. Libraries
make tiles for more rows than there are: on an H200 cuBLAS takes 28, 45 and 94 us for 4, 8 and 16 rows times
4096 x 4096 in float32, which memory has in 16. lowering/products.py has those of a single row.
"""

from __future__ import annotations

from workbench.model import Dim, DType, OpNode, OutputSpec, Ref
from workbench.playbook.graph.few_products import PRODUCTS
from workbench.playbook.graph.graph_edit import GraphEdit, shape_of
from workbench.playbook.ir.operations import is_pointwise

MOST_FEW, MOST_WITH_TENSOR_CORES = 16, 8
"""Rows of the few, where a library multiplies without tensor cores, and where it has them: for 16 rows times
4096 x 4096 in bfloat16 it takes 19 us on an H200, as for one; sums without tensor cores take 35, of four rows
16 (2026-11-30)."""
LEAST_MANY, LEAST_TERMS = 64, 64
"""Rows of the many, and terms of a sum, below which there is nothing to share out."""
_LEAST_READ = 2**16
"""Elements of the many, below which a launch is all there is to a product."""
_MERGING = frozenset(["aten.expand.default", "aten.view.default"])
"""What leaves matrices as they are, where only the axes before them differ."""
_TYPES = frozenset(["f32", "f16", "bf16"])


def summed_product(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """``a @ b`` of few rows or few columns as ``(a[:, None] * b.T).sum(-1)``, added up in float32."""
    before = PRODUCTS.get(node.op)
    if before is None or node.kwargs or node.outs[0].dtype not in _TYPES:
        return None
    added, (left, right) = node.args[:before], node.args[before:]
    if not isinstance(left, Ref) or not isinstance(right, Ref):
        return None
    *batch, rows, columns = dims = node.outs[0].dims
    depth = edit.spec(left).dims[-1]
    tensor_cores = edit.contract == "tf32" or node.outs[0].dtype != "f32"
    few = _few(edit, rows, columns, depth, MOST_WITH_TENSOR_CORES if tensor_cores else MOST_FEW)
    if few is None or not (_by_terms(edit, left) if few == columns else _by_terms(edit, right, turned=True)):
        return None
    computed: DType = "f32"
    ndim = len(dims)
    turn = (*range(ndim - 2), ndim - 1, ndim - 2)
    over = edit.view(left, (*batch, rows, 1, depth))
    under = edit.view(edit.permuted(right, turn), (*batch, 1, columns, depth))
    pair = edit.converted(over, computed), edit.converted(under, computed)
    products = edit.add("aten.mul.Tensor", pair, OutputSpec(dtype=computed, dims=(*dims, depth)))
    out = OutputSpec(dtype=computed, dims=dims)
    total = edit.add("aten.sum.dim_IntList", (products, (ndim,)), out, f"{node.name}_sums")
    for ref in added:
        if isinstance(ref, Ref):
            total = edit.add("aten.add.Tensor", (total, edit.converted(ref, computed)), out)
    args = (edit.converted(total, node.outs[0].dtype), shape_of(dims))
    return node.model_copy(update={"op": "aten.view.default", "args": args})


def _few(edit: GraphEdit, rows: Dim, columns: Dim, depth: Dim, most_few: int) -> Dim | None:
    """The side that is few at all declared sizes, where the other one is many; None where neither is."""
    sizes = [[edit.sizes.read(dim).at(case) for dim in (rows, columns, depth)] for case in edit.cases]
    if not sizes or min(terms for _, _, terms in sizes) < LEAST_TERMS:
        return None
    for few, (at, other) in ((rows, (0, 1)), (columns, (1, 0))):
        most = max(one[at] for one in sizes)
        least = min(one[other] for one in sizes)
        read = min(one[other] * one[2] for one in sizes)
        if 1 < most <= most_few and least >= LEAST_MANY and read >= _LEAST_READ:
            return few
    return None


def _by_terms(edit: GraphEdit, ref: Ref, turned: bool = False) -> bool:
    """True where the terms of a row lie side by side in memory; ``turned``: of a matrix turned over."""
    made = edit.made(ref)
    if made is None:
        return not turned
    if made.op == "aten.permute.default":
        ndim = len(edit.spec(ref).dims)
        swap = (*range(ndim - 2), ndim - 1, ndim - 2)
        inner = made.args[0]
        if made.args[1:] == (swap,) and isinstance(inner, Ref):
            return _by_terms(edit, inner, not turned)
        return not turned
    dims = edit.spec(ref).dims
    inner = made.args[0] if made.args else None
    if made.op in _MERGING and isinstance(inner, Ref) and edit.spec(inner).dims[-2:] == dims[-2:]:
        return _by_terms(edit, inner, turned)
    if is_pointwise(made):
        whole = [one for one in made.refs if edit.spec(one).dims == dims]
        return all(_by_terms(edit, one, turned) for one in whole)
    return not turned
