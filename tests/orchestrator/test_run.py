import asyncio
import errno
import os
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest
from killed import SCRIPT
from toy import ToyDevice, chance, opened

from workbench.agents.base import Team
from workbench.agents.scripted import Faults, Script, scripted_team, with_faults
from workbench.devices.base import OnStage
from workbench.devices.null import NullDevice
from workbench.errors import SessionError
from workbench.events import BranchApproved, Event, HintGiven, RoundsRequested, SearchStopped
from workbench.model import BranchId, Evaluation, Kernel, Problem
from workbench.orchestrator import reopen, run
from workbench.session import Session, read_tree
from workbench.tree import Tree

FINE = Script(kernels=tuple(f"// us {90 - 4 * i}" for i in range(20)))
NO_DELAY = Faults()


def search(
    folder: Path,
    team: Team | None = None,
    device: ToyDevice | None = None,
    **policy: object,
) -> Tree:
    """A whole session from beginning to end."""
    with Session.create(folder, opened(**policy)) as session:
        asyncio.run(run(session, team or scripted_team(SCRIPT), device or ToyDevice()))
        assert read_tree(folder) == session.tree
        return session.tree


async def until(session: Session, seen: Callable[[Tree], bool]) -> None:
    """Wait for a state of the tree."""
    there = asyncio.Event()
    loop = asyncio.get_running_loop()

    def look(tree: Tree) -> None:
        if seen(tree):
            loop.call_soon_threadsafe(there.set)

    unsubscribe = session.subscribe(look)
    try:
        await asyncio.wait_for(there.wait(), timeout=300)
    finally:
        unsubscribe()


def from_a_thread(session: Session, *events: Event) -> None:
    """Post as a click does: from a thread that is not the search's."""
    click = threading.Thread(target=session.post, args=events)
    click.start()
    click.join()


def play(
    folder: Path, story: Callable[[Session, asyncio.Task[None]], Coroutine[None, None, None]], **how: object
) -> Tree:
    """A session in which a person acts while the search runs."""
    given = {name: how.pop(name) for name in ("linger", "clock") if name in how}
    team, device = how.pop("team", scripted_team(FINE)), how.pop("device", ToyDevice())

    async def both(session: Session) -> None:
        task = asyncio.create_task(run(session, team, device, **given))  # type: ignore[arg-type]
        await story(session, task)
        await asyncio.wait_for(task, timeout=300)

    with Session.create(folder, opened(**how)) as session:
        asyncio.run(both(session))
        return session.tree


# ------------------------------------------------------------------------------ the whole of it


def test_a_whole_session(tmp_path: Path) -> None:
    tree = search(tmp_path)
    assert tree.stopped is not None and tree.stopped.reason == "3 rounds are done"
    assert {id: (n.operator, n.branch.round, n.verdict) for id, n in tree.nodes.items()} == {
        "b1": ("seed", 1, "passed"),
        "b2": ("seed", 1, "compile_failed"),
        "b2.1": ("repair", 1, "mismatch"),
        "b2.2": ("repair", 1, "passed"),
        "b3": ("seed", 1, "passed"),
        "b4": ("refine", 2, "passed"),
        "b5": ("rewrite", 2, "abandoned"),
        "b6": ("refine", 2, "mismatch"),
        "b6.1": ("repair", 2, "mismatch"),
        "b6.2": ("repair", 2, "passed"),
        "b7": ("crossover", 2, "passed"),
        "b8": ("rewrite", 3, "passed"),
        "b9": ("refine", 3, "compile_failed"),
        "b9.1": ("repair", 3, "mismatch"),
        "b9.2": ("repair", 3, "passed"),
        "b10": ("refine", 3, "passed"),
        "b11": ("refine", 3, "passed"),
    }
    assert tree.nodes[BranchId("b5")].duplicate_of == "b1"
    assert tree.best() == "b11"
    assert [end.best for end in tree.ended] == ["b2.2", "b7", "b11"]
    assert all(n.stage == "done" for n in tree.nodes.values())
    assert all(n.lesson and n.explanation for n in tree.nodes.values() if n.evaluation)
    assert tree.failures == ()


