"""A test means the same every time: one known seed, and no archive of the person who runs it.

Judgements, torch's and Python's random numbers, and hypothesis all follow ``$WORKBENCH_SEED``, 0 unless it is
set; another number asks whether a test's claim holds for other numbers too. The seeds of the suite of
cheats, which is also run by a command, are fresh there. Tests of the archive name a folder.
"""

import os
import random

import pytest
import torch
from hypothesis import settings

from workbench.workers.keeping import end_with

if "PYTEST_XDIST_WORKER" in os.environ:
    end_with(os.getppid())  # a test that hangs would otherwise outlive whoever ended the run
os.environ["WORKBENCH_ARCHIVE"] = "off"
SEED = int(os.environ.setdefault("WORKBENCH_SEED", "0"))
settings.register_profile("suite", derandomize=SEED == 0)
settings.load_profile("suite")
torch.manual_seed(SEED)  # for what a module draws while it is imported


@pytest.fixture(autouse=True)
def _one_seed() -> None:
    random.seed(SEED)
    torch.manual_seed(SEED)
