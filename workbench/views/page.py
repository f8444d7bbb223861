"""The session as one page that can be clicked through: the panel without its gate, over the script-free page.

Owns how data and script are put into the page. Without scripts the reader gets report.py's page as it is.
"""

from __future__ import annotations

import json
from pathlib import Path

from workbench.tree import Tree
from workbench.views.detail import detail
from workbench.views.project import project
from workbench.views.report import TREE_HEADING, to_html
from workbench.views.samples import samples_json
from workbench.views.verdicts import SHAPES

STATIC = Path(__file__).parent / "static"
START = """
const data = JSON.parse(document.getElementById("wb-data").textContent);
const model = { get: (name) => data[name], on() {}, off() {}, send() {} };
const place = document.getElementById("wb-live");
place.hidden = false;
panel.render({ model, el: place });
document.querySelectorAll("[data-replaced]").forEach((part) => { part.hidden = true; });
"""
"""Shows the panel in place of the parts of the static page that it replaces."""
EXPORT = "as default};"
SAMPLED = 12
"""Branches whose raw samples are in the page."""


def to_page(tree: Tree, folder: Path | None = None) -> str:
    """The script-free page with an interactive tree in it: one file, no network, no kernel.

    Text from kernels and models goes in as JSON and is never parsed as markup. Raw samples are read from
    the session's ``folder``, for the best branches only: each is some tens of kilobytes.
    """
    data = {
        "view": project(tree),
        "shapes": SHAPES,
        "details": {id: detail(tree, id) for id in tree.nodes},
        "samples": {id: samples_json(tree, id, folder) for id in tree.ranked()[:SAMPLED]},
        "frozen": True,
        "key": "",
        "busy": "",
        "failure": "",
    }
    # "</script" and "<!--" would end the element early, so no "<" is left in it.
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    style = (STATIC / "panel.css").read_text(encoding="utf-8")
    parts = (
        f"<style>\n{style}.wb-page .wb-panel {{ margin-top: 20px; }}</style>",
        '<div id="wb-live" hidden></div>',
        f'<script type="application/json" id="wb-data">{text}</script>',
        f'<script type="module">\n{_script()}\n{START}</script>',
    )
    mark = f'<h2 id="{TREE_HEADING}">The tree</h2>'
    head, found, rest = to_html(tree).partition(mark)
    assert found, "the page has a heading for the tree"
    return f"{head}{found}{''.join(parts)}{rest}"


def _script() -> str:
    """The panel's script with its default export as ``panel``, to be inlined."""
    text = (STATIC / "panel.js").read_text(encoding="utf-8").strip()
    head, found, name = text.rpartition("export{")
    assert found and name.endswith(EXPORT), "the bundler's last line is its export"
    return f"{head}const panel={name.removesuffix(EXPORT).strip()};"