@pytest.mark.many(3)
@pytest.mark.parametrize("salt", range(5))
def test_the_tree_does_not_depend_on_who_returns_first(tmp_path: Path, salt: int) -> None:
    expected = search(tmp_path / "at once", parallel=4)
    slow = with_faults(scripted_team(SCRIPT), Faults(delay_s=lambda r: 0.004 * (hash(str(r)) % 3)))
    device = ToyDevice(delay_s=lambda kernel: chance(kernel, salt, 0.02))
    tree = search(tmp_path / "delayed", slow, device, parallel=4)
    assert tree == expected
    assert list(tree.nodes) == list(expected.nodes)


@pytest.mark.parametrize(("policy", "device", "most"), [(3, 8, 3), (8, 2, 2), (1, 8, 1), (0, 0, 1)])
def test_so_many_are_judged_at_once(tmp_path: Path, policy: int, device: int, most: int) -> None:
    toy = ToyDevice(delay_s=lambda _: 0.001, parallel=device)
    search(tmp_path, scripted_team(FINE), toy, parallel=policy, seeds=5)
    assert toy.most_at_once == most


def test_equal_kernels_are_judged_once(tmp_path: Path) -> None:
    toy = ToyDevice()
    search(tmp_path, scripted_team(Script(kernels=("// us 50",) * 6)), toy)
    assert toy.judged == ["// us 50"]


def test_a_session_on_the_null_device(tmp_path: Path) -> None:
    script = Script(kernels=tuple(f"// null: passed {90 - 5 * i}" for i in range(12)))
    with Session.create(tmp_path, opened()) as session:
        asyncio.run(run(session, scripted_team(script), NullDevice()))
        assert session.tree.best() == "b11"
        assert read_tree(tmp_path) == session.tree


# ------------------------------------------------------------------------------ failing agents


def test_a_failing_synthesizer_costs_a_branch(tmp_path: Path) -> None:
    faults = Faults(synthesizer_fails=lambda request: request.hypothesis.title.startswith("line 1 "))
    tree = search(tmp_path, with_faults(scripted_team(FINE), faults))
    assert [n.id for n in tree.nodes.values() if n.abandoned] == ["b2"]
    assert tree.nodes[BranchId("b2")].abandoned == "the synthesizer failed: the synthesizer was told to fail"
    assert [(f.role, f.message) for f in tree.failures] == [
        ("synthesizer", "the synthesizer was told to fail")
    ]
    assert len(tree.ended) == 3


def test_a_failing_reasoner_stops_the_search(tmp_path: Path) -> None:
    faults = Faults(reasoner_fails=lambda request: request.operator != "seed")
    tree = search(tmp_path, with_faults(scripted_team(FINE), faults))
    assert tree.stopped is not None and tree.stopped.reason == "the reasoner failed"
    assert list(tree.nodes) == ["b1", "b2", "b3"]
    assert {f.role for f in tree.failures} == {"reasoner"}


def test_a_failing_compiler_or_checker_is_recorded(tmp_path: Path) -> None:
    faults = Faults(compiler_fails=lambda _: True, checker_fails=True)
    tree = search(tmp_path, with_faults(scripted_team(SCRIPT), faults))
    assert tree.nodes[BranchId("b2.1")].abandoned == "the compiler failed: the compiler was told to fail"
    assert {f.role for f in tree.failures} == {"compiler", "checker"}
    assert all(n.explanation == "" for n in tree.nodes.values())
    assert len(tree.ended) == 3


def test_a_repair_that_is_not_found_ends_the_chain(tmp_path: Path) -> None:
    tree = search(tmp_path, scripted_team(Script(kernels=("oops", "// us 50"))), seeds=2, rounds=1)
    assert tree.nodes[BranchId("b1.1")].abandoned == "the compiler found nothing to write"
    assert list(tree.nodes) == ["b1", "b1.1", "b2"]


def test_a_reasoner_that_repeats_itself_gets_no_more_places(tmp_path: Path) -> None:
    tree = search(tmp_path / "a", with_faults(scripted_team(FINE), Faults(repeats=True)))
    assert tree == search(tmp_path / "b", scripted_team(FINE))


