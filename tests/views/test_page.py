"""The page that can be clicked through: complete without scripts, safe with them."""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import Any

import pytest
import story

from workbench.views.page import IN_FULL, to_page
from workbench.views.project import project
from workbench.views.report import to_html


def test_without_scripts_it_is_the_static_page() -> None:
    tree = story.tree()
    page = re.sub(r'<style>\n/\* Layout.*?</style><div id="wb-live".*?</script><script.*?</script>', "",
                  to_page(tree), flags=re.DOTALL)  # fmt: skip
    assert page == to_html(tree)


def data_in(page: str) -> Any:
    """What the page's script is given."""
    found = re.search(r'id="wb-data">([A-Za-z0-9+/=]*)</script>', page)
    assert found
    return json.loads(zlib.decompress(base64.b64decode(found[1])))


def test_it_holds_every_detail_and_needs_no_network() -> None:
    tree = story.tree()
    page = to_page(tree)
    data = data_in(page)
    assert data["view"] == json.loads(json.dumps(project(tree)))
    assert set(data["details"]) == set(tree.nodes)
    assert not re.search(r'(?:src|href)="(?!#)', page)
    assert "http://www.w3.org/2000/svg" in page  # a name, not an address that is asked
    assert len(re.findall(r"https?://", page)) == 1


@pytest.mark.slow
def test_a_page_of_very_many_branches_has_them_all_and_the_best_twice() -> None:
    tree = story.large_tree(IN_FULL + 30)
    page = to_page(tree)
    assert set(data_in(page)["details"]) == set(tree.nodes)
    assert page.count('<details id="branch-') == IN_FULL
    assert f'<details id="branch-{tree.best()}"' in page
    assert to_html(tree).count('<details id="branch-') == len(tree.nodes)
    assert len(page) < 2_000_000
