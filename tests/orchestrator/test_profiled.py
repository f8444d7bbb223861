"""Parents are profiled before anyone reasons about them, where the device can."""

from __future__ import annotations

import asyncio
from pathlib import Path

from toy import ToyDevice, opened

from workbench.agents.base import ReasonRequest, Team
from workbench.agents.scripted import Script, scripted_team
from workbench.errors import DeviceError
from workbench.model import Evaluation, Hypothesis, Kernel, Problem, Profile
from workbench.orchestrator import run
from workbench.session import Session, read_tree
from workbench.tree import Tree

KERNELS = Script(kernels=("// us 50", "oops", *(f"// us {40 - 4 * i}" for i in range(6))))


class LookingDevice(ToyDevice):
    """Profiles what it is asked to; ``fails`` raises, ``blind`` has nothing to say."""

    def __init__(self, fails: bool = False, blind: bool = False) -> None:
        super().__init__()
        self.fails, self.blind = fails, blind
        self.looked: list[str] = []

    async def profile(self, problem: Problem, kernel: Kernel, evaluation: Evaluation) -> Profile | None:
        self.looked.append(kernel.source)
        if self.fails:
            raise DeviceError("the card is gone")
        told = f"68% of DRAM peak in {kernel.source}."
        return None if self.blind else Profile(case="a", source="counters", sentences=(told,))


class Listening:
    """A reasoner that notes the profiles it was given."""

    def __init__(self, team: Team) -> None:
        self._inner = team.reasoner
        self.told: list[tuple[str, ...]] = []

    async def hypothesize(self, request: ReasonRequest) -> tuple[Hypothesis, ...]:
        profiles = [p.evaluation.profile for p in request.parents if p.evaluation is not None]
        self.told.append(tuple(profile.sentences[0] if profile else "" for profile in profiles))
        return await self._inner.hypothesize(request)


def search(folder: Path, device: ToyDevice) -> tuple[Tree, list[tuple[str, ...]]]:
    team = scripted_team(KERNELS)
    reasoner = Listening(team)
    listening = Team(team.name, reasoner, team.synthesizer, team.compiler, team.checker)
    with Session.create(folder, opened(rounds=2, seeds=3)) as session:
        asyncio.run(run(session, listening, device))
        assert read_tree(folder) == session.tree
        return session.tree, reasoner.told


def test_reasoners_see_the_profiles_of_correct_parents(tmp_path: Path) -> None:
    device = LookingDevice()
    tree, told = search(tmp_path, device)
    later = [line for lines in told[1:] for line in lines]
    assert later and all(line.startswith("68% of DRAM peak in // us") for line in later)
    profiled = [n for n in tree.nodes.values() if n.evaluation and n.evaluation.profile]
    assert sorted(device.looked) == sorted(n.draft.kernel.source for n in profiled if n.draft)
    assert all(n.passed for n in profiled)


def test_a_device_without_a_word_or_without_a_card_does_not_end_the_search(tmp_path: Path) -> None:
    blind, told = search(tmp_path / "blind", LookingDevice(blind=True))
    assert {line for lines in told[1:] for line in lines} == {""}
    assert blind.failures == ()
    gone, _ = search(tmp_path / "gone", LookingDevice(fails=True))
    assert gone.stopped is not None and gone.stopped.reason == "2 rounds are done"
    assert {(f.role, f.message) for f in gone.failures} == {("profiler", "the card is gone")}
    assert list(gone.nodes) == list(blind.nodes)


def test_a_leader_is_looked_at_once_and_only_where_another_round_may_come(tmp_path: Path) -> None:
    last = LookingDevice()
    with Session.create(tmp_path / "one", opened(rounds=1, seeds=3)) as session:
        asyncio.run(run(session, scripted_team(KERNELS), last))
    assert last.looked == []
    device = LookingDevice()
    tree, _ = search(tmp_path / "two", device)
    assert len(device.looked) == len(set(device.looked)) > 0
    best = tree.best()
    assert best is not None and len(device.looked) < len(tree.nodes)


def test_a_look_that_nobody_waits_for_does_not_hold_up_the_end(tmp_path: Path) -> None:
    class Slow(LookingDevice):
        async def profile(self, problem: Problem, kernel: Kernel, evaluation: Evaluation) -> Profile | None:
            if kernel.source != "// us 50":
                await asyncio.Event().wait()
            return await super().profile(problem, kernel, evaluation)

    team = scripted_team(Script(kernels=("// us 50", "// us 40")))
    with Session.create(tmp_path, opened(rounds=3, seeds=2, branches=2)) as session:
        asyncio.run(asyncio.wait_for(run(session, team, Slow()), 20.0))
        assert session.tree.stopped is not None and session.tree.failures == ()


class SanitizingDevice(LookingDevice):
    """Has something to say of a kernel once nobody wants the device."""

    def __init__(self) -> None:
        super().__init__()
        self.sanitized: list[str] = []

    async def sanitize(self, problem: Problem, kernel: Kernel) -> str:
        self.sanitized.append(kernel.source)
        return "compute-sanitizer found nothing"


def test_the_best_kernels_are_sanitized_where_the_policy_asks_and_it_is_told_with_the_profile(
    tmp_path: Path,
) -> None:
    unasked = SanitizingDevice()
    search(tmp_path / "unasked", unasked)
    assert unasked.sanitized == []
    device = SanitizingDevice()
    with Session.create(tmp_path / "asked", opened(rounds=3, seeds=3, sanitize=1)) as session:
        asyncio.run(run(session, scripted_team(KERNELS), device))
        tree = session.tree
    assert device.sanitized and len(device.sanitized) == len(set(device.sanitized))
    told = {
        node.draft.kernel.source: node.evaluation.profile.sentences
        for node in tree.nodes.values()
        if node.draft and node.evaluation and node.evaluation.profile
    }
    assert all(told[source][-1] == "compute-sanitizer found nothing" for source in device.sanitized)
    assert all(len(told[source]) == 2 for source in device.sanitized)
    assert tree == read_tree(tmp_path / "asked")
