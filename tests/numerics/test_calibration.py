"""The constants of the bounds are those that the committed calibration vouches for, from both sides."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import known_ops as ops
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def command() -> ModuleType:
    spec = importlib.util.spec_from_file_location("calibrate", ROOT / "benchmarks" / "calibrate_bounds.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def receipt() -> dict[str, Any]:
    return json.loads((ROOT / "benchmarks" / "receipts" / "calibration.json").read_text())


def test_the_constants_are_the_calibrated_ones(command: ModuleType, receipt: dict[str, Any]) -> None:
    assert receipt["constants"] == command.constants()


def test_the_bound_lies_between_both_sides(receipt: dict[str, Any]) -> None:
    assert {row["op"] for row in receipt["rows"]} == set(ops.OPS)
    for row in receipt["rows"]:
        assert (row["ratio"] <= 1) == (row["side"] == "honest"), row
    for name in ops.OPS:
        sides = [row["side"] for row in receipt["rows"] if row["op"] == name]
        assert sides.count("honest") >= 1 and sides.count("lower precision") >= 3


@pytest.mark.parametrize("name", ["row_sum", "matmul"])
def test_the_receipt_can_be_repeated(command: ModuleType, receipt: dict[str, Any], name: str) -> None:
    told = {(r["side"], r["variant"]): r for r in receipt["rows"] if r["op"] == name}
    op = ops.OPS[name]()
    eager = told["honest", "eager"]
    assert op.judge(op.call, eager["kind"])[0] <= 2 * eager["ratio"] + 0.1
    ratio, _ = command.worst(op, command.lowered(op, "tf32"), (told["lower precision", "tf32"]["kind"],))
    assert ratio == pytest.approx(told["lower precision", "tf32"]["ratio"], rel=0.2)
