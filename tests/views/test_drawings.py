"""The tree as a drawing without scripts: no words run into what stands beside them."""

from __future__ import annotations

from xml.etree import ElementTree

import story

from workbench.views.drawings import BAR_AT, TITLE_CHARACTER, WORDS_AT, tree_svg
from workbench.views.project import project

BOLD = 8.5
"""Units a bold letter takes in the drawing."""


def test_no_words_run_into_the_next_column() -> None:
    view = project(story.tree())
    first = view["rows"][0]
    slower = {
        "words": "correct, slower than torch.compile by the model",
        "title": "Four elements a load; " * 9,
    }
    chain = [
        {**first, **slower, "id": f"b{i}", "depth": i, "parents": [], "approved": i % 2} for i in range(40)
    ]
    drawing = ElementTree.fromstring(str(tree_svg({**view, "rows": chain})))
    for line in drawing.findall("g"):
        _, title, verdict, _ = line.findall("text")
        assert title.text and float(title.attrib["x"]) + TITLE_CHARACTER * len(title.text) < WORDS_AT
        assert verdict.text and WORDS_AT + BOLD * len(verdict.text) < BAR_AT
        assert verdict.text.startswith("correct") and len(title.text) > 25
        assert ("· approved" in verdict.text) == ("· approved" in (line.findtext("title") or ""))
        assert slower["words"] in (line.findtext("title") or "")
