"""Five hundred branches in a real browser: complete, fitting; what an update takes is told, not judged."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from story import card, large_tree
from test_browser import HERE, environment, missing

from workbench.events import BranchApproved, BranchProposed, StageEntered
from workbench.model import Branch, BranchId
from workbench.views.detail import detail
from workbench.views.panel import SCRIPT, STATIC, STYLES
from workbench.views.project import project
from workbench.views.verdicts import SHAPES


def views() -> list[dict[str, Any]]:
    """Before, after two small events, and with one branch more."""
    tree = large_tree(500)
    later = tree.apply(StageEntered(branch=BranchId("b499"), stage="running"))
    later = later.apply(BranchApproved(branch=BranchId("b40"), by="person"))
    new = Branch(id=BranchId("b501"), parents=(BranchId("b3"),), round=9, operator="refine",
                 hypothesis=card("One more", "row_cache", (), 1.1), author="playbook")  # fmt: skip
    return [project(tree), project(later), project(later.apply(BranchProposed(branch=new)))]


def shown(view: dict[str, Any]) -> int:
    """Rows that do not lie below a pruned branch."""
    rows = {row["id"]: row for row in view["rows"]}
    return sum(not row["parents"] or not rows[row["parents"][0]]["pruned"] for row in rows.values())


@pytest.mark.browser
def test_five_hundred_branches(tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(reason)
    made = views()
    style = "\n".join((STATIC / name).read_text() for name in STYLES)
    data = {"views": made, "shapes": SHAPES, "style": style, "shown": shown(made[2])}
    data["details"] = {"b1": detail(large_tree(500), BranchId("b1"))}
    (tmp_path / "data.json").write_text(json.dumps(data))
    shots = os.environ.get("WORKBENCH_SHOTS", str(tmp_path))
    command = ["node", str(HERE / "large.js"), str(tmp_path / "data.json"), str(STATIC / SCRIPT), shots]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("ok ") == 5
