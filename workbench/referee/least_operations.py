"""The operations of a problem's products that no kernel can leave out, at one case. Pure.

A product counts as far as its results are read: not what a mask hides behind it, nor what a mask made zero
before it. A mask made of whole diagonals (causal, a window) is counted exactly; behind one that nobody knows
nothing is claimed. Operations are those of the contract's unit: a product that a faster one may do, as its
factors have fewer bits, counts for less. What no honest kernel may go below is clock/physics.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from workbench.model import Case, Problem, Ref, fastest_over_fp32
from workbench.referee.demand import Demand, Needed
from workbench.referee.diagonals import Diagonals, in_columns, in_rows, joint, share
from workbench.referee.known_atoms import solid
from workbench.referee.known_values import PRODUCTS, Values, operands_of
from workbench.referee.lines import matrix_of
from workbench.referee.needed import Parts, restricted
from workbench.referee.work import FREE, Sized, readers_of, sized

_LINEAR = FREE | frozenset(("mul", "div", "neg", "add", "sub"))


def least_flops(problem: Problem, case: Case) -> float:
    """Operations of the products, done directly; those that are only summed up may be rewritten away."""
    unit = fastest_over_fp32(problem.contract, 4)
    return sum(
        one.flops * part * unit / fastest_over_fp32(problem.contract, one.exact_bytes)
        for one, part in needed_products(problem, case)
    )


def direct_flops(problem: Problem, case: Case) -> float:
    """Operations of the products by kernels that know of no mask, as most do; not weighed.

    Of results that no reader looks at none is made, as where only the last token's logits are returned.
    """
    parts = restricted(problem, case)
    return sum(one.flops * _looked_at(one, parts) for one in _products(sized(problem, case), problem))


def _looked_at(one: Sized, parts: Parts) -> float:
    """The share of a product's results that readers may want; all where nobody knows."""
    part = parts.get(one.node.name)
    return part.most / max(1, math.prod(one.output)) if part is not None else 1.0


def needed_products(problem: Problem, case: Case) -> Iterator[tuple[Sized, float]]:
    """Every product whose single results are needed, with the share of its operations that are."""
    products = _products(sized(problem, case), problem)
    if not products:
        return
    values = Values(problem, case)
    needed = Demand(problem.graph, values).needed
    for one in products:
        yield one, needed_share(one, needed[one.node.name], values)


def needed_share(one: Sized, need: Needed, values: Values) -> float:
    """Of a product's operations: those that reach a needed result from factors that are not 0."""
    if one.name not in PRODUCTS:
        factors = [values.of_name(ref) for ref, _, _ in one.inputs[:2]]
        known = all(factor.uniform and solid(factor.values[0]) for factor in factors)
        # Attention in one call has its causal mask counted already; a given one hides nobody knows what.
        given = one.name == "scaled_dot_product_attention" and one.node.args[3:4] not in ((), (None,))
        return need.of_all(matrix_of(one.output)) if known and not given else 0.0
    left, right = operands_of(one)
    a, b = joint(solid, values.own(left)), joint(solid, values.own(right))
    sizes = (*matrix_of(values.shapes[left.ref]), matrix_of(values.shapes[right.ref])[1])
    met = _met(need.places, a, b, sizes)
    return max(0.0, met + need.share - 1)


Places = Diagonals[bool]


def _met(results: Places, a: Places, b: Places, sizes: tuple[int, int, int]) -> float:
    """Share of the (row, between, column) that all three allow: exact for two, at least so much for three."""
    rows, between, columns = sizes
    every = rows * between * columns
    if results.uniform and a.uniform and b.uniform:
        return float(results.values[0] and a.values[0] and b.values[0])
    of_results, of_a, of_b = (rows, columns), (rows, between), (between, columns)
    pairs = (
        (_paired(in_rows(results, of_results), in_rows(a, of_a)), share(b, of_b)),
        (_paired(in_columns(results, of_results), in_columns(b, of_b)), share(a, of_a)),
        (_paired(in_columns(a, of_a), in_rows(b, of_b)), share(results, of_results)),
    )
    return max(max(0.0, both / every - (1 - third)) for both, third in pairs)


def _paired(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return sum(a * b for a, b in zip(one, other, strict=True))


def _products(nodes: tuple[Sized, ...], problem: Problem) -> list[Sized]:
    """Matrix products and convolutions whose single results are needed."""
    readers = readers_of(nodes)
    returned = {ref.ref for ref in problem.graph.outputs}
    return [one for one in nodes if one.flops and not _only_summed(one.node.name, readers, returned)]


def _only_summed(name: str, readers: Mapping[str, list[Sized]], returned: set[str]) -> bool:
    if name in returned or not readers.get(name):
        return False
    for reader in readers[name]:
        if reader.name in ("sum", "mean"):
            continue
        masked = reader.name == "where" and reader.node.args[0] != Ref(ref=name)
        if not (masked or reader.name in _LINEAR) or not _only_summed(reader.node.name, readers, returned):
            return False
    return True
