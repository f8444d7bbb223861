from __future__ import annotations

from softmax_problem import PROBLEM, case

from workbench.problem.reference import Reference
from workbench.referee.eager import eager_operations


def test_composite_operations_are_seen_as_eager_launches_them() -> None:
    """One softmax kernel, not the five operations of the graph."""
    (op,) = eager_operations(Reference(PROBLEM), PROBLEM, case(4096, 32768))
    assert op.op == "aten._softmax.default"
    assert op.read_bytes == op.written_bytes == 4096 * 32768 * 4
    assert op.row == 32768


def test_views_cost_nothing_and_products_have_their_arithmetic() -> None:
    source = "import torch\n\ndef softmax(x):\n    return (x.t() @ x).relu().reshape(-1)\n"
    problem = PROBLEM.model_copy(update={"source": source})
    product, relu = eager_operations(Reference(problem), problem, case(64, 32))
    assert product.op.startswith("aten.mm")
    assert product.flops == 2 * 32 * 32 * 64
    assert relu.op == "aten.relu.default"


def test_a_reference_that_cannot_run_without_data_has_no_operations() -> None:
    source = "import torch\n\ndef softmax(x):\n    return x * float(x.sum())\n"
    problem = PROBLEM.model_copy(update={"source": source})
    assert eager_operations(Reference(problem), problem, case(4, 4)) == ()
