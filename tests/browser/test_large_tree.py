"""Five hundred branches in a real browser: complete, fitting; what an update takes is told, not judged."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from story import card, large_tree
from test_browser import HERE, LIMIT_S, environment, missing

from workbench.events import BranchApproved, BranchProposed, StageEntered
from workbench.model import Branch, BranchId
from workbench.views.detail import detail
from workbench.views.panel import SCRIPT, STATIC, STYLES
from workbench.views.project import project
from workbench.views.verdicts import SHAPES


def views(count: int) -> list[dict[str, Any]]:
    """Before, after two small events, and with one branch more."""
    tree = large_tree(count)
    later = tree.apply(StageEntered(branch=BranchId(f"b{count - 1}"), stage="running"))
    later = later.apply(BranchApproved(branch=BranchId("b40"), by="person"))
    new = Branch(id=BranchId(f"b{count + 1}"), parents=(BranchId("b3"),), round=9, operator="refine",
                 hypothesis=card("One more", "row_cache", (), 1.1), author="playbook")  # fmt: skip
    return [project(tree), project(later), project(later.apply(BranchProposed(branch=new)))]


def panel_data(count: int) -> dict[str, Any]:
    """What large.js is given; ``benchmarks/panel_speed.py`` measures with the same."""
    made = views(count)
    style = "\n".join((STATIC / name).read_text() for name in STYLES)
    details = {"b1": detail(large_tree(count), BranchId("b1"))}
    return {"views": made, "shapes": SHAPES, "style": style, "shown": shown(made[2]), "details": details}


def shown(view: dict[str, Any]) -> int:
    """Rows that do not lie below a pruned branch."""
    rows = {row["id"]: row for row in view["rows"]}
    return sum(not row["parents"] or not rows[row["parents"][0]]["pruned"] for row in rows.values())


@pytest.mark.browser
@pytest.mark.xdist_group("light")
def test_five_hundred_branches(tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(reason)
    (tmp_path / "data.json").write_text(json.dumps(panel_data(500)))
    shots = os.environ.get("WORKBENCH_SHOTS", str(tmp_path))
    command = ["node", str(HERE / "large.js"), str(tmp_path / "data.json"), str(STATIC / SCRIPT), shots]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=LIMIT_S)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("ok ") == 5
