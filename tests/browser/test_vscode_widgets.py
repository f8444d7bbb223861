"""The panel in VS Code's own widget manager, which npm has apart from VS Code. VS Code itself is not run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import story
from test_browser import HERE, LIMIT_S, environment, missing

from workbench.events import EVENT

MODULES = HERE / "node_modules"
WIDGETS = MODULES / "vscode-widgets" / "dist" / "ipywidgets.js"
REQUIRE = MODULES / "requirejs" / "require.js"
CELL = "from workbench.live import look\nshown = look({folder!r}).show()\n"
STATE = "application/vnd.jupyter.widget-state+json"


@pytest.mark.browser
@pytest.mark.xdist_group("dark")
def test_a_saved_panel_is_drawn(tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(reason)
    if not WIDGETS.exists() or not REQUIRE.exists():
        pytest.skip("VS Code's widget manager is not there; tests/browser/tools.sh gets it from npm")
    import nbformat  # four seconds of a processor, and every process of a run imports every test
    from nbclient import NotebookClient

    lines = [EVENT.dump_json(event).decode() + "\n" for event in story.large_events(12)]
    (tmp_path / "journal.jsonl").write_text("".join(lines))
    cell = nbformat.v4.new_code_cell(CELL.format(folder=str(tmp_path)))  # type: ignore[no-untyped-call]
    made: Any = nbformat.v4.new_notebook(cells=[cell])  # type: ignore[no-untyped-call]
    NotebookClient(made, timeout=LIMIT_S, kernel_name="python3", store_widget_state=True).execute()
    state = tmp_path / "state.json"
    state.write_text(json.dumps({"state": made.metadata.widgets[STATE], "outputs": made.cells[0].outputs}))
    anywidget = Path(sys.prefix) / "share" / "jupyter" / "nbextensions" / "anywidget" / "index.js"
    shots = os.environ.get("WORKBENCH_SHOTS", str(tmp_path))
    command = ["node", str(HERE / "vscode.js"), str(state), str(WIDGETS), str(REQUIRE), str(anywidget), shots]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=LIMIT_S)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("ok ") == 3
