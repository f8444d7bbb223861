"""Calls that take longer than their bytes: the model of them beside what a card took."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from softmax_problem import PROBLEM, case

from workbench.model import H100, CompileReport
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse
from workbench.problem.slow_calls import ordered_rows, ordering_us, solving_us, topk_us
from workbench.referee.baselines import EagerOp, compile_us, eager_us
from workbench.referee.librarymeta import library_meta
from workbench.referee.roofline import case_time

RECEIPTS = Path(__file__).resolve().parents[2] / "benchmarks" / "receipts"
SOLVED = json.loads((RECEIPTS / "2026-11-30-h200-library-solves.json").read_text())["solves"]
TIMED = json.loads((RECEIPTS / "2026-11-28-h100-slow-calls.json").read_text())["topk"]

ORDERS = json.loads((RECEIPTS / "2026-11-30-h200-slow-calls.json").read_text())["orders"]


@pytest.mark.parametrize("call", ["sort", "median", "kthvalue"])
def test_putting_in_order_takes_what_a_card_took(call: str) -> None:
    """Of a few rows that are long or short, and of many."""
    rows = [row for row in ORDERS if row["call"] == call]
    ratios = [ordering_us(call, row["rows"], row["columns"]) / row["us"] for row in rows]
    assert len(ratios) == 13 and min(ratios) > 0.4 and max(ratios) < 1.4


@pytest.mark.parametrize(
    ("op", "args", "named", "found"),
    [
        ("aten.sort.default", (None, 0), {}, (6, 5)),
        ("aten.sort.stable", (None,), {"stable": True, "dim": 1}, (15, 2)),
        ("aten.topk.default", (None, 2), {}, (10, 3)),
        ("aten.kthvalue.default", (None, 2, 0), {}, (6, 5)),
        ("aten.median.dim", (None, -2), {}, (15, 2)),
        ("aten.median.default", (None,), {}, (1, 30)),
    ],
)
def test_rows_are_those_along_the_axis(
    op: str, args: tuple[object, ...], named: dict[str, object], found: tuple[float, int]
) -> None:
    assert ordered_rows(op, (5, 2, 3), args, named) == found


@pytest.mark.parametrize("row", TIMED, ids=lambda row: f"{row['rows']}x{row['columns']}")
def test_topk_takes_what_a_card_took(row: dict[str, float]) -> None:
    modelled = topk_us(row["rows"], int(row["columns"])) + H100.launch_us
    assert 0.5 < modelled / row["us"] < 1.2


@pytest.mark.parametrize("call", sorted({row["call"] for row in SOLVED}))
def test_solving_takes_what_a_card_took(call: str) -> None:
    """However few the matrices are, and of many of them."""
    rows = [row for row in SOLVED if row["call"] == call]
    ratios = [solving_us(call, row["matrices"], row["rows"]) / row["us"] for row in rows]
    assert len(ratios) == 15 and min(ratios) > 0.5 and max(ratios) < 1.4


def test_a_plan_that_calls_topk_waits_for_it() -> None:
    wanted = case(64, 50257)
    body = '    values, places = library("aten.topk", x, 10)\n    return values'
    plan = interpret(parse(f"/* plan\ndef plan(x):\n{body}\n*/\n"), PROBLEM.metas(wanted), H100, library_meta)
    compiled = CompileReport(arch="sm_90a", kernels=(), seconds=0.0, cached=False, nvrtc="13.0")
    assert case_time(H100, PROBLEM, wanted, plan, compiled, ()).time_us > topk_us(64, 50257)


def test_torch_compile_leaves_distances_whole() -> None:
    """The graph has taken them apart, so that only what eager calls tells of them."""
    wanted = case(64, 256)
    distances = EagerOp(
        op="aten._cdist_forward.default", read_bytes=2**16, written_bytes=4 * 2**20, elements=2**20
    )
    fused = compile_us(H100, PROBLEM, wanted)
    assert compile_us(H100, PROBLEM, wanted, (distances,)) > fused + 0.9 * eager_us(H100, (distances,)) > 1000