class _Broken:
    """A brain that breaks its contract in every role."""

    async def hypothesize(self, request: object) -> object:
        return await scripted_team(FINE).reasoner.hypothesize(request)  # type: ignore[arg-type]

    def synthesize(self, request: object) -> object:
        raise KeyError("no such template")

    async def repair(self, request: object) -> object:
        return 7

    def explain(self, problem: object, evaluation: object) -> object:
        return 8


def test_a_brain_that_breaks_its_contract_costs_branches_only(tmp_path: Path) -> None:
    broken = _Broken()
    team = Team("broken", broken, broken, broken, broken)  # type: ignore[arg-type]
    tree = search(tmp_path, team, rounds=1)
    assert {n.abandoned for n in tree.nodes.values()} == {"the synthesizer failed: 'no such template'"}
    assert tree.failures[0].message == "KeyError: 'no such template'"


# ------------------------------------------------------------------------------ failing device


def test_a_failing_device_stops_the_search_and_loses_nothing(tmp_path: Path) -> None:
    expected = search(tmp_path / "whole")
    broken = ToyDevice(broken=lambda kernel: kernel.source == "// us 60")
    with Session.create(tmp_path / "broken", opened()) as session:
        asyncio.run(run(session, scripted_team(SCRIPT), broken))
        stopped = session.tree.stopped
        assert stopped is not None
        assert stopped.reason == "the device failed while judging b4: the toy device is broken; mend it"
        assert session.tree.nodes[BranchId("b4")].evaluation is None
        assert not {n.stage for n in session.tree.nodes.values()} & {"compiling", "running"}
        reopen(session)
        asyncio.run(run(session, scripted_team(SCRIPT), ToyDevice()))
        assert session.tree.nodes == expected.nodes
        assert session.tree.ended == expected.ended


def test_a_mended_device_is_tried_again_within_the_same_run(tmp_path: Path) -> None:
    broken = {"// us 86"}

    async def story(session: Session, task: asyncio.Task[None]) -> None:
        await until(session, lambda tree: tree.gate == "stopped")
        broken.clear()
        from_a_thread(session, RoundsRequested(rounds=0, by="person"))
        await until(session, lambda tree: len(tree.ended) == 3)
        task.cancel()

    device = ToyDevice(broken=lambda kernel: kernel.source in broken)
    with pytest.raises(asyncio.CancelledError):
        play(tmp_path, story, linger=True, device=device)


class _Raising(ToyDevice):
    async def evaluate(self, problem: Problem, kernel: Kernel, on_stage: OnStage) -> Evaluation:
        raise ZeroDivisionError("a fault of ours")


def test_any_exception_of_a_device_is_a_broken_machine(tmp_path: Path) -> None:
    tree = search(tmp_path, device=_Raising())
    assert {(f.role, f.message) for f in tree.failures} == {("device", "ZeroDivisionError: a fault of ours")}
    assert tree.gate == "stopped"


def test_an_edit_on_a_broken_device_is_tried_once(tmp_path: Path) -> None:
    device = _Raising()
    with Session.create(tmp_path, opened()) as session:
        session.edit(None, "// us 10")
        asyncio.run(run(session, scripted_team(SCRIPT), device))
        assert session.tree.gate == "stopped"
        again = len(session.tree.failures)
        asyncio.run(run(session, scripted_team(SCRIPT), device))  # a new run may try again, once
        assert len(session.tree.failures) == again + 1


class _Threaded(ToyDevice):
    """Tells its stages from another thread, and one of them too late."""

    async def evaluate(self, problem: Problem, kernel: Kernel, on_stage: OnStage) -> Evaluation:
        self.late = on_stage
        await asyncio.to_thread(on_stage, "running")
        return await super().evaluate(problem, kernel, on_stage)


def test_stages_may_come_from_another_thread_and_late(tmp_path: Path) -> None:
    device = _Threaded()
    expected = search(tmp_path / "a")
    assert search(tmp_path / "b", device=device) == expected
    device.late("running")  # the session is closed by now


# ------------------------------------------------------------------------------ being cut off


