"""The page that can be clicked through: complete without scripts, safe with them."""

from __future__ import annotations

import json
import re

import story

from workbench.views.page import to_page
from workbench.views.project import project
from workbench.views.report import to_html


def test_without_scripts_it_is_the_static_page() -> None:
    tree = story.tree()
    page = re.sub(r'<style>\n/\* Layout.*?</style><div id="wb-live".*?</script><script.*?</script>', "",
                  to_page(tree), flags=re.DOTALL)  # fmt: skip
    assert page == to_html(tree)


def test_it_holds_every_detail_and_needs_no_network() -> None:
    tree = story.tree()
    page = to_page(tree)
    found = re.search(r'id="wb-data">(.*?)</script>', page, re.DOTALL)
    assert found
    data = json.loads(found[1])
    assert data["view"] == json.loads(json.dumps(project(tree)))
    assert set(data["details"]) == set(tree.nodes)
    assert not re.search(r'(?:src|href)="(?!#)', page)
    assert "http://www.w3.org/2000/svg" in page  # a name, not an address that is asked
    assert len(re.findall(r"https?://", page)) == 1


def test_words_of_others_cannot_end_the_data() -> None:
    page = to_page(story.tree())  # a hint and a failure of the story hold markup
    data = page.partition('id="wb-data">')[2].partition("</script>")[0]
    assert "<" not in data
