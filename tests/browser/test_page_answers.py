"""The page without a kernel compares branches by itself: the same rows and lines as Python's. Needs node."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import story

import workbench.views
from workbench.model import BranchId
from workbench.views.compare import column, compare
from workbench.views.detail import detail
from workbench.views.differences import differences

ANSWERS = Path(workbench.views.__file__).parent / "src" / "page" / "answers.js"
CALL = """
import(process.argv[1]).then(({ compare, differ }) => {
  const data = JSON.parse(require("fs").readFileSync(0, "utf8"));
  console.log(JSON.stringify([compare(data, data.asked), differ(data, ...data.asked.slice(0, 2))]));
});
"""


def without_marks(lines: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    """Which words of a line changed is Python's to say."""
    return lines and [{**line, "marks": []} for line in lines]


@pytest.mark.browser
@pytest.mark.xdist_group("notebook")
@pytest.mark.parametrize("asked", [("b1", "b4", "b5"), ("b3.1", "b7"), ("b4", "b3.1")])
def test_the_page_answers_as_python_does(asked: tuple[str, ...]) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    tree, ids = story.tree(), tuple(map(BranchId, asked))
    data = {
        "asked": asked,
        "columns": {id: column(tree, tree.nodes[id]) for id in ids},
        "details": {id: detail(tree, id) for id in ids},
    }
    done = subprocess.run(
        ["node", "-e", CALL, str(ANSWERS)], input=json.dumps(data), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    compared, different = json.loads(done.stdout)
    wanted = json.loads(json.dumps(compare(tree, ids)))
    assert compared == {**wanted, "sources": [without_marks(lines) for lines in wanted["sources"]]}
    one = json.loads(json.dumps(differences(tree, ids[0], ids[1])))
    assert different == {**one, "lines": without_marks(one["lines"])}
