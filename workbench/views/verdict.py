"""One branch as the output of a cell: its verdict, its numbers, the compiler's messages in place.

Takes a tree and a branch's id; owns no state. What is shown of a branch is report.py's.
"""

from __future__ import annotations

from workbench.model import BranchId
from workbench.tree import Tree
from workbench.views.detail import detail
from workbench.views.drawings import glyph
from workbench.views.judgement import judgement, judgement_lines
from workbench.views.markup import Markup, tag
from workbench.views.report import inside, style


def verdict_html(tree: Tree, branch: BranchId) -> Markup:
    """The branch in full, without scripts."""
    entry = detail(tree, branch)
    row = entry["row"]
    verdict = tag("span", row["words"], cls=f"verdict tone-{row['tone']}")
    name = tag("span", tag("span", row["id"], cls="id"), row["title"], cls="name")
    head = tag("p", glyph(row, 6), " ", name, " ", verdict, " ", row["label"], cls="own-verdict")
    return tag(
        "div", style("theme.css", "report.css"), head, inside(entry, own=True), cls="wb wb-report frozen"
    )


def verdict_text(tree: Tree, branch: BranchId, name: str = "kernel") -> str:
    """The same in lines; messages name the text as ``name``."""
    node = tree.node(branch)
    if node.evaluation is None:
        return f"{branch}: not judged{': ' + node.abandoned if node.abandoned else ' yet'}"
    return "\n".join([f"{branch}:", *judgement_lines(judgement(node.evaluation), name)])