@pytest.mark.many(3)
@pytest.mark.parametrize("after", [1, 3, 6, 12])
def test_cancelling_leaves_a_journal_that_goes_on(tmp_path: Path, after: int) -> None:
    expected = search(tmp_path / "whole")

    async def cut(session: Session) -> None:
        slow = ToyDevice(delay_s=lambda _: 0.005)
        task = asyncio.create_task(run(session, scripted_team(SCRIPT), slow))
        await until(session, lambda tree: len(tree.nodes) >= after)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert slow.busy == 0  # nothing is left in flight

    with Session.create(tmp_path / "cut", opened()) as session:
        asyncio.run(cut(session))
        assert session.tree.stopped == SearchStopped(reason="interrupted", by="person")
        assert read_tree(tmp_path / "cut") == session.tree
    with Session.resume(tmp_path / "cut") as session:
        reopen(session)
        asyncio.run(run(session, scripted_team(SCRIPT), ToyDevice()))
        assert session.tree == expected


@pytest.mark.parametrize("room", [200, 4000, 9000])
def test_a_full_disk_ends_the_run_and_nothing_recorded_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    expected = search(tmp_path / "whole")
    real = os.pwrite
    start = 0

    def pwrite(file: int, data: bytes, offset: int) -> int:
        if offset + len(data) > start + room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(file, data, offset)

    with Session.create(tmp_path / "full", opened()) as session:
        start = (tmp_path / "full" / "journal.jsonl").stat().st_size
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", pwrite)
            with pytest.raises(SessionError, match=r"the disk is full.*free some space"):
                asyncio.run(run(session, scripted_team(SCRIPT), ToyDevice(delay_s=lambda _: 0.001)))
        assert read_tree(tmp_path / "full") == session.tree
    with Session.resume(tmp_path / "full") as session:
        asyncio.run(run(session, scripted_team(SCRIPT), ToyDevice()))
        assert session.tree == expected


def test_running_a_finished_session_does_nothing(tmp_path: Path) -> None:
    tree = search(tmp_path)
    with Session.resume(tmp_path) as session:
        asyncio.run(run(session, scripted_team(SCRIPT), ToyDevice()))
        assert session.tree == tree
        reopen(session)
        asyncio.run(run(session, scripted_team(SCRIPT), ToyDevice()))
        assert session.tree.nodes == tree.nodes
        assert session.tree.stopped == tree.stopped


