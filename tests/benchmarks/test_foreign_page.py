"""The foreign lane's page says what its receipt says, and the receipt covers the suite."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("foreign_suite", ROOT / "benchmarks" / "foreign_suite.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_receipt_says() -> None:
    bench = load()
    receipt, page = json.loads(bench.RECEIPT.read_text()), bench.PAGE.read_text()
    assert bench.with_tables(page, receipt) == page
    assert bench.wrong(receipt["rows"]) == []


def test_the_receipt_covers_the_suite() -> None:
    judged = {row["name"] for row in json.loads(load().RECEIPT.read_text())["rows"]}
    folder = ROOT / "tests" / "foreign"
    files = {
        f"{path.parent.name}/{path.stem}"
        for kind in ("cheats", "honest")
        for path in (folder / kind).glob("*.py")
    }
    assert judged == files


def test_the_page_counts_the_suite() -> None:
    folder, page = ROOT / "tests" / "foreign", load().PAGE.read_text()
    cheats, honest = (len(list((folder / kind).glob("*.py"))) for kind in ("cheats", "honest"))
    assert f"{cheats} files in `tests/foreign/cheats` and {honest} in `tests/foreign/honest`" in page


def test_a_cheat_that_passed_would_be_seen() -> None:
    rows = [{"name": "cheats/zeros", "must": ["mismatch"], "verdict": "passed"}]
    assert load().wrong(rows) == ["cheats/zeros"]
