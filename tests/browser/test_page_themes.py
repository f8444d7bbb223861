"""The page of to_html in Chromium: every tab in every theme, wide and narrow, with nothing for axe-core."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import story
from test_browser import HERE, LIMIT_S, environment, missing

from workbench.views.page import to_page

BRANCHES = ("b4", "b5", "b3")
"""The best one, one with wrong numbers, one that does not compile."""


@pytest.mark.browser
@pytest.mark.xdist_group("pages")
def test_every_tab_can_be_read_by_everybody(tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(reason)
    if not (HERE / "node_modules" / "axe-core").is_dir():
        pytest.skip("axe-core is not there; tests/browser/tools.sh gets it from npm")
    page = tmp_path / "story.html"
    page.write_text(to_page(story.tree()), encoding="utf-8")
    shots = os.environ.get("WORKBENCH_SHOTS", str(tmp_path))
    command = ["node", str(HERE / "page.js"), shots, str(page), *BRANCHES]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=LIMIT_S)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("ok ") == 8
