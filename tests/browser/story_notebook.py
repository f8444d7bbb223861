"""The notebook that the browser clicks through: a scripted team, slow enough to click while it works."""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).resolve().parent

START = """\
import sys
sys.path[:0] = {path!r}
from slow_team import start
session = start({folder!r}, {hold!r})
shown = session.show()
"""
BLOCK = """\
import pathlib, time
while pathlib.Path({hold!r}).exists():
    time.sleep(0.1)
"""


def write_notebook(folder: Path, hold: Path) -> Path:
    """Write ``story.ipynb`` into ``folder``: a cell to start, one that blocks, one to close.

    While the file ``hold`` is there no kernel is judged and the second cell does not end.
    """
    hold.write_text("")
    source = START.format(
        path=[str(HERE), str(HERE.parent / "views")], folder=str(folder / "session"), hold=str(hold)
    )
    cells = [source, BLOCK.format(hold=str(hold)), "session.close()"]
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
