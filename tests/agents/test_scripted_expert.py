"""An expert drives three problems through every role on the emulator; its recording is the classroom's."""

from pathlib import Path

import pytest
from scripted_expert import NOTE, PROBLEMS, problem_of, search

from workbench.agents.replay import differences
from workbench.live.recordings import read_recording
from workbench.live.start import choose_brain, optimize

CLASSROOM = Path(__file__).parents[2] / "notebooks" / "recordings" / "softmax.jsonl"


@pytest.mark.slow
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
