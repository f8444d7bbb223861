"""Recordings grow again: the identical tree, with no network, no GPU and no device; and where they do not."""

import asyncio
from pathlib import Path

import pytest
from expert import expert
from model_server import ModelServer, Turn
from softmax_problem import PROBLEM
from test_llm_team import QUICK, search
from toy import opened

from workbench.agents.casting import cast_team
from workbench.agents.llm.settings import Choice
from workbench.agents.playbook import playbook_team
from workbench.agents.replay import Recording, differences, replay_team
from workbench.agents.scripted import Script, scripted_team
from workbench.devices.null import NullDevice
from workbench.devices.recorded import RecordedDevice
from workbench.errors import UsageError
from workbench.events import BranchApproved, Event, HintGiven, RoundsRequested, SearchStopped
from workbench.live.recordings import check_same, read_recording, replay_words
from workbench.live.start import choose_brain, optimize
from workbench.model import BranchId, Kernel
from workbench.orchestrator import run
from workbench.session import Session, read_tree
from workbench.session.journal import read_journal
from workbench.tree import Tree


def replayed(recorded: Path, folder: Path, *meanwhile: Event) -> Tree:
    """The tree of a replay; there is no device for what is not recorded."""
    recording = read_recording(recorded)
    first = recording.opened
    device = RecordedDevice(first.device, first.target, recording.evaluations)
    with Session.create(folder, first.model_copy(update={"brain": "replay:x"})) as session:
        session.post(*meanwhile)
        asyncio.run(run(session, replay_team(recording, "x"), device))
        return session.tree


def test_a_session_with_models_grows_again(tmp_path: Path) -> None:
    kernels = (f"// null: {'mismatch' if n % 4 == 1 else 'passed'} {90 - n}" for n in range(40))
    repairs = (f"// null: {'passed' if n % 2 else 'compile_failed'} {60 - n}" for n in range(40))
    with ModelServer(expert(kernels, repairs)) as server:
        recorded = search(tmp_path / "recorded", server)
    tree = replayed(tmp_path / "recorded", tmp_path / "replayed")
    assert differences(recorded, tree) == ()
    assert len(tree.nodes) > 12 and any(n.operator == "repair" for n in tree.nodes.values())
    assert tree.stopped == recorded.stopped and tree.failures == recorded.failures
    assert set(tree.exchanges) == set(recorded.exchanges) and tree.spent.calls == 0


@pytest.mark.slow
def test_the_playbooks_session_grows_again(tmp_path: Path) -> None:
    """A null device fails its kernels, so that repairs and their end are replayed as well."""
    first = opened(rounds=2).model_copy(update={"problem": PROBLEM, "brain": "playbook"})
    with Session.create(tmp_path / "recorded", first) as session:
        asyncio.run(run(session, playbook_team(), NullDevice()))
        recorded = session.tree
    assert differences(recorded, replayed(tmp_path / "recorded", tmp_path / "replayed")) == ()


def test_a_session_of_failures_grows_again(tmp_path: Path) -> None:
    with ModelServer(lambda body: Turn(status=401)) as server:
        recorded = search(tmp_path / "recorded", server)
    tree = replayed(tmp_path / "recorded", tmp_path / "replayed")
    assert tree.failures == recorded.failures and tree.stopped == recorded.stopped


def steered(folder: Path) -> Tree:
    """A session in which a person gives a hint, approves, edits, stops early and asks for more."""
    script = Script(kernels=tuple(f"// null: passed {90 - 3 * i}" for i in range(30)))
    with Session.create(folder, opened(rounds=1)) as session:
        team = scripted_team(script)
        asyncio.run(run(session, team, NullDevice()))
        session.edit(BranchId("b1"), "// null: passed 11")
        session.post(
            HintGiven(text="vector loads", by="person"), BranchApproved(branch=BranchId("b1"), by="person")
        )
        session.post(RoundsRequested(rounds=2, by="person"))
        asyncio.run(run(session, team, NullDevice()))
        return session.tree


