"""The session as one page that can be clicked through: the panel without its gate, over the script-free page.

Owns how data and script are put into the page. Without scripts the reader gets report.py's page, of a large
session with the best branches in full and the others in its table.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from pathlib import Path
from typing import Any

from workbench.tree import Tree
from workbench.views.compare import column
from workbench.views.detail import detail
from workbench.views.differences import runs_of
from workbench.views.project import project
from workbench.views.report import TREE_HEADING, to_html
from workbench.views.samples import samples_json
from workbench.views.verdicts import SHAPES

STATIC = Path(__file__).parent / "static"
SCRIPT = "page.js"
"""The panel, with answers to the questions that a kernel would answer; built from ``src/page``."""
SAMPLED = 12
"""Branches whose raw samples are in the page."""
IN_FULL = 100
"""Most branches that are in the page a second time, for readers without scripts."""


def to_page(tree: Tree, folder: Path | None = None) -> str:
    """The script-free page with an interactive tree in it: one file, no network, no kernel.

    Text from kernels and models goes in as packed JSON and is never parsed as markup. Raw samples are read
    from the session's ``folder``, for the best branches only: each is some tens of kilobytes.
    """
    style = (STATIC / "panel.css").read_text(encoding="utf-8")
    parts = (
        f"<style>\n{style}.wb-page .wb-panel {{ margin-top: 20px; }}</style>",
        '<div id="wb-live" hidden></div>',
        f'<script type="text/plain" id="wb-data">{packed(page_data(tree, folder))}</script>',
        f'<script type="module">\n{(STATIC / SCRIPT).read_text(encoding="utf-8")}</script>',
    )
    mark = f'<h2 id="{TREE_HEADING}">The tree</h2>'
    head, found, rest = to_html(tree, IN_FULL).partition(mark)
    assert found, "the page has a heading for the tree"
    return f"{head}{found}{''.join(parts)}{rest}"


def page_data(tree: Tree, folder: Path | None = None) -> dict[str, Any]:
    """What the panel shows and what its answers are made of: every branch, plain JSON."""
    return {
        "view": project(tree),
        "shapes": SHAPES,
        "details": {id: detail(tree, id) for id in tree.nodes},
        "samples": {id: samples_json(tree, id, folder) for id in tree.ranked()[:SAMPLED]},
        "columns": {id: column(tree, node) for id, node in tree.nodes.items()},
        "reference": runs_of(tree.opened.problem.source if tree.opened else ""),
        "frozen": True,
        "key": "",
        "busy": "",
        "failure": "",
        "usage": {},
    }


def packed(data: dict[str, Any]) -> str:
    """JSON, deflated, in base64: the kernels of a search are much alike, so 8 MB become half a megabyte."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return b64encode(zlib.compress(text.encode(), 6)).decode("ascii")
