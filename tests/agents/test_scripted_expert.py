"""An expert drives three problems through every role on the emulator; its recording is the classroom's."""

from pathlib import Path

import pytest
from scripted_expert import NOTE, PROBLEMS, problem_of, search

from workbench.agents.replay import differences
from workbench.live.recordings import read_recording
from workbench.live.start import choose_brain, optimize

RECORDINGS = Path(__file__).parents[2] / "notebooks" / "recordings"
CLASSROOM = RECORDINGS / "softmax.jsonl"
MEASURED = RECORDINGS / "linear_rowsum_h100.jsonl"


@pytest.mark.many(5)
@pytest.mark.parametrize("name", PROBLEMS)
def test_every_role_has_its_part(tmp_path: Path, name: str) -> None:
    tree = search(name, tmp_path)
    assert {id: (n.operator, n.verdict) for id, n in tree.nodes.items()} == {
        "b1": ("seed", "compile_failed"),
        "b1.1": ("repair", "mismatch"),
        "b1.2": ("repair", "passed"),
        "b2": ("seed", "passed"),
        "b3": ("crossover", "passed"),
    }
    assert set(tree.nodes["b3"].branch.parents) == {"b1.2", "b2"}  # type: ignore[index]
    assert tree.failures == () and not any(e.failed for e in tree.exchanges.values())
    roles = {e.role for e in tree.exchanges.values()}
    assert roles == {"reasoner", "synthesizer", "compiler", "correctness", "reflection"}
    assert {e.prompt for e in tree.exchanges.values()} >= {"crossover-2", "synthesizer-2"}


def test_the_classrooms_recording_says_what_made_it() -> None:
    recording = read_recording(CLASSROOM)
    assert NOTE in recording.opened.problem.notes
    assert recording.opened.brain == "llm:scripted-expert" and recording.opened.device == "emulator"
    assert {e.model for e in recording.tree.exchanges.values()} == {"scripted-expert"}


def test_the_classrooms_recording_grows_again_without_anything(tmp_path: Path) -> None:
    with optimize(None, None, "null", choose_brain("replay", recorded=str(CLASSROOM)), tmp_path) as live:
        live.wait(60)
        assert differences(read_recording(CLASSROOM).tree, live.tree) == ()
        assert live.best is not None and "flaot is no type" in live.conversation("b1.1")


def test_the_recording_is_of_the_experts_problem() -> None:
    assert read_recording(CLASSROOM).opened.problem.graph == problem_of("softmax").graph


def test_the_session_measured_on_an_h100_grows_again_with_its_times(tmp_path: Path) -> None:
    """The null device would judge what is not recorded: none of the times can be its own."""
    recorded = read_recording(MEASURED)
    assert NOTE in recorded.opened.problem.notes and recorded.opened.device == "cuda"
    with optimize(None, None, "null", choose_brain("replay", recorded=str(MEASURED)), tmp_path) as live:
        live.wait(60)
        assert differences(recorded.tree, live.tree) == ()
        best = live.tree.nodes[live.best.id].evaluation if live.best is not None else None
        assert "A term of the reference is missing" in live.conversation("b1.2")
    assert best is not None and "H100" in best.target and len(best.times) == 2
    for time in best.times:
        assert time.source == "measured" and time.measured is not None
        assert {rival.name for rival in time.measured.rivals} == {"eager", "compile"}
        assert time.measured.low_us <= time.time_us <= time.measured.high_us


@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_a_recording_is_small_and_tells_no_ones_folders(path: Path) -> None:
    text = path.read_text()
    assert len(text) < 500_000
    own = str(Path(__file__).resolve().parents[2])
    assert not [word for word in ("/home/", "/root/", "/tmp/", "/Users/", own) if word in text]
