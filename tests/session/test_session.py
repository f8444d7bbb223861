import errno
import os
import threading
from pathlib import Path

import pytest
from toy import PROBLEM, ToyDevice, judged, opened, proposed, written

from workbench.errors import SessionError
from workbench.events import BranchApproved, HintGiven, RoundStarted, StageEntered
from workbench.model import BranchId, Problem
from workbench.policy import Policy
from workbench.session import Session, has_session, opening, read_tree
from workbench.tree import Tree


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "softmax"


def test_opening_says_what_the_session_is_made_of() -> None:
    first = opening(PROBLEM, Policy(rounds=5), ToyDevice(), "playbook")
    assert (first.problem, first.policy.rounds, first.device, first.brain) == (PROBLEM, 5, "null", "playbook")


def test_a_session_is_what_its_journal_says(folder: Path) -> None:
    with Session.create(folder, opened(rounds=5)) as session:
        session.post(proposed("b1"), written("b1", "// us 50"))
        session.post(judged("b1", "// us 50"))
        tree = session.tree
        assert (session.problem, session.policy.rounds) == (PROBLEM, 5)
    assert read_tree(folder) == tree
    with Session.resume(folder) as session:
        assert session.tree == tree
    assert has_session(folder)


def test_kernels_and_problem_are_files_and_come_back_when_lost(folder: Path) -> None:
    with Session.create(folder, opened()) as session:
        session.post(proposed("b1"), written("b1", "// us 50 ✓"))
    kernel = folder / "branches" / "b1.cu"
    assert kernel.read_text() == "// us 50 ✓"
    assert Problem.model_validate_json((folder / "problem.json").read_text()) == PROBLEM
    kernel.unlink()
    (folder / "problem.json").unlink()
    Session.resume(folder).close()
    assert kernel.read_text() == "// us 50 ✓"
    assert (folder / "problem.json").is_file()
    assert sorted(p.name for p in folder.iterdir()) == ["branches", "journal.jsonl", "lock", "problem.json"]


def test_a_folder_holds_one_session(folder: Path) -> None:
    Session.create(folder, opened()).close()
    with pytest.raises(SessionError, match="already holds a session; resume it"):
        Session.create(folder, opened())
    Session.resume(folder).close()  # the refusal let go of the lock


def test_two_sessions_on_one_folder(folder: Path) -> None:
    with Session.create(folder, opened()):
        for again in (lambda: Session.resume(folder), lambda: Session.create(folder, opened())):
            with pytest.raises(SessionError, match="is already open in this process"):
                again()


def test_nothing_to_resume(folder: Path) -> None:
    with pytest.raises(SessionError, match=r"there is no session in .*softmax"):
        Session.resume(folder)
    assert not folder.exists()
    folder.mkdir()
    (folder / "journal.jsonl").write_text('{"kind":"session_op')
    with pytest.raises(SessionError, match="no session was recorded"):
        Session.resume(folder)
    Session.create(folder, opened()).close()  # nothing was in it to lose


def test_a_damaged_journal_names_the_line(folder: Path) -> None:
    with Session.create(folder, opened()) as session:
        session.post(proposed("b1"))
        session.post(written("b1", "x"))
    journal = folder / "journal.jsonl"
    lines = journal.read_text().splitlines()
    journal.write_text("\n".join([lines[0], lines[2]]) + "\n")
    with pytest.raises(SessionError, match=r"journal\.jsonl, line 2: kernel_written names branch 'b1'"):
        Session.resume(folder)


def test_an_event_that_does_not_fit_is_refused_and_not_recorded(folder: Path) -> None:
    with Session.create(folder, opened()) as session:
        tree = session.tree
        with pytest.raises(SessionError, match="branch_approved names branch 'b9'"):
            session.post(proposed("b1"), BranchApproved(branch=BranchId("b9"), by="person"))
        assert session.tree == tree
    assert read_tree(folder) == tree


