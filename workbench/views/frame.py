"""The session as a data frame: a row a branch, plain columns. pandas is imported only when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.tree import Node, Tree
from workbench.views.project import walk, words_of

if TYPE_CHECKING:
    import pandas


def to_frame(tree: Tree) -> pandas.DataFrame:
    """One row a branch, in the tree's order; missing values where nothing was found.

    Times are microseconds of the first declared case; ``time_source`` says ``model`` or ``measured``.
    """
    import pandas

    rows = [_row(tree, node, depth) for node, depth in walk(tree)]
    frame = pandas.DataFrame(rows, columns=[*COLUMNS])
    return frame.set_index("branch")


COLUMNS = (
    "branch", "parents", "depth", "round", "operator", "author", "title", "techniques", "verdict", "words",
    "score", "time_us", "time_source", "floor_us", "baseline_us", "max_abs_error", "worst_ratio",
    "registers", "shared_bytes", "spill_bytes", "launches", "sectors", "library_share",
    "predicted_factor", "actual_factor", "approved", "pruned",
)  # fmt: skip


def _row(tree: Tree, node: Node, depth: int) -> dict[str, Any]:
    card = node.branch.hypothesis
    return {
        "branch": node.id,
        "parents": " ".join(node.branch.parents),
        "depth": depth,
        "round": node.branch.round,
        "operator": node.operator,
        "author": node.branch.author,
        "title": card.title,
        "techniques": ", ".join(f"{name}={value}" for name, value in node.vector),
        "verdict": node.verdict or node.stage,
        "words": words_of(node),
        "predicted_factor": card.predicted_factor,
        "actual_factor": node.lesson.actual_factor if node.lesson else None,
        "approved": node.approved,
        "pruned": tree.is_pruned(node.id),
        **_found(node),
    }


def _found(node: Node) -> dict[str, Any]:
    """Columns of the evaluation; empty before there is one."""
    evaluation = node.evaluation
    if evaluation is None:
        return {}
    kernels = evaluation.compiled.kernels if evaluation.compiled else ()
    found: dict[str, Any] = {
        "score": evaluation.score if evaluation.passed else None,
        "max_abs_error": evaluation.worst_abs,
        "worst_ratio": evaluation.worst_ratio,
        "registers": max((k.registers for k in kernels), default=None),
        "shared_bytes": max((k.shared_bytes for k in kernels), default=None),
        "spill_bytes": sum(k.spill_store_bytes + k.spill_load_bytes for k in kernels) if kernels else None,
        "sectors": evaluation.counts[-1].sectors if evaluation.counts else None,
    }
    if evaluation.facts:
        found["launches"] = evaluation.facts[0].launches
        found["library_share"] = evaluation.facts[0].library_share
    if evaluation.times:
        time = evaluation.times[0]
        found |= {"time_us": time.time_us, "time_source": time.source, "floor_us": time.floor_us}
        found["baseline_us"] = min((us for _, us in time.baselines), default=None)
    return found
