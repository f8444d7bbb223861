"""Imports go down this list and never up; torch and CUDA stay out of the notebook process."""

import ast
import re
import subprocess
import sys
from collections.abc import Collection
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
PLAYBOOK = (
    "device_functions",
    "ir",
    "text",
    "graph",
    "schedules",
    "analysis",
    "lowering",
    "kernels",
    "files",
    "techniques",
    "estimates",
    "generate",
    "rules",
)
"""The playbook's own layers, the lowest first, as CONTRIBUTING.md has them."""
RANK = {name: rank for rank, name in enumerate(LAYERS)}
ROOT = Path(workbench.__file__).parent


def imports(path: Path, package: str = "workbench", units: Collection[str] = LAYERS) -> set[str]:
    """Names of a package's own units that a file imports, at any depth."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{package}."):
            found.add((node.module or "").removeprefix(f"{package}.").split(".")[0])
        elif isinstance(node, ast.ImportFrom) and node.module == package:
            found.update(alias.name for alias in node.names if alias.name in units)
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith(f"{package}.")]
            found.update(name.removeprefix(f"{package}.").split(".")[0] for name in names)
    return found


def test_imports_go_down() -> None:
    for path in ROOT.rglob("*.py"):
        unit = path.relative_to(ROOT).with_suffix("").parts[0]
        if unit in ("__init__", "__main__"):
            continue
        for other in imports(path) - {unit}:
            assert RANK[other] < RANK[unit], f"{path} ({unit}) imports {other}, which lies above it"


def test_imports_within_the_playbook_go_down() -> None:
    rank = {name: number for number, name in enumerate(PLAYBOOK)}
    for path in (ROOT / "playbook").rglob("*.py"):
        unit = path.relative_to(ROOT / "playbook").with_suffix("").parts[0]
        if unit == "__init__":
            continue
        for other in imports(path, "workbench.playbook", PLAYBOOK) - {unit}:
            assert rank[other] < rank[unit], f"{path} ({unit}) imports {other}, which lies above it"


def test_the_playbooks_layers_are_told_to_contributors() -> None:
    told = (ROOT.parent / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| `playbook/(\w+?)(?:/|\.py)` \|", told, re.MULTILINE)
    assert tuple(reversed(rows)) == PLAYBOOK


def test_notebook_process_has_no_torch() -> None:
    heavy = ("torch", "cuda", "plotly", "pandas", "openai")
    code = f"import sys, workbench.magic; assert not set({heavy!r}) & set(sys.modules), sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_playbook_imports_no_torch() -> None:
    """It runs in the notebook's process; what judges it, in numerics, runs where torch is."""
    for path in (ROOT / "playbook").rglob("*.py"):
        assert "numerics" not in imports(path), path
        assert not re.search(r"^\s*(from|import) torch\b", path.read_text(), re.MULTILINE), path


def test_test_files_have_names_of_their_own() -> None:
    """pytest imports them by name: of two with one name it runs neither, and only a whole run shows it."""
    names = sorted(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, after in pairwise(names) if name == after] == []
