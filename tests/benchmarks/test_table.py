"""Numbers in the docs come from receipts."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
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
        {"op": "conv", "kind": "mismatch"},
        {"op": "pool", "kind": "passed", "evaluation": doubted},
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
        {"problem": "conv", "shape": "all", "why": "mismatch"},
        {"problem": "pool", "shape": "all", "why": "passed"},
    ]


def archive_of(folder: Path, *receipts: tuple[str, dict[str, Any]], op: str = "") -> Path:
    """What a session packs: receipts by file name, and one judged row of an op."""
    import tarfile

    place = folder / "receipts"
    place.mkdir(parents=True)
    for name, one in receipts:
        (place / name).write_text(json.dumps(one | {"format": "workbench-receipt/1"}))
    (folder / "session.json").write_text('[{"phase": "grid"}]')
    if op:
        judged = {"part": "judged", "rows": [{"op": op, "kind": "mismatch"}]}
        (folder / "gpu_judged.json").write_text(json.dumps(judged))
    with tarfile.open(folder.with_suffix(".tgz"), "w:gz") as tar:
        tar.add(folder, "on_the_gpu")
    return folder.with_suffix(".tgz")


def test_a_later_archive_replaces_what_it_measured_and_nothing_else(tmp_path: Path) -> None:
    table, taking, folder = load(), load("take_receipts"), tmp_path / "measured"
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
        (row["problem"], row["shape"], row["card"][-4:]): row["file"] for row in table.best_measured(kept)
    }
    assert rows == {
        ("softmax", "8x8", "H100"): "slower.json",  # the newest, though another was faster
        ("softmax", "9x9", "H100"): old,
        ("norm", "4", "H100"): "norm.json",
        ("norm", "4", "H200"): "other.json",
    }
    assert [one["problem"] for one in failed] == ["conv", "pool"]
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
