"""The foreign lane's page says what its receipt says, and the receipt covers the suite."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load(name: str = "foreign_suite") -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_receipt_says() -> None:
    bench = load()
    receipt, page = json.loads(bench.RECEIPT.read_text()), bench.PAGE.read_text()
    assert bench.with_tables(page, bench.committed()) == page
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


def test_published_kernels_are_what_their_receipts_say() -> None:
    bench = load("published_kernels")
    page = bench.PAGE.read_text()
    assert bench.with_table(page, bench.read_receipts()) == page
    assert "kernelbench/level" not in json.dumps(bench.read_receipts()).lower()


def test_bindings_are_made_anew() -> None:
    bench = load("published_kernels")
    cuda = (
        "torch::Tensor run(torch::Tensor x) {\n return x;\n}\n"
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &run, "forward"); }'
    )
    text = bench.wrapped("name", cuda)
    assert "functions=['run']" in text and "PYBIND11_MODULE" not in text
    assert "cpp_sources='torch::Tensor run(torch::Tensor x);'" in text
    compile(text, "solution.py", "exec")
    other = cuda.replace("torch::Tensor run", "at::Tensor run").replace(" {\n", "  // [B, I]\n{\n", 1)
    assert "'at::Tensor run(torch::Tensor x);'" in bench.wrapped("name", other)
    with pytest.raises(SystemExit, match="run is not declared"):
        bench.wrapped("name", cuda.replace("torch::Tensor run", "auto run"))


def test_arguments_come_from_the_task() -> None:
    bench = load("published_kernels")
    config = {
        "single_shared_configs": [{"n": 4}],
        "single_init_configs": [{"eps": 0.5}],
        "single_input_configs": [],
    }
    text = "class Model:\n    def __init__(self, n, eps=0.1): ...\ndef get_inputs(n=1): return [n]"
    names: dict[str, object] = {}
    exec(bench.configured(text, json.dumps(config), {}), names)
    assert names["get_init_inputs"]() == {"n": 4, "eps": 0.5} and names["get_inputs"]() == [4]  # type: ignore[operator]
    exec(bench.configured(text, json.dumps(config), {"n": 2, "other": 3}), names)
    assert names["get_init_inputs"]() == {"n": 2, "eps": 0.5} and names["get_inputs"]() == [2]  # type: ignore[operator]
    assert bench.smaller_told("llama_ffw") and not bench.smaller_told("layernorm")
