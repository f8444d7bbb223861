"""The panel over a made-up session of 500 branches: first paint, updates, keys, what it leaves in a notebook.

Drives the panel in Chromium by itself, then runs a notebook that shows the session and saves it. Needs
chromium, node with playwright-core, and the ``dev`` extra. Prints a table and writes ``panel.json`` into the
folder that ``$WORKBENCH_RECEIPTS`` names. *shown* is from an event to the painted frame, *work* the time of
the page's thread in it, which other work on the machine does not change: the limit is held against that.
Medians of several fresh pages. Run it with ``python benchmarks/panel_speed.py [BRANCHES]``.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "views"), str(ROOT / "tests" / "browser")]

import story  # noqa: E402
from test_browser import environment, missing  # noqa: E402
from test_large_tree import STATIC, panel_data  # noqa: E402

from workbench.events import EVENT  # noqa: E402
from workbench.views.page import to_page  # noqa: E402
from workbench.views.panel import SCRIPT  # noqa: E402
from workbench.views.project import project  # noqa: E402

RUNS = 5
LIMITS = {"update, work ms": 100.0, "notebook, MB": 2.0, "page of to_html, MB": 5.0}
CELL = """
from workbench.live import look
session = look({folder!r})
shown = session.show()
"""


def main() -> None:
    if reason := missing():
        raise SystemExit(f"cannot measure the panel: {reason}")
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    rows = {**browser(count), **python(count), **notebook(count)}
    for name, value in rows.items():
        print(f"{name:<28}{value:>10.3g}")
    receipt = {
        "branches": count,
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(),
                    "load": round(os.getloadavg()[0], 1), "python": platform.python_version()},
        "runs": RUNS,
        "limits": LIMITS,
        "median": rows,
    }  # fmt: skip
    if where := os.environ.get("WORKBENCH_RECEIPTS"):
        (Path(where) / "panel.json").write_text(json.dumps(receipt, indent=1) + "\n")
    late = [name for name, limit in LIMITS.items() if rows[name] > limit]
    raise SystemExit(f"over the limit: {', '.join(late)}" if late else 0)


def browser(count: int) -> dict[str, float]:
    """Milliseconds in Chromium, medians over fresh pages."""
    told: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.json"
        data.write_text(json.dumps(panel_data(count)))
        script = ROOT / "tests" / "browser" / "large.js"
        for _ in range(RUNS):
            command = ["node", str(script), str(data), str(STATIC / SCRIPT), folder]
            done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
            for line in done.stdout.splitlines():
                if line.startswith("ms "):
                    name, _, values = line.removeprefix("ms ").rpartition(": ")
                    name = "update" if name.startswith("update") else name
                    for kind, value in zip(("shown", "work"), values.split(), strict=True):
                        told.setdefault(f"{name}, {kind} ms", []).append(float(value))
    return {name: statistics.median(values) for name, values in told.items()}


def python(count: int) -> dict[str, float]:
    """What Python spends on one projection, and the sizes of what leaves it."""
    tree = story.large_tree(count)
    spent = []
    for _ in range(RUNS):
        start = time.process_time()
        view = project(tree)
        spent.append(1e3 * (time.process_time() - start))
    return {
        "projection, ms": statistics.median(spent),
        "projection, MB": len(json.dumps(view)) / 1e6,
        "page of to_html, MB": len(to_page(tree).encode()) / 1e6,
    }


def notebook(count: int) -> dict[str, float]:
    """Megabytes of a saved notebook: with the living panel's state, and once the session is closed."""
    with tempfile.TemporaryDirectory() as folder:
        session = Path(folder) / "session"
        session.mkdir()
        lines = [EVENT.dump_json(event).decode() + "\n" for event in story.large_events(count)]
        (session / "journal.jsonl").write_text("".join(lines))
        source = CELL.format(folder=str(session))
        return {
            "notebook, MB": _saved_mb([source]),
            "closed notebook, MB": _saved_mb([source, "session.close()"]),
        }


def _saved_mb(sources: list[str]) -> float:
    import nbformat
    from nbclient import NotebookClient

    made: Any = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    NotebookClient(made, timeout=120, kernel_name="python3", store_widget_state=True).execute()
    return len(nbformat.writes(made).encode()) / 1e6


if __name__ == "__main__":
    main()
