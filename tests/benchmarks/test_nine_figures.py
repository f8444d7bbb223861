"""Nine figures from the parts' receipts: seen, and whether they were met."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from test_table import load

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))


def parts() -> dict[str, Any]:
    crashed = {"bad": "crashed", "next": "passed", "takeover_s": 0.0003}
    rate = {"found": 97, "runs": 100}
    return {
        "compared": {"median_s": 0.4, "timed_median_s": 1.2, "load_inline_s": 60.0, "ratio": 150.0},
        "clock": {
            "figures": {
                "a_against_a": rate,
                "two_percent": rate | {"found": 80},
                "copy_bandwidth": {"ours_tb_s": 2.99, "torch_tb_s": 3.02},
                "memory_added": {"added_share": 0.003},
            }
        },
        "routes": {
            "figures": {
                "host_costs": {
                    "median_us": {"plan runner": 5.5, "torch.softmax": 8.0, "bare launch": 3.0},
                }
            }
        },
        "address": {"rows": [crashed, crashed | {"takeover_s": 0.002}]},
        "memory": {"row": {"kind": "passed"}, "beyond_share": 0.04},
    }


def test_a_row_a_figure_met_missed_or_not_measured() -> None:
    figures = load("nine_figures")
    rows = figures.figures_of(parts())
    assert [row["met"] for row in rows] == [True, True, True, True, False, True, True, True, True]
    assert [row["seen"] for row in rows][1:5] == [
        "150 (60.0 s)",
        "1.20 s, against eager and compile",
        "97 of 100",
        "80 of 100",
    ]
    assert rows[7]["seen"].startswith("2.0 ms")
    missing = figures.figures_of(parts() | {"compared": {}, "address": {"rows": []}})
    assert [row["met"] for row in missing] == [None, None, None, True, False, True, True, None, True]
    assert "not measured" in missing[0]["seen"]


@pytest.mark.parametrize(
    ("path", "value", "figure"),
    [
        (("routes", "figures", "host_costs", "median_us", "torch.softmax"), 5.0, 6),
        (("address", "rows", 0, "next"), "crashed", 7),
        (("memory", "row", "kind"), "timed_out", 8),
        (("clock", "figures", "memory_added", "added_share"), 0.2, 8),
    ],
)
def test_a_figure_is_more_than_one_number(path: tuple[Any, ...], value: Any, figure: int) -> None:
    given = parts()
    at: Any = given
    for step in path[:-1]:
        at[step] = at = dict(at[step]) if isinstance(at[step], dict) else at[step]
    at[path[-1]] = value
    assert load("nine_figures").figures_of(given)[figure]["met"] is False


def test_the_page_shows_reach_and_seen() -> None:
    rows = load("nine_figures").figures_of(parts() | {"memory": {}})
    receipt = {"gpu": "NVIDIA H100", "torch": "2.11", "started": "2026-11-21T21:40:00Z", "figures": rows}
    section = load().figures_section(receipt)
    assert "| 2% more to do for a kernel of 100 us | found in 90 of 100 | 80 of 100 | **no** |" in section
    assert "| yes |" in section and "not measured" in section
    assert "6 of 9 met" not in section and "7 of 9 met" in section


def test_the_run_before_stands_beside_it_and_its_misses_are_told() -> None:
    def receipt(started: str, uuid: str, memory: dict[str, Any]) -> dict[str, Any]:
        rows = load("nine_figures").figures_of(parts() | memory)
        card = {"parts": {"probe": {"card": {"uuid": uuid}}}}
        return {"gpu": "NVIDIA H100", "torch": "2.11", "started": started, "figures": rows, **card}

    missed = {"memory": {"row": {"kind": "passed"}, "beyond_share": 0.515}}
    new, old = receipt("2026-11-22", "a", {}), receipt("2026-11-21", "b", missed)
    section = load().figures_section(new, old)
    assert "The run before it, on another card: 7 of 9 met." in section
    assert "| what | reach | seen | met | the run before (2026-11-21) |\n|---|---|---|---|---|\n" in section
    (line,) = (line for line in section.splitlines() if line.startswith("| memory"))
    assert line.count("51.5% while checking") == 1 and line.endswith("(**no**) |") and "| yes |" in line
    assert "the same card" in load().figures_section(new, new)


def test_the_gpu_parts_that_the_figures_need_exist() -> None:
    figures, gpu = load("nine_figures"), load("on_the_gpu")
    assert set(figures.PARTS) <= set(gpu.PARTS) == set(gpu.LIMITS_S)
