"""What is kept of a session, what is recalled for the next, and what a damaged disk does to it."""

import asyncio
import math
import warnings
from pathlib import Path

import pytest
import torch

from tests.playbook.problems import problem_of
from workbench.agents.base import ReasonRequest
from workbench.agents.playbook import playbook_team
from workbench.archive import Archive, Conclusion, archive_folder, recall, remembering, sentences
from workbench.archive.store import MOST_CONCLUSIONS
from workbench.devices import null
from workbench.devices.null import NullDevice
from workbench.live.start import with_memory
from workbench.model import H100, Problem, Vector
from workbench.orchestrator import run
from workbench.playbook.rules.family import family_of
from workbench.policy import Policy
from workbench.session import Session, opening
from workbench.tree import Tree

BEST: Vector = (("row_cache", "registers"), ("vector_width", "4"))


def softmax(rows: int, columns: int, name: str = "softmax") -> Problem:
    x = torch.empty(rows, columns, device="meta")
    return problem_of(lambda t: torch.softmax(t["x"], 1), {"x": x}, name)


def conclusion(number: int = 0, **changes: object) -> Conclusion:
    plain = {
        "problem": "softmax",
        "structure": "abc",
        "sizes": (("rows", 4096 + number), ("cols", 4096)),
        "vector": BEST,
        "operator": "refine",
        "technique": "row_cache",
        "value": "registers",
        "predicted": 1.5,
        "found": 1.2,
        "score": 1.1,
        "source": "measured",
        "day": "2026-11-21",
    }
    return Conclusion.model_validate({**plain, **changes})


def test_a_family_ignores_sizes_and_names_and_knows_dtypes_and_structure() -> None:
    one, other = family_of(softmax(4096, 4096)), family_of(softmax(64, 100, "mine"))
    assert one == other
    assert one.name == "3 passes over rows (max, sum), float32"
    half = problem_of(
        lambda t: torch.softmax(t["x"], 1),
        {"x": torch.empty(8, 64, device="meta", dtype=torch.float16)},
    )
    assert family_of(half).name.endswith("float16")
    assert family_of(half).structure != one.structure


def test_conclusions_survive_are_bounded_and_replace_older_ones(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "deep" / "archive")
    archive.add("cuda, H100", "rows", [conclusion(n) for n in range(MOST_CONCLUSIONS + 20)])
    archive.add("cuda, H100", "rows", [conclusion(50, score=9.0)])
    kept = Archive(archive.folder).read("cuda, H100", "rows")
    assert len(kept) == MOST_CONCLUSIONS
    assert kept[-1].score == 9.0
    assert sum(one.sizes == conclusion(50).sizes for one in kept) == 1
    assert not archive.read("emulator, H100", "rows")
    assert archive.clear() == 1 and not archive.shelves()


@pytest.mark.parametrize(
    "text", ["", "{", '{"version": 1}\n', "\x00\xff", '{"version":1,"device":"d","family":"f"}\n{"a":1}']
)
def test_a_damaged_file_is_ignored_with_one_warning(tmp_path: Path, text: str) -> None:
    archive = Archive(tmp_path)
    archive.add("d", "f", [conclusion()])
    next(tmp_path.glob("*.jsonl")).write_text(text, encoding="latin-1")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert archive.read("d", "f") == archive.read("d", "f") == ()
    assert len(caught) == 1 and "archive --clear" in str(caught[0].message)
    archive.add("d", "f", [conclusion()])
    assert len(Archive(tmp_path).read("d", "f")) == 1


def test_another_version_is_left_alone_and_a_full_disk_is_no_error(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.add("d", "f", [conclusion()])
    path = next(tmp_path.glob("*.jsonl"))
    path.write_text(path.read_text().replace('"version":1', '"version":99'))
    assert archive.read("d", "f") == ()
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="cannot be kept"):
        Archive(tmp_path / "file" / "below").add("d", "f", [conclusion()])


def test_the_most_alike_comes_first_and_factors_are_joined() -> None:
    near, far = conclusion(score=1.0), conclusion(0, sizes=(("rows", 1), ("cols", 8)), score=5.0, vector=())
    kin = conclusion(structure="other", score=9.0, vector=(("vector_width", "2"),), found=None)
    memory = recall([far, kin, near], "abc", {"rows": 4000, "cols": 4096})
    assert [past.score for past in memory.best] == [1.0, 5.0, 9.0]
    assert memory.techniques[0].times == 2
    assert math.isclose(memory.techniques[0].found, 1.2)
    told = sentences(memory)
    assert told[0].startswith("best for softmax at 4096x4096: row_cache=registers vector_width=4; 1.00x")
    assert "row_cache=registers: 1.20x found, 1.50x predicted (2 times)" in told


@pytest.fixture(autouse=True)
def registers_are_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """The null device takes kernels that keep a row in registers for twice as fast."""
    monkeypatch.setattr(null, "_said", lambda source: ("passed", 40.0 if "KEPT" in source else 80.0))


def searched(folder: Path, archive: Archive, policy: Policy) -> Tree:
    problem = softmax(4096, 4096)
    device = NullDevice()
    team = remembering(playbook_team(), archive)
    with Session.create(folder, opening(problem, policy, device, team.name)) as session:
        asyncio.run(run(session, team, device))
        return session.tree


def test_a_second_session_begins_with_the_best_of_the_first_and_says_so(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive")
    first = searched(tmp_path / "one", archive, Policy(rounds=2))
    winner = first.best()
    assert winner is not None
    best = first.nodes[winner].vector
    second = searched(tmp_path / "two", archive, Policy(rounds=1))
    seeds = [node for node in second.nodes.values() if node.operator == "seed"]
    assert best in [node.vector for node in seeds]
    told = [fact for node in seeds for fact in node.branch.hypothesis.evidence]
    assert any(fact.startswith("seen before: ") for fact in told)
    assert not any("seen before" in str(node.branch.hypothesis) for node in first.nodes.values())


def test_a_model_is_told_conclusions_and_moves_say_what_was_found(tmp_path: Path) -> None:
    problem = softmax(4096, 4096)
    archive = Archive(tmp_path)
    device = NullDevice()
    family = family_of(problem)
    one = conclusion(
        technique="vector_width", value="4", predicted=1.0, found=2.0, structure=family.structure
    )
    archive.add(f"{device.name}, {device.target.name}", family.name, [one])
    team = remembering(playbook_team(), archive)
    with Session.create(tmp_path / "s", opening(problem, Policy(), device, team.name)) as session:
        team.connect(session)
        heard: list[ReasonRequest] = []

        class Listening:
            async def hypothesize(self, request: ReasonRequest) -> tuple[()]:
                heard.append(request)
                return ()

        object.__setattr__(team.reasoner, "inner", Listening())
        request = ReasonRequest(problem=problem, target=H100, operator="seed", parents=(), count=3)
        asyncio.run(team.reasoner.hypothesize(request))
    assert heard[0].conclusions == sentences(heard[0].memory)
    assert any("vector_width=4: 2.00x found" in line for line in heard[0].conclusions)


def test_it_can_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    team = playbook_team()
    assert archive_folder() is None and with_memory(team, Policy()) is team
    monkeypatch.setenv("WORKBENCH_ARCHIVE", str(tmp_path))
    assert with_memory(team, Policy(archive=False)) is team
    assert with_memory(team, Policy()) is not team
    monkeypatch.delenv("WORKBENCH_ARCHIVE")
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    assert archive_folder() == tmp_path / "archive"
