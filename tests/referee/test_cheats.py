"""Every known cheat is caught, every honest-but-tricky kernel passes, the page agrees with the receipt."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest
from cheat_files import CheatFile, all_files, caught_by, read, verdict_of

from workbench.model import H100, Evaluation
from workbench.referee.judge import judge
from workbench.referee.options import JudgeOptions

ROOT = Path(__file__).parents[2]
FILES = {file.label: file for file in all_files()}
AT_ONCE = 2


def judged(file: CheatFile) -> Evaluation:
    return judge(file.problem, file.kernel, H100, JudgeOptions(), lambda stage: None)


@pytest.fixture(scope="module")
def evaluations(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Evaluation]]]:
    """The files that were asked for, two at a time, in the order of the tests."""
    asked = [item.callspec.params["label"] for item in request.session.items if "label" in _params(item)]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        yield {label: threads.submit(judged, FILES[label]) for label in asked if label in FILES}


def _params(item: pytest.Item) -> dict[str, object]:
    return item.callspec.params if hasattr(item, "callspec") else {}


@pytest.mark.parametrize("label", FILES)
def test_verdict(evaluations: dict[str, Future[Evaluation]], label: str) -> None:
    evaluation = evaluations[label].result()
    assert verdict_of(evaluation) in FILES[label].expect, caught_by(evaluation)


def test_the_list_is_covered() -> None:
    """Every number of the list of known cheats that device code can try has a file."""
    numbers = {int(file.number) for file in FILES.values()} - {0}
    host_code_only = {2, 3, 6, 7, 8, 9, 10, 13, 14, 15, 39, 40}
    not_the_kernel_s = {number for number, *_ in suite().ELSEWHERE}
    assert numbers == set(range(1, 41)) - host_code_only - not_the_kernel_s
    assert sum(file.number == "0" for file in FILES.values()) >= 12


def test_what_no_kernel_can_try_has_a_file_of_the_foreign_lane_or_a_test() -> None:
    foreign = ROOT / "tests" / "foreign"
    texts = [path.read_text() for place in ("cheats", "on_gpu") for path in (foreign / place).glob("*.py")]
    brought = {int(found[1]) for text in texts if (found := re.search(r"^number: (\d+)$", text, re.M))}
    native = {int(file.number) for file in FILES.values()} - {0}
    assert native | brought | {number for number, *_ in suite().ELSEWHERE} == set(range(1, 41))
    for _, _, path, test in suite().ELSEWHERE:
        assert f"def {test}(" in (ROOT / path).read_text()


def test_a_header_without_a_verdict_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.cu"
    path.write_text("// number: 1\n// name: n\n// problem: softmax\nint x;\n")
    with pytest.raises(ValueError, match="expect"):
        read(path)


def suite() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cheat_suite", ROOT / "benchmarks" / "cheat_suite.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_says_what_the_receipts_say() -> None:
    module = suite()
    assert module.PAGE.read_text() == module.page(module.committed())


def test_the_receipt_has_every_file_and_nothing_wrong() -> None:
    receipt = json.loads((ROOT / "benchmarks" / "receipts" / "cheats-emulator.json").read_text())
    assert {row["file"] for row in receipt["rows"]} == set(FILES)
    assert suite().wrongs(receipt["rows"]) == ([], [])
    for row in receipt["rows"]:
        assert tuple(row["expected"]) == FILES[row["file"]].expect
        assert row["got"] in row["expected"]


def test_inputs_laid_otherwise_catch_the_one_kernel_that_is_for_them() -> None:
    """The other cheats ask for their layout: else that check would catch them before the one they are for."""
    receipt = json.loads((ROOT / "benchmarks" / "receipts" / "cheats-emulator.json").read_text())
    told = {row["file"] for row in receipt["rows"] if "the plan does not ask how" in row["by"]}
    assert told == {"cheats/row_major_assumed"}