class Clock:
    """Advances by a second whenever it is read."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_the_time_budget_stops_the_search(tmp_path: Path) -> None:
    with Session.create(tmp_path, opened(seconds=20)) as session:
        asyncio.run(run(session, scripted_team(FINE), ToyDevice(), clock=Clock()))
        assert session.tree.stopped is not None
        assert session.tree.stopped.reason == "the time budget of 20 s is used"
        judged = sum(n.settled for n in session.tree.nodes.values())
        assert 0 < judged < 11
        reopen(session)
        asyncio.run(run(session, scripted_team(FINE), ToyDevice()))
        assert len(session.tree.nodes) == 11


def test_a_request_after_the_time_is_up_gets_as_much_time_again(tmp_path: Path) -> None:
    async def story(session: Session, task: asyncio.Task[None]) -> None:
        await until(session, lambda tree: tree.gate == "stopped")
        settled = sum(n.settled for n in session.tree.nodes.values())
        from_a_thread(session, RoundsRequested(rounds=0, by="person"))
        await until(session, lambda tree: sum(n.settled for n in tree.nodes.values()) > settled)
        await until(session, lambda tree: tree.gate == "stopped")
        task.cancel()

    with pytest.raises(asyncio.CancelledError):
        play(tmp_path, story, linger=True, clock=Clock(), seconds=20)


# ------------------------------------------------------------------------------ the person


def test_the_person_steers_between_rounds(tmp_path: Path) -> None:
    async def story(session: Session, task: asyncio.Task[None]) -> None:
        await until(session, lambda tree: tree.gate == "asking")
        assert list(session.tree.nodes) == ["b1", "b2", "b3"]
        assert not task.done()
        from_a_thread(
            session,
            BranchApproved(branch=BranchId("b1"), by="person"),
            HintGiven(text="fewer barriers", by="person"),
            RoundsRequested(rounds=1, by="person"),
        )
        await until(session, lambda tree: tree.gate == "asking" and tree.round == 2)
        from_a_thread(session, SearchStopped(reason="enough", by="person"))

    tree = play(tmp_path, story, review="manual", crossover=0)
    second = [n for n in tree.nodes.values() if n.branch.round == 2]
    assert {n.branch.parents for n in second} == {("b1",), ("b3",)}  # b1 is the slowest, but approved
    assert {n.branch.hypothesis.cause for n in second} == {"fewer barriers"}
    assert tree.stopped == SearchStopped(reason="enough", by="person")


def test_an_edit_is_judged_while_the_search_waits_and_after_it_stopped(tmp_path: Path) -> None:
    async def story(session: Session, task: asyncio.Task[None]) -> None:
        await until(session, lambda tree: tree.gate == "asking")
        first = session.edit(BranchId("b1"), "// us 20")
        await until(session, lambda tree: tree.nodes[first].settled)
        from_a_thread(session, SearchStopped(reason="enough", by="person"))
        second = session.edit(first, "oops")
        await until(session, lambda tree: tree.nodes[second].settled)
        assert session.tree.gate == "stopped"
        from_a_thread(session, RoundsRequested(rounds=1, by="person"))
        await until(session, lambda tree: tree.gate == "asking" and tree.round == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def cancelled(session: Session, task: asyncio.Task[None]) -> None:
        await story(session, task)

    with pytest.raises(asyncio.CancelledError):
        play(tmp_path, cancelled, review="manual", linger=True)
    tree = read_tree(tmp_path)
    assert (tree.nodes[BranchId("e1")].verdict, tree.nodes[BranchId("e2")].verdict) == (
        "passed",
        "compile_failed",
    )
    assert tree.best() == "e1"
    assert {n.branch.parents[0] for n in tree.nodes.values() if n.branch.round == 2} >= {"e1"}


class _Overtaken(ToyDevice):
    """Finishes the first of two equal kernels only when the second is under way, and that one last."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.calls = 0
        self.second = asyncio.Event()

    async def evaluate(self, problem: Problem, kernel: Kernel, on_stage: OnStage) -> Evaluation:
        if kernel.source == "// us 90":
            self.calls += 1
            if self.calls == 1:
                await self.second.wait()
            else:
                self.second.set()
                await until(self.session, lambda tree: tree.nodes[BranchId("e1")].settled)
        return await super().evaluate(problem, kernel, on_stage)


def test_a_kernel_under_way_is_not_abandoned_when_an_equal_edit_overtakes_it(tmp_path: Path) -> None:
    with Session.create(tmp_path, opened(parallel=8)) as session:
        session.edit(None, "// us 90")
        asyncio.run(run(session, scripted_team(FINE), _Overtaken(session)))
        first, edit = (session.tree.nodes[BranchId(id)] for id in ("b1", "e1"))
        assert (first.verdict, edit.verdict) == ("passed", "passed")
        assert not first.abandoned and not edit.abandoned


def test_a_stop_lets_work_in_flight_finish_and_starts_nothing(tmp_path: Path) -> None:
    async def story(session: Session, task: asyncio.Task[None]) -> None:
        await until(session, lambda tree: any(n.stage == "compiling" for n in tree.nodes.values()))
        from_a_thread(session, SearchStopped(reason="enough", by="person"))

    tree = play(tmp_path, story, device=ToyDevice(delay_s=lambda _: 0.02), parallel=1)
    assert [n.settled for n in tree.nodes.values()] == [True, False, False]
    assert tree.ended == ()


def test_more_rounds_may_be_asked_for_at_any_time(tmp_path: Path) -> None:
    async def story(session: Session, task: asyncio.Task[None]) -> None:
        await until(session, lambda tree: tree.round == 1)
        from_a_thread(session, RoundsRequested(rounds=1, by="person"))

    tree = play(tmp_path, story, rounds=2)
    assert tree.round == 3
