"""Opens cells in this process, for tests of everything between the capture and the problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from workbench.model import Problem
from workbench.problem.capture import read_cell
from workbench.problem.opening import open_capture

torch.set_num_threads(1)


def opened(source: str, entry: str | None = None, namespace: Mapping[str, Any] | None = None) -> Problem:
    """Open a cell as a worker would."""
    return open_capture(read_cell(source, entry, namespace), lambda note: None)
