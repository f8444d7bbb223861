"""Numbers in the docs come from receipts."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("table", ROOT / "benchmarks" / "table.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_receipts_say() -> None:
    table = load()
    assert table.PAGE.read_text() == table.page(json.loads(table.RECEIPT.read_text()))


def test_a_failed_kernel_is_counted_and_never_best() -> None:
    table = load()
    rows = [
        {"op": "a", "case": "8", "vector": {}, "failed": "no"},
        {"op": "a", "case": "8", "vector": {"width": "4", "split": "off"}, "us": 4.0, "eager_us": 8.0},
        {"op": "a", "case": "8", "vector": {}, "us": 5.0, "eager_us": 8.0},
    ]
    page = table.page({"gpu": "G", "torch": "2", "samples": 20, "rows": rows})
    assert "| a | 8 | 8.0 | 4.0 | 2.00 | width 4 |" in page
    assert "run: 1 of 3" in page
