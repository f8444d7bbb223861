"""``workbench judge`` on a .py file: exit codes, what is printed, what is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import suite
from softmax_problem import PROBLEM as SOFTMAX
from typer.testing import CliRunner

from workbench.cli import app
from workbench.errors import UsageError
from workbench.foreign.judge import judge_solution, place_named
from workbench.foreign.values import ForeignEvaluation, ForeignOptions, ForeignReport, Provenance
from workbench.model import Passed, Problem, Suspect
from workbench.views.foreign_judgement import foreign_lines

PROBLEM = str(suite.HERE / "problems" / "row_softmax.py")


def test_not_passed(tmp_path: Path) -> None:
    out = tmp_path / "verdict.json"
    zeros = str(suite.HERE / "cheats" / "zeros.py")
    result = CliRunner().invoke(app, ["judge", zeros, PROBLEM, "--device", "cpu", "--json", str(out)])
    assert result.exit_code == 1, result.output
    found = json.loads(out.read_text())
    assert (found["label"], found["verdict"], found["times"]) == ("foreign", "mismatch", [])
    assert "sandbox" in result.output and "no time is given" in result.output
    assert "mismatch (foreign, on cpu" in result.output


def test_a_file_without_the_class_is_bad_usage(tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text("import torch\n")
    result = CliRunner().invoke(app, ["judge", str(other), PROBLEM, "--device", "cpu"])
    assert isinstance(result.exception, UsageError) and "has no class ModelNew" in str(result.exception)


def test_a_problem_with_complex_tensors_is_not_for_a_class_of_others() -> None:
    outputs = tuple(spec.model_copy(update={"in_pairs": True}) for spec in SOFTMAX.outputs)
    problem = SOFTMAX.model_copy(update={"outputs": outputs})
    with pytest.raises(UsageError, match=r"has complex tensors, .* torch\.view_as_real of them"):
        judge_solution(problem, "", ForeignOptions())


def test_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(problem: Problem, text: str, options: ForeignOptions) -> ForeignEvaluation:
        report = ForeignReport(outcome=Passed(), calls=1019)
        return ForeignEvaluation(solution="0", problem=problem.name, device=options.device, report=report)

    monkeypatch.setattr("workbench.foreign.judge.judge_solution", judge)
    monkeypatch.setattr("workbench.cli._open", lambda path, name: SOFTMAX)
    plain = str(suite.HERE / "honest" / "plain_torch.py")
    result = CliRunner().invoke(app, ["judge", plain, PROBLEM, "--device", "cpu"])
    assert result.exit_code == 0 and "passed (foreign, on cpu, 1019 calls compared)" in result.output


@pytest.mark.parametrize(
    ("device", "own", "told"), [("cpu", (), True), ("cpu", ("f",), False), ("cuda", (), False)]
)
def test_a_kernel_that_had_no_gpu_is_told(device: str, own: tuple[str, ...], told: bool) -> None:
    seen = Provenance(claims=("load_inline",), own_calls=own)
    report = ForeignReport(outcome=Suspect(message="none of its own code ran"), calls=1, provenance=seen)
    text = "\n".join(
        foreign_lines(ForeignEvaluation(solution="0", problem="p", device=device, report=report))
    )
    assert ("without a GPU no kernel of it can run" in text) is told


@pytest.mark.parametrize(
    ("device", "told"), [("emulator", "runs on cpu or cuda"), ("tpu", "runs on cpu or cuda")]
)
def test_wrong_devices(device: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        place_named(device)


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")
def test_no_gpu() -> None:
    assert place_named("auto") == "cpu"
    with pytest.raises(UsageError, match="--device cpu"):
        place_named("cuda")


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    wanted = [e for e in suite.entries(("cheats", "honest", "on_gpu")) if not e.cpu_only]
    for found in suite.judged(wanted, suite.problems(wanted), "cuda"):
        assert found.as_it_must, f"{found.entry.name}: {found.evaluation.report.outcome}"
