"""A session on its own thread: it runs, is steered while it runs, and says what went wrong."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import doubles
import pytest
import torch

from workbench.devices.base import Device
from workbench.devices.null import NullDevice
from workbench.errors import ProblemError, SessionError, UsageError
from workbench.live import LiveSession, capture, look, optimize, resume
from workbench.live.apply import announce
from workbench.live.parts import Beginning
from workbench.live.start import fresh_folder
from workbench.model import BranchId
from workbench.policy import Policy
from workbench.problem.capture import read_cell
from workbench.session import Session, opening, read_tree
from workbench.tree import Tree

LIMIT_S = 300.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "session"


def start(folder: Path, device: Device | None = None, **policy: object) -> LiveSession:
    chosen = Policy.model_validate({"rounds": 2, "branches": 8, **policy})
    return optimize(doubles.problem(), chosen, device or NullDevice(), doubles.team(), folder)


@pytest.fixture
def held(folder: Path) -> Iterator[tuple[LiveSession, doubles.HeldDevice]]:
    """A session whose first kernels are being judged until the gate is set."""
    device = doubles.HeldDevice()
    with start(folder, device, rounds=1) as live:
        assert device.judging.wait(LIMIT_S)
        yield live, device
        device.gate.set()


def test_runs_to_the_end_and_names_the_best(folder: Path) -> None:
    with start(folder) as live:
        assert live.wait(LIMIT_S)
        assert live.tree.gate == "stopped"
        assert live.best is not None
        assert live.best.source.startswith("// null: passed")
        assert live.best.score == max(node.score for node in live.tree.nodes.values())
        assert live.best.score_source == "model"
        assert live.best.id in live.to_html()
        page = live.to_html(folder.parent / "page.html")
        assert page == (folder.parent / "page.html").read_text(encoding="utf-8")
        assert len(repr(page)) < 200 and "page.html" in repr(page)
        assert live.to_frame().index.tolist()[0] == "b1"


def test_can_be_awaited(folder: Path) -> None:
    async def main() -> LiveSession:
        return await start(folder)

    with asyncio.run(main()) as live:
        assert live.tree.gate == "stopped"


def test_wait_is_over_when_its_time_is(held: tuple[LiveSession, doubles.HeldDevice]) -> None:
    live, _ = held
    assert live.wait(0.01) is False


def test_every_action_works_while_kernels_are_judged(held: tuple[LiveSession, doubles.HeldDevice]) -> None:
    live, device = held
    live.approve("b1")
    live.prune("b2")
    live.hint("use shared memory")
    edit = live.edit("b1", "// null: passed 1.5\n// mine")
    assert live.tree.nodes[edit].evaluation is None
    device.gate.set()
    assert live.wait(LIMIT_S)
    assert live.tree.node(edit).passed
    assert live.best is not None and live.best.id == edit
    assert live.tree.node("b2").pruned
    assert [hint.text for hint in live.tree.hints] == ["use shared memory"]


def test_an_unknown_branch_is_told_with_the_known_ones(held: tuple[LiveSession, doubles.HeldDevice]) -> None:
    live, _ = held
    for act in (live.approve, live.prune, lambda branch: live.edit(branch, "// mine")):
        with pytest.raises(SessionError, match=r"^there is no branch 'b77'; the tree has b1, b2"):
            act("b77")


def test_undo_takes_back_what_still_stands(held: tuple[LiveSession, doubles.HeldDevice]) -> None:
    live, _ = held
    live.approve("b1")
    live.prune("b2")
    live.approve("b3")
    live.approve("b3", undo=True)
    assert live.undo() == "Taken back: pruned b2."
    assert live.undo() == "Taken back: approved b1."
    assert live.undo() == "There is nothing to undo."
    assert not any(node.approved or node.pruned for node in live.tree.nodes.values())


def test_more_rounds_after_the_end(folder: Path) -> None:
    with start(folder, rounds=1) as live:
        live.wait(LIMIT_S)
        before = live.tree.round
        live.next_round()
        live.wait(LIMIT_S)
        assert live.tree.round == before + 1


def test_a_budget_that_is_used_says_so_and_can_grow(folder: Path) -> None:
    with start(folder, rounds=1, branches=3) as live:
        live.wait(LIMIT_S)
        with pytest.raises(
            SessionError, match=r"budget of 3 branches is used.*session.next_round\(branches=8\)"
        ):
            live.next_round()
        live.next_round(branches=2)
        live.wait(LIMIT_S)
        assert (live.tree.round, len(live.tree.nodes)) == (2, 5)
        assert live.tree.stopped is not None
        tree = live.tree
    assert read_tree(folder).more_branches == tree.more_branches == 2


def test_room_that_was_asked_for_can_be_given_back(folder: Path) -> None:
    with start(folder, rounds=1, branches=3, review="manual") as live:
        live.wait(LIMIT_S)
        live.review_cards()
        live.stop()
        live.next_round(2, branches=4)
        assert live.tree.more_branches == 4
        words = live.undo()
        assert words == "Taken back: asked for 2 more rounds and 4 more branches."
        assert live.tree.more_branches == 0


@pytest.mark.parametrize("asked", [(0,), (-3,), ("two",), (1, -1), (1.5,), (True,)])
def test_rounds_are_counted(folder: Path, asked: tuple[Any, ...]) -> None:
    with start(folder) as live, pytest.raises(SessionError, match="how many rounds"):
        live.next_round(*asked)


def test_several_branches_are_pruned_and_approved_at_once(folder: Path) -> None:
    with start(folder, rounds=1) as live:
        live.wait(LIMIT_S)
        live.prune("b1", "b2")
        live.approve("b3", "b3")
        nodes = live.tree.nodes
        assert [id for id, node in nodes.items() if node.pruned] == ["b1", "b2"]
        with pytest.raises(SessionError, match="b77"):
            live.prune("b3", "b77")
        assert not live.tree.nodes[BranchId("b3")].pruned
        assert [live.undo() for _ in range(4)] == [
            "Taken back: approved b3.",
            "Taken back: pruned b2.",
            "Taken back: pruned b1.",
            "There is nothing to undo.",
        ]


def test_one_operator_may_be_given_by_its_name_alone(folder: Path) -> None:
    with start(folder, rounds=0) as live:
        live.shape("rewrite", width=2)
        assert live.tree.shape is not None and live.tree.shape.operators == ("rewrite",)
        with pytest.raises(SessionError, match="no operator 'rewriting'; there are refine"):
            live.shape("rewriting")


def test_a_manual_review_asks_after_each_round(folder: Path) -> None:
    with start(folder, review="manual") as live:
        assert live.wait(LIMIT_S)
        assert live.tree.gate == "asking"
        live.next_round()
        assert live.wait(LIMIT_S)
        assert (live.tree.round, live.tree.gate) == (2, "asking")
        live.stop()
        assert live.wait(LIMIT_S)
        assert live.tree.stopped is not None and live.tree.stopped.by == "person"


def test_stop_ends_the_search_and_keeps_what_was_judged(
    held: tuple[LiveSession, doubles.HeldDevice],
) -> None:
    live, device = held
    live.stop()
    device.gate.set()
    assert live.wait(LIMIT_S)
    assert live.tree.round == 1
    assert live.tree.stopped is not None


def test_an_edit_after_the_end_is_waited_for(held: tuple[LiveSession, doubles.HeldDevice]) -> None:
    live, device = held
    device.gate.set()
    assert live.wait(LIMIT_S)
    device.gate.clear()
    edit = live.edit(None, "// null: passed 3\n// late")
    assert live.wait(0.05) is False
    device.gate.set()
    assert live.wait(LIMIT_S)
    assert live.tree.node(edit).passed


def test_a_broken_machine_is_told_not_hidden(folder: Path) -> None:
    with start(folder, doubles.BrokenDevice()) as live:
        assert live.wait(LIMIT_S)
        assert "on fire" in live.state


def test_a_full_disk_is_raised_where_the_person_waits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    device = doubles.HeldDevice()
    live = start(folder, device)
    live.at_failure(told.append)
    assert device.judging.wait(LIMIT_S)

    def full(*_: object, **__: object) -> None:
        raise SessionError(f"cannot write the journal: {errno.errorcode[errno.ENOSPC]}")

    monkeypatch.setattr("workbench.session.journal.Journal.append", full)
    device.gate.set()
    with pytest.raises(SessionError, match="ENOSPC"):
        live.wait(LIMIT_S)
    assert told and "ENOSPC" in told[0]
    assert "failed" in live.state
    monkeypatch.undo()
    with pytest.raises(SessionError, match="closed; resume it"):  # nobody would hear it
        live.hint("keep the row in registers")
    Session.resume(folder).close()  # as its message asks for
    names: dict[str, Any] = {}
    announce(live, names)  # the cell's function has nothing to do with the disk
    assert torch.equal(names["double"](torch.ones(2)), torch.full((2,), 2.0))
    live.close()


def test_an_unknown_branch_is_refused(held: tuple[LiveSession, doubles.HeldDevice]) -> None:
    live, _ = held
    with pytest.raises(SessionError, match="b99"):
        live.approve("b99")


def test_a_closed_session_can_be_resumed_elsewhere(folder: Path) -> None:
    with start(folder) as live:
        live.wait(LIMIT_S)
        tree = live.tree
    assert read_tree(folder).nodes == tree.nodes
    with Session.resume(folder) as session:
        assert session.tree.nodes == tree.nodes
    with pytest.raises(SessionError):
        live.approve("b1")


def test_resuming_needs_the_brain_that_was_there(folder: Path) -> None:
    start(folder).close()
    with pytest.raises(UsageError, match="scripted"):
        resume(folder)
    Session.resume(folder).close()  # the failed attempt has let go of the folder


def test_a_session_stays_where_it_was_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with start(Path("mine")) as live:
        live.wait(LIMIT_S)
        monkeypatch.chdir(tmp_path / "elsewhere")
        branch = live.edit(None, "// null: passed 1")
        live.wait(LIMIT_S)
        assert (tmp_path / "mine" / "branches" / f"{branch}.cu").is_file()
        assert (live.export("out") / "journal.jsonl").is_file()
        assert live.to_html("new/page.html").path == Path("new/page.html")
    shown = look("../mine")
    monkeypatch.chdir(tmp_path)
    assert branch in shown.to_html()
    assert sorted(path.name for path in (tmp_path / "elsewhere").iterdir()) == ["new", "out"]


def test_a_long_name_gets_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for letter in "aü𝒳":
        fresh_folder(300 * letter).mkdir(parents=True)


def test_a_page_that_cannot_be_written_is_told_in_a_line(folder: Path) -> None:
    with start(folder) as live, pytest.raises(SessionError, match="cannot write"):
        live.to_html(folder / "journal.jsonl" / "page.html")


def test_a_folder_is_not_given_the_name_of_a_file(folder: Path, tmp_path: Path) -> None:
    with start(folder) as live:
        live.wait(LIMIT_S)
        with pytest.raises(UsageError, match=r"writes a folder.*'kernelbench'"):
            live.export(tmp_path / "kernel.py")
    assert not (tmp_path / "kernel.py").exists()


def test_export_holds_kernel_reference_journal_and_report(folder: Path, tmp_path: Path) -> None:
    with start(folder) as live:
        live.wait(LIMIT_S)
        where = live.export(tmp_path / "out")
        assert live.best is not None
        assert (where / "double.cu").read_text() == live.best.source
    assert sorted(path.name for path in where.iterdir()) == [
        "double.cu",
        "journal.jsonl",
        "reference.py",
        "report.html",
    ]


def test_nothing_to_export_before_the_first_correct_kernel(
    held: tuple[LiveSession, doubles.HeldDevice], tmp_path: Path
) -> None:
    with pytest.raises(SessionError, match="no correct kernel"):
        held[0].export(tmp_path / "out")


def test_unknown_words_meet_the_nearest_known(folder: Path) -> None:
    with pytest.raises(UsageError, match="'playbook'"):
        optimize(doubles.problem(), brain="playbok", folder=folder)
    with pytest.raises(UsageError, match="'emulator'"):
        optimize(doubles.problem(), device="emulater", brain=doubles.team(), folder=folder)


def test_a_capture_is_opened_in_the_background(folder: Path) -> None:
    cell = "import torch\ndef twice(x):\n    return x * 2\ninputs = [torch.randn(2, 3)]\n"
    notes: list[str] = []
    with optimize(read_cell(cell), Policy(rounds=1), NullDevice(), doubles.team(), folder) as live:
        live.at_note(notes.append)
        assert live.name == "twice"
        assert live.tree.gate in ("closed", "working")
        assert live.opened(120)
        assert live.wait(LIMIT_S)
        assert live.best is not None
    assert notes


def test_what_opening_finds_wrong_is_told_and_raised(folder: Path) -> None:
    cell = "import torch\ndef f(x):\n    return x @ x\ninputs = [torch.randn(2, 3)]\n"
    told: list[str] = []
    live = optimize(read_cell(cell), None, NullDevice(), doubles.team(), folder)
    live.at_failure(told.append)
    with pytest.raises(ProblemError, match="line 3"):
        live.opened(120)
    with pytest.raises(ProblemError):
        live.wait(1)
    with pytest.raises(SessionError, match="not open"):
        live.hint("too early")
    assert live.best is None
    assert "line 3" in live.state
    live.at_failure(told.append)
    assert len(told) == 2 and told[0] == told[1]
    live.close()
    assert not folder.exists()


def test_a_failure_of_ours_is_told_with_its_kind(folder: Path) -> None:
    def begin(_: object) -> Session:
        raise KeyError("softmax")

    live = LiveSession(Beginning("bare", folder, begin), doubles.team(), NullDevice())
    with pytest.raises(KeyError):
        live.opened(LIMIT_S)
    told: list[str] = []
    live.at_failure(told.append)
    assert told == ["KeyError: 'softmax'"] and live.state == f"failed: {told[0]}"
    live.close()


def test_closing_while_the_cell_is_read_waits_for_nothing(folder: Path) -> None:
    begun = threading.Event()

    def begin(_: object) -> Session:
        begun.wait(LIMIT_S)
        return Session.create(folder, opening(doubles.problem(), Policy(), NullDevice(), "scripted"))

    live = LiveSession(Beginning("late", folder, begin), doubles.team(), NullDevice())
    live.close()
    begun.set()
    live._thread.join(LIMIT_S)
    Session.resume(folder).close()  # let go of


def test_a_listener_that_raises_is_dropped_and_recorded(
    held: tuple[LiveSession, doubles.HeldDevice],
) -> None:
    live, device = held
    calls: list[int] = []

    def listener(tree: Tree) -> None:
        calls.append(1)
        if len(calls) > 1:
            raise ValueError("a view's fault")

    live.subscribe(listener)
    device.gate.set()
    assert live.wait(LIMIT_S)
    assert len(calls) == 2
    assert any("a view's fault" in failure.message for failure in live.tree.failures)


def test_a_callable_is_captured_with_its_inputs() -> None:
    def twice(x: float) -> float:
        return x * 2

    made = capture(twice, 3.0)
    assert made.name == "twice"
    assert made.kind == "pickled"
