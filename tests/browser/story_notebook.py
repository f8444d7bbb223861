"""The notebook that the browser clicks through: a scripted team, slow enough to click while it works."""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).resolve().parent

START = """\
import sys
sys.path[:0] = {path!r}
from slow_team import start
session = start({folder!r})
shown = session.show()
"""


def write_notebook(folder: Path) -> Path:
    """Write ``story.ipynb`` into ``folder``: a cell to start, one that blocks, one to close."""
    source = START.format(path=[str(HERE), str(HERE.parent / "views")], folder=str(folder / "session"))
    cells = [source, "import time; time.sleep(8)", "session.close()"]
    notebook = {
        "cells": [
            {
                "cell_type": "code",
                "id": f"cell-{index}",
                "metadata": {},
                "source": text,
                "outputs": [],
                "execution_count": None,
            }
            for index, text in enumerate(cells)
        ],
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path = folder / "story.ipynb"
    path.write_text(json.dumps(notebook))
    return path
