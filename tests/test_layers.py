"""Imports go down this list and never up; torch and CUDA stay out of the notebook process."""

import ast
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import workbench

LAYERS = (
    "syntax",
    "model",
    "errors",
    "policy",
    "events",
    "exchange",
    "acts",
    "node",
    "tree",
    "search",
    "workers",
    "plan",
    "compile",
    "emulator",
    "numerics",
    "gpu",
    "problem",
    "playbook",
    "referee",
    "profile",
    "foreign",
    "export",
    "devices",
    "agents",
    "archive",
    "session",
    "orchestrator",
    "views",
    "live",
    "magic",
    "cli",
)
RANK = {name: rank for rank, name in enumerate(LAYERS)}
ROOT = Path(workbench.__file__).parent


def imports(path: Path) -> set[str]:
    """Names of the workbench's own units that a file imports, at any depth."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("workbench."):
            found.add((node.module or "").split(".")[1])
        elif isinstance(node, ast.ImportFrom) and node.module == "workbench":
            found.update(alias.name for alias in node.names if alias.name in RANK)
        elif isinstance(node, ast.Import):
            found.update(a.name.split(".")[1] for a in node.names if a.name.startswith("workbench."))
    return found


def test_imports_go_down() -> None:
    for path in ROOT.rglob("*.py"):
        unit = path.relative_to(ROOT).with_suffix("").parts[0]
        if unit in ("__init__", "__main__"):
            continue
        for other in imports(path) - {unit}:
            assert RANK[other] < RANK[unit], f"{path} ({unit}) imports {other}, which lies above it"


def test_notebook_process_has_no_torch() -> None:
    heavy = ("torch", "cuda", "plotly", "pandas", "openai")
    code = f"import sys, workbench.magic; assert not set({heavy!r}) & set(sys.modules), sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_test_files_have_names_of_their_own() -> None:
    """pytest imports them by name: of two with one name it runs neither, and only a whole run shows it."""
    names = sorted(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, after in pairwise(names) if name == after] == []