def test_what_the_person_did_is_part_of_the_recording(tmp_path: Path) -> None:
    recorded = steered(tmp_path / "recorded")
    tree = replayed(tmp_path / "recorded", tmp_path / "replayed")
    assert tree.round == 3 and "e1" in tree.nodes and [h.text for h in tree.hints] == ["vector loads"]
    assert differences(recorded, tree) == ()


def test_a_recording_that_was_cut_off_ends_where_it_did(tmp_path: Path) -> None:
    steered(tmp_path / "whole")
    events = read_journal(tmp_path / "whole" / "journal.jsonl")[0]
    cut = next(i for i, e in enumerate(events) if getattr(e, "round", 0) == 2)
    with Session.create(tmp_path / "cut", events[0]) as session:  # type: ignore[arg-type]
        session.post(*events[1 : cut + 1], SearchStopped(reason="the lights went out"))
    tree = replayed(tmp_path / "cut", tmp_path / "replayed")
    assert tree.stopped is not None and tree.stopped.reason == "the lights went out"
    assert differences(read_tree(tmp_path / "cut"), tree) == ()


def test_a_replay_that_leaves_the_recording_says_where(tmp_path: Path) -> None:
    script = Script(kernels=tuple(f"// null: passed {90 - 3 * i}" for i in range(30)))
    with Session.create(tmp_path / "recorded", opened(rounds=2, parents=1)) as session:
        asyncio.run(run(session, scripted_team(script), NullDevice()))
        recorded = session.tree
    recording = read_recording(tmp_path / "recorded")
    device = RecordedDevice("null", recording.opened.target, recording.evaluations)

    async def both(session: Session) -> None:
        def approve(tree: Tree) -> None:
            if tree.round == 1 and not tree.round_open and not tree.nodes[BranchId("b1")].approved:
                session.post(BranchApproved(branch=BranchId("b1"), by="person"))

        session.subscribe(approve)
        await run(session, replay_team(recording, "x"), device)

    with Session.create(tmp_path / "replayed", recording.opened) as session:
        asyncio.run(both(session))
        tree = session.tree
    (failure, *_) = tree.failures
    assert failure.message.startswith("the replay leaves the recording here: round 2 had no ")
    assert differences(recorded, tree)[0] == "b4: missing in the replay"


def test_from_python_and_in_words(tmp_path: Path) -> None:
    with ModelServer(expert()) as server:
        team = cast_team("llm:m", Choice(base_url=server.url, patience=QUICK))
        with optimize(PROBLEM, opened(rounds=1).policy, "null", team, tmp_path / "recorded") as live:
            live.wait(60)
    brain = choose_brain("replay", recorded=str(tmp_path / "recorded"))
    with optimize(None, None, "auto", brain, tmp_path / "replayed") as live:
        live.wait(60)
        assert live.replayed() == ("replay: the recorded tree, 3 branches in 1 round",)
        assert "idea 1" in live.conversation("b1")
        changed = live.tree
    assert replay_words(Tree(opened=changed.opened))[1] == "  b1: missing in the replay"


def test_a_recording_of_another_problem_is_refused(tmp_path: Path) -> None:
    steered(tmp_path)
    with pytest.raises(UsageError, match=r"the recording is of relu \(8\); softmax has other arguments"):
        check_same(read_recording(tmp_path), PROBLEM)
    with pytest.raises(UsageError, match="there is no recording at"):
        read_recording(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="Add --from"):
        choose_brain("replay")


def test_a_kernel_that_is_new_is_judged_elsewhere(tmp_path: Path) -> None:
    steered(tmp_path)
    recording = Recording.of(read_journal(tmp_path / "journal.jsonl")[0])
    device = RecordedDevice("null", NullDevice().target, recording.evaluations, NullDevice)
    new = Kernel(source="// null: passed 3")
    evaluation = asyncio.run(device.evaluate(PROBLEM, new, lambda stage: None))
    assert evaluation.passed
