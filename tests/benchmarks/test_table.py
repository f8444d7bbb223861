"""Numbers in the docs come from receipts."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
H100 = "NVIDIA H100 80GB HBM3"
LOOK = {
    "gpu": "G",
    "torch": "2",
    "samples": 20,
    "rows": [{"op": "a", "case": "8", "vector": {}, "us": 4.0, "eager_us": 8.0}],
}


def load(name: str = "table") -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_receipts_say() -> None:
    table = load()
    assert table.PAGE.read_text() == table.whole_page()


def test_a_failed_kernel_is_counted_and_never_best() -> None:
    table = load()
    rows = [
        {"op": "a", "case": "8", "vector": {}, "failed": "no"},
        {"op": "a", "case": "8", "vector": {"width": "4", "split": "off"}, "us": 4.0, "eager_us": 8.0},
        {"op": "a", "case": "8", "vector": {}, "us": 5.0, "eager_us": 8.0},
    ]
    page = table.page(LOOK | {"rows": rows})
    assert "| a | 8 | 8.0 | 4.0 | 2.00 | width 4 |" in page
    assert "run: 1 of 3" in page


def rival(name: str, time_us: float, ratio: float, verdict: str = "FASTER") -> dict[str, Any]:
    low, high = ratio * 0.99, ratio * 1.01
    return {
        "name": name, "time_us": time_us, "ratio": ratio, "low": low, "high": high, "verdict": verdict,
        "host_us": 7.0, "graph_us": None,
    }  # fmt: skip


def receipt(
    problem: str, shape: str, time_us: float, *rivals: dict[str, Any], **measured: Any
) -> dict[str, Any]:
    found = {
        "clock": "cupti", "low_us": time_us - 0.1, "high_us": time_us + 0.1, "suspicion": "", "host_us": None,
        "graph_us": None, "rivals": list(rivals), **measured,
    }  # fmt: skip
    return {
        "problem": {"name": problem},
        "machine": {"card": "NVIDIA H100", "versions": [["torch", "2.11"]]},
        "cases": [{"case": shape, "time_us": time_us, "floor_us": time_us / 2, "measured": found}],
    }


def test_measured_rows_show_the_best_kernel_against_the_fastest_baseline() -> None:
    table = load()
    receipts = {
        "aaa.json": receipt("softmax", "8x8", 10.0, rival("eager", 40.0, 4.0), rival("compile", 20.0, 2.0)),
        "bbb.json": receipt("softmax", "8x8", 16.0, rival("eager", 40.0, 2.5), rival("compile", 20.0, 1.25)),
        "ccc.json": receipt("norm", "4", 10.0, rival("eager", 5.0, 0.5, "SLOWER"), host_us=6.5, graph_us=4.5),
        "ddd.json": receipt("norm", "9", 1.0, rival("eager", 5.0, 5.0), suspicion="clocks disagree"),
    }
    page = table.page(LOOK, receipts, [{"problem": "conv", "shape": "1", "why": "mismatch"}])
    assert "| softmax | 8x8 | 10.0 (9.9 to 10.1) | 40.0 | 20.0 | 2.00 | 1.98 to 2.02 |" in page
    assert "| FASTER than compile | 50% | – | cupti | `aaa.json` |" in page
    assert "| norm | 4 | 10.0 (9.9 to 10.1) | 5.0 | – | 0.50 | 0.49 to 0.51 | SLOWER than eager |" in page
    assert "| norm | 9 |" not in page, "a suspect time is no row"
    assert "Rows: 2. Against the fastest baseline: geometric mean 1.00 (lower bounds 0.99)" in page
    assert "1 of 2 FASTER, 1 SLOWER. Against eager alone: geometric mean 1.41." in page
    assert "Below 0.97: 1 rows." in page and "without softmax the geometric mean is 0.50." in page
    assert "Shapes without a correct kernel: 1; counted as 1x, the geometric mean is 1.00." in page
    assert "| norm | 4 | 6.5 | 4.5 | 7.0 / – | – |" in page
    assert "`bbb.json`" not in page
    assert "measured last" not in page, "one card has nothing to be told apart from"


def of(card: str, made: str, one: dict[str, Any]) -> dict[str, Any]:
    return one | {"machine": one["machine"] | {"card": card}, "made": made}


def test_each_card_has_its_own_rows_foot_and_failures_and_the_newest_of_all_come_last() -> None:
    table = load()
    short = receipt("softmax", "8x8", 6.0, rival("eager", 24.0, 4.0), host_us=5.0)
    receipts = {
        "a.json": of(H100, "2026-11-21", receipt("softmax", "8x8", 10.0, rival("eager", 20.0, 2.0))),
        "b.json": of(H100, "2026-11-21", receipt("norm", "4", 10.0, rival("compile", 9.0, 0.9, "SLOWER"))),
        "c.json": of("NVIDIA H200", "2026-11-22", short),
    }
    failures = [{"problem": "conv", "shape": "1", "why": "mismatch", "card": H100}]
    text = table.page(LOOK, receipts, failures)
    assert f"{H100}; NVIDIA H200: a section each." in text
    _, first, second, last = text.split("\n### ")
    assert first.startswith(H100) and "`a.json`" in first and "`c.json`" not in first
    assert "Rows: 2. Against the fastest baseline: geometric mean 1.34" in first
    assert "Shapes without a correct kernel: 1;" in first and "Below 0.97: 1 rows." in first
    assert second.startswith("NVIDIA H200") and "`c.json`" in second and "`a.json`" not in second
    assert "Rows: 1. Against the fastest baseline: geometric mean 4.00" in second
    assert "| problem | shape | kernel us | eager | factor |" in second, (
        "no column of what was not measured there"
    )
    assert "Shapes without a correct kernel: 0;" in second
    assert "#### Launch-bound rows of the NVIDIA H200" in second and "Launch-bound" not in first
    assert f"| {H100} | 2 | 1.34 | 1.33 | 1.45 | 1 | 0 of 0 |" in last
    assert "| the newest of each, whatever its card | 2 | 1.90 | 1.88 | 2.45 | 1 | 0 of 0 |" in last
    assert f"1 come from the {H100}, 1 come from the NVIDIA H200." in last
    assert "| softmax | 8x8 | NVIDIA H200, 2026-11-22 | 10.0, 2.00 | 6.0, 4.00 |" in last
    assert "| norm | 4 |" not in last


def test_large_rows_are_held_against_bare_moves_of_their_own_card(monkeypatch: pytest.MonkeyPatch) -> None:
    table = load()
    import measured_rows

    times = {H100: 9.5, "NVIDIA H200": 5.0}
    monkeypatch.setattr(measured_rows, "bare_moves", lambda card: {(64 * 10**6, 16, "cupti"): times[card]})
    monkeypatch.setattr(
        measured_rows, "reckoned", lambda *_: {"read": 64 * 10**6, "written": 16, "floor_us": 5.0}
    )
    one = receipt("softmax", "8x8", 10.0, rival("eager", 20.0, 2.0))
    text = table.page(LOOK, {"a.json": of(H100, "1", one), "b.json": of("NVIDIA H200", "2", one)}, [])
    assert "| 50% | 95% | cupti | `a.json` |" in text and "| 50% | 50% | cupti | `b.json` |" in text
    assert "Of 1 rows that move 64 MB or more, 1 reach 92%" in text
    assert "Of 1 rows that move 64 MB or more, 0 reach 92%" in text
    assert "whatever its card | 1 | 2.00 | 1.98 | 2.00 | 0 | 0 of 1 |" in text


def test_what_a_search_cost_stands_with_its_limits() -> None:
    table = load()
    found = {
        "gpu": "NVIDIA H200",
        "grid": True,
        "note": "Added.",
        "policy": {"seconds": 60.0, "branches": 40},
        "rows": [{"op": "softmax"}],
        "table": ["| op | best |", "|---|---|", "| softmax | 1.54x |"],
    }
    text = table.search_section(found)
    assert "NVIDIA H200; `python benchmarks/search_cost.py --device cuda --grid softmax`" in text
    assert "A search without an archive at four shapes at once, ended after 60 s or 40 evaluations." in text
    assert text.endswith("start.\nAdded.\n\n| op | best |\n|---|---|\n| softmax | 1.54x |\n")
    assert "four shapes" not in table.search_section(found | {"grid": False})
    assert text in table.page(LOOK, searches=[found])


def test_without_measured_receipts_there_is_no_such_section(tmp_path: Path) -> None:
    table = load()
    assert table.read_measured(tmp_path / "none") == ({}, [])
    assert "Measured by the referee" not in table.page(LOOK, {}, [])
    (tmp_path / "failures.json").write_text(json.dumps([{"problem": "a"}]))
    assert table.read_measured(tmp_path) == ({}, [{"problem": "a"}])


def test_the_clocks_own_figures_stand_beside_what_was_wanted() -> None:
    table = load()
    section = table.clock_section(json.loads(table.CLOCK.read_text()))
    assert "| SAME in 95 of 100 | 100 of 100, ratios 0.99" in section
    assert "| SLOWER in 90 of 100 | 100 of 100, ratio 0.98" in section


def test_only_receipts_that_make_a_row_are_taken(tmp_path: Path) -> None:
    import tarfile

    packed = tmp_path / "packed" / "receipts"
    packed.mkdir(parents=True)
    for name, time_us, ratio in (("good.json", 10.0, 2.0), ("worse.json", 16.0, 1.25)):
        one = receipt("softmax", "8x8", time_us, rival("eager", 20.0, ratio))
        (packed / name).write_text(json.dumps(one | {"format": "workbench-receipt/1"}))
    believed, doubted = ({"times": [{"measured": {"suspicion": why}}]} for why in ("", "the clocks disagree"))
    rows = [
        {"op": "softmax", "kind": "passed", "evaluation": believed},
        {"op": "softmax", "kind": "mismatch"},
        {"op": "conv", "card": "NVIDIA H200", "kind": "mismatch"},
        {"op": "pool", "kind": "passed", "evaluation": doubted | {"target": H100}},
    ]
    (packed.parent / "gpu_judged.json").write_text(json.dumps({"part": "judged", "rows": rows}))
    (packed.parent / "log.txt").write_text("nothing")
    with tarfile.open(tmp_path / "on_the_gpu.tgz", "w:gz") as tar:
        tar.add(packed.parent, "on_the_gpu")
    taking = load("take_receipts")
    assert taking.take(tmp_path / "on_the_gpu.tgz", tmp_path / "measured") == ["good.json"]
    kept, failed = load().read_measured(tmp_path / "measured")
    assert list(kept) == ["good.json"]
    assert failed == [
        {"problem": "conv", "shape": "all", "why": "mismatch", "card": "NVIDIA H200"},
        {"problem": "pool", "shape": "all", "why": "passed", "card": H100},
    ]


def archive_of(folder: Path, *receipts: tuple[str, dict[str, Any]], op: str = "", card: str = "") -> Path:
    """What a session packs: receipts by file name, and one judged row of an op."""
    import tarfile

    place = folder / "receipts"
    place.mkdir(parents=True)
    for name, one in receipts:
        (place / name).write_text(json.dumps(one | {"format": "workbench-receipt/1"}))
    (folder / "session.json").write_text('[{"phase": "grid"}]')
    if op:
        judged = {"part": "judged", "rows": [{"op": op, "kind": "mismatch", "card": card}]}
        (folder / "gpu_judged.json").write_text(json.dumps(judged))
    with tarfile.open(folder.with_suffix(".tgz"), "w:gz") as tar:
        tar.add(folder, "on_the_gpu")
    return folder.with_suffix(".tgz")


def test_a_later_archive_replaces_what_it_measured_and_nothing_else(tmp_path: Path) -> None:
    table, taking, folder = load(), load("take_receipts"), tmp_path / "measured"
    import measured_rows

    old = "both" + ".json"  # a name that no text holds
    both = receipt("softmax", "8x8", 10.0, rival("eager", 40.0, 4.0))
    both["cases"] += receipt("softmax", "9x9", 7.0, rival("eager", 14.0, 2.0))["cases"]
    norm = receipt("norm", "4", 5.0, rival("eager", 10.0, 2.0))
    taking.take(archive_of(tmp_path / "first", (old, both), ("norm.json", norm), op="conv"), folder)
    slower = receipt("softmax", "8x8", 20.0, rival("eager", 40.0, 2.0))
    doubted = receipt("norm", "4", 1.0, rival("eager", 10.0, 10.0), suspicion="clocks disagree")
    other = receipt("norm", "4", 4.0, rival("eager", 8.0, 2.0))
    other["machine"]["card"] = "NVIDIA H200"
    second = archive_of(
        tmp_path / "second",
        ("slower.json", slower),
        ("doubted.json", doubted),
        ("other.json", other),
        op="pool",
    )
    assert taking.take(second, folder) == ["other.json", "slower.json"]
    kept, failed = table.read_measured(folder)
    rows = {
        (row["problem"], row["shape"], row["card"][-4:]): row["file"]
        for row in measured_rows.best_measured(kept)
    }
    assert rows == {
        ("softmax", "8x8", "H100"): "slower.json",  # the newest, though another was faster
        ("softmax", "9x9", "H100"): old,
        ("norm", "4", "H100"): "norm.json",
        ("norm", "4", "H200"): "other.json",
    }
    assert [one["problem"] for one in failed] == ["conv", "pool"]
    again = archive_of(tmp_path / "again", ("norm.json", norm), op="conv", card="NVIDIA H200")
    taking.take(again, folder)
    failed = table.read_measured(folder)[1]
    assert [(one["problem"], one["card"]) for one in failed][-1] == ("conv", "NVIDIA H200")
    assert len(failed) == 3, "what fails on one card is not yet right on the other"
    late = norm | {"made": "2026"}
    taking.take(archive_of(tmp_path / "late", ("late.json", late)), folder)
    assert taking.take(archive_of(tmp_path / "early", ("early.json", norm | {"made": "2025"})), folder) == []
    third = receipt("softmax", "9x9", 6.0, rival("eager", 14.0, 2.3))
    taking.take(archive_of(tmp_path / "third", ("third.json", third)), folder)
    assert not (folder / old).exists(), "no row needs it any more"


def test_a_receipt_that_is_named_somewhere_stays() -> None:
    taking = load("take_receipts")
    assert taking.named("939ec16b7c8c-nvidia-h100-80gb-hbm3-20261121T181615.json")
    assert not taking.named("939ec16b7c8c-nvidia-h100-80gb-hbm3-" + "0" * 8 + ".json")
