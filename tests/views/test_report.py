"""The page: no script, nothing unescaped, everything that matters in it."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
import story

from workbench.events import KernelWritten
from workbench.model import Draft, Kernel
from workbench.tree import Tree
from workbench.views.markup import Markup, tag
from workbench.views.report import summary_text, to_fragment, to_html

EVIL = '</script><script>alert(1)</script><img src=x onerror="alert(2)">'
VOID = {"meta", "path", "rect", "circle", "br", "hr"}


class Page(HTMLParser):
    """Tags, attributes and text of a page; notes tags that do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.mismatched: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.mismatched.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(params=[0, 1, 2, 3])
def tree(request: pytest.FixtureRequest) -> Tree:
    return story.tree(request.param)


def test_pages_are_well_formed_and_without_scripts(tree: Tree) -> None:
    for html in (to_html(tree), to_fragment(tree)):
        page = Page(html)
        assert not page.mismatched and not page.open
        assert "script" not in page.tags
        assert not [name for name, _ in page.attributes if name.startswith("on")]
        assert not [value for name, value in page.attributes if name in ("src", "href")]
        assert "url(" not in html and "@import" not in html


def test_untrusted_words_are_escaped() -> None:
    tree = story.tree(2)
    written = KernelWritten(branch="b4", draft=Draft(kernel=Kernel(source=EVIL), note=EVIL))
    evil = tree.apply(written)
    for html in (to_html(evil), to_fragment(evil)):
        page = Page(html)
        assert "img" not in page.tags and "script" not in page.tags
        assert not page.mismatched


def test_a_page_has_every_branch_the_best_source_and_how_to_repeat() -> None:
    tree = story.tree()
    words = "".join(Page(to_html(tree)).words)
    for id, node in tree.nodes.items():
        assert id in words
        assert node.branch.hypothesis.title in words
    assert "workbench optimize softmax.py" in words
    assert "1.94x (model)" in words
    assert "try <b>registers</b>" in words
    assert "__global__" in words


def test_the_fragment_leaves_the_notebook_page_alone() -> None:
    sheet = to_fragment(story.tree()).partition("<style>")[2].partition("</style>")[0]
    for line in sheet.split("}"):
        selector = line.partition("{")[0].strip()
        assert not selector.startswith(("body", ":root", "html", "*"))


def test_the_summary_stays_the_same() -> None:
    assert summary_text(story.tree(2)) == (
        "softmax: 8 branches, 4 correct; best b4, Keep the row in registers, 1.94x (model)"
    )
    assert summary_text(story.tree(0)).endswith("no correct kernel")


def test_only_markup_is_taken_as_markup() -> None:
    assert tag("p", "<b>", title='"x"') == '<p title="&quot;x&quot;">&lt;b&gt;</p>'
    assert tag("p", Markup("<b>"), None, ["a", 1]) == "<p><b>a1</p>"