def test_a_full_disk_keeps_the_last_recorded_state(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    seen: list[Tree] = []
    with Session.create(folder, opened()) as session:
        session.post(proposed("b1"))
        session.subscribe(seen.append)
        before = session.tree
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            with pytest.raises(SessionError, match=r"cannot write .*the disk is full") as caught:
                session.post(written("b1", "// us 50"))
        assert len(str(caught.value).splitlines()) == 1
        assert session.tree is before
        assert seen == [before]  # nothing was shown that is not on disk
        assert read_tree(folder) == before
        session.post(written("b1", "// us 50"))
        after = session.tree
    assert read_tree(folder) == after


def test_a_folder_that_cannot_be_made_holds_nothing_to_resume(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        SessionError, match=r"cannot begin in .*Not a directory\. Choose another folder"
    ) as told:
        Session.create(tmp_path / "file", opened())
    assert "resume" not in str(told.value)


def test_a_closed_session_takes_nothing(folder: Path) -> None:
    session = Session.create(folder, opened())
    session.close()
    session.close()
    with pytest.raises(SessionError, match="is closed"):
        session.post(RoundStarted(round=1))


# ------------------------------------------------------------------------------ listeners


def test_listeners_see_every_tree_in_order(folder: Path) -> None:
    seen: list[int] = []
    with Session.create(folder, opened()) as session:
        unsubscribe = session.subscribe(lambda tree: seen.append(len(tree.nodes)))
        session.post(proposed("b1"), proposed("b2"))
        session.post(proposed("b3"))
        unsubscribe()
        unsubscribe()
        session.post(proposed("b4"))
    assert seen == [0, 2, 3]


def test_a_listener_that_fails_is_dropped_and_recorded(folder: Path) -> None:
    calls: list[Tree] = []

    def fail(tree: Tree) -> None:
        calls.append(tree)
        raise ValueError("no canvas")

    with Session.create(folder, opened()) as session:
        session.subscribe(fail)
        session.post(RoundStarted(round=1))
        assert len(calls) == 1
        assert [(f.role, f.message) for f in session.tree.failures] == [("view", "ValueError: no canvas")]


def test_post_and_edit_from_many_threads(folder: Path) -> None:
    with Session.create(folder, opened()) as session:
        session.post(proposed("b1"))

        def click(number: int) -> None:
            for _ in range(5):
                session.post(HintGiven(text=str(number), by="person"))
                session.edit(BranchId("b1"), f"// us {number}")

        threads = [threading.Thread(target=click, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        tree = session.tree
    assert len(tree.hints) == 20
    assert sum(n.operator == "edit" for n in tree.nodes.values()) == 20
    assert read_tree(folder) == tree


# ------------------------------------------------------------------------------ a person's kernel


def test_an_edit_is_a_branch_with_a_kernel(folder: Path) -> None:
    with Session.create(folder, opened()) as session:
        session.post(proposed("b1"))
        assert session.edit(BranchId("b1"), "// us 30", title="wider loads") == "e1"
        assert session.edit(None, "// us 20", by="Ada") == "e2"
        first, second = (session.tree.nodes[BranchId(id)] for id in ("e1", "e2"))
        assert (first.branch.parents, first.branch.hypothesis.title) == (("b1",), "wider loads")
        assert (second.branch.parents, second.branch.author) == ((), "Ada")
        assert first.draft is not None and first.draft.kernel.source == "// us 30"
        with pytest.raises(SessionError, match="branch 'b7'"):
            session.edit(BranchId("b7"), "x")
    assert (folder / "branches" / "e1.cu").read_text() == "// us 30"


def test_resuming_puts_work_in_flight_back_in_the_queue(folder: Path) -> None:
    with Session.create(folder, opened()) as session:
        session.post(proposed("b1"), written("b1", "// us 50"), proposed("e1", operator="edit"))
        session.post(StageEntered(branch=BranchId("b1"), stage="running"))
    with Session.resume(folder) as session:
        assert session.tree.nodes[BranchId("b1")].stage == "waiting"
        assert session.tree.nodes[BranchId("e1")].abandoned == "its kernel was lost in a crash"
