"""Which cases of a long family ``make test`` runs: every k-th of those that the markers leave."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest_plugins = "pytester"

FAMILY = """
import pytest

CASES = [pytest.param(n, marks=pytest.mark.sweep if n % 3 else ()) for n in range(12)]

@pytest.mark.many(3)
@pytest.mark.parametrize("case", CASES)
def test_case(case):
    pass
"""
LEFT = [0, 3, 6, 9]


@pytest.mark.parametrize("asked", [(), ("--every-case",), ("test_family.py::test_case",)])
def test_cases_that_are_left_out_are_not_counted(pytester: pytest.Pytester, asked: tuple[str, ...]) -> None:
    pytester.makeconftest((Path(__file__).parent / "conftest.py").read_text())
    pytester.makepyfile(test_family=FAMILY)
    found = pytester.runpytest_inprocess("--collect-only", "-q", "-p", "no:nbval", "-m", "not sweep", *asked)
    seed = int(os.environ["WORKBENCH_SEED"])
    every = [n for at, n in enumerate(LEFT) if asked or (at - seed) % 3 == 0]
    listed = [line for line in found.outlines if "::" in line]
    assert listed == [f"test_family.py::test_case[{n}]" for n in every]
