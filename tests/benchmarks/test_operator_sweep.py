"""The sweep over PyTorch's operators: a row says what became of a call, in words that hold anywhere."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import operators as sweep
from operator_samples import Operator, Sample, chosen, operators


@pytest.fixture(scope="module")
def named() -> dict[str, Operator]:
    return {operator.name: operator for operator in operators()}


@pytest.mark.many(5)
@pytest.mark.parametrize(
    ("name", "got"),
    [("fmax", "kernel"), ("mm", "library"), ("nonzero", "refused"), ("nn.LeakyReLU", "kernel")],
)
def test_a_row_says_what_became_of_a_call(named: dict[str, Operator], name: str, got: str) -> None:
    (row,) = sweep.rows_of(named[name], torch.float32, 1)
    assert row["got"] == got, row
    assert ("torch.where" in row.get("line", "")) == (got == "refused")
    assert row["call"].startswith(("torch.", "LeakyReLU("))


def test_samples_differ_in_more_than_their_values(named: dict[str, Operator]) -> None:
    samples = chosen(named["sum"], torch.float32, 3)
    assert len(samples) == 3
    assert len({sample.shown for sample in samples}) == 3


def test_what_is_not_made_has_its_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(problem: object) -> object:
        raise KeyError(f"{sweep.ROOT}/here")

    monkeypatch.setattr(sweep, "best_draft", broken)
    row = sweep.row_of(Sample("x0.exp()", (torch.randn(3, 4),), {}))
    assert row["got"] == "crashed"
    assert row["line"].startswith("generating: KeyError: './here'")


def test_a_receipt_is_gone_on_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rows_of(operator: Operator, dtype: torch.dtype, count: int) -> sweep.Rows:
        return [{"op": operator.name, "got": "kernel"}]

    def run(*arguments: str) -> dict[str, str]:
        monkeypatch.setattr(sys, "argv", ["operators.py", "--processes", "1", *arguments])
        assert sweep.main() == 0
        return {
            row["op"]: row["got"] for row in json.loads((tmp_path / "operators.json").read_text())["rows"]
        }

    def few(names: str) -> Callable[[], list[Operator]]:
        return lambda: [Operator(name, lambda dtype: iter(())) for name in names]

    monkeypatch.setenv("WORKBENCH_RECEIPTS", str(tmp_path))
    monkeypatch.setattr(sweep, "rows_of", rows_of)
    monkeypatch.setattr(sweep, "operators", few("ab"))
    assert run() == {"a": "kernel", "b": "kernel"}
    monkeypatch.setattr(sweep, "operators", few("abc"))
    capsys.readouterr()
    assert run("--rest") == {"a": "kernel", "b": "kernel", "c": "kernel"}
    assert capsys.readouterr().out.startswith("c  ")
    monkeypatch.setattr(sys, "argv", ["operators.py", "--processes", "1", "--dtype", "float16"])
    assert sweep.main() == 0
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {"operators.json", "operators-float16.json"}
