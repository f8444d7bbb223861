"""A round of the playbook that ends by joining two kernels, judged by a device that reads their plans."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from softmax_problem import PROBLEM

from workbench.agents.base import ReasonRequest
from workbench.agents.playbook import PlaybookReasoner, playbook_team
from workbench.devices.base import OnStage
from workbench.events import SessionOpened
from workbench.model import H100, CaseTime, Evaluation, Hypothesis, Kernel, Passed, Problem, Target
from workbench.orchestrator import run
from workbench.plan.interpret import interpret, refuse_library
from workbench.plan.parse import parse
from workbench.playbook.files.shape_classes import classes_of
from workbench.playbook.techniques.table import settled
from workbench.policy import Policy
from workbench.session import Session, read_tree


class TwoSeeds(PlaybookReasoner):
    """The rules, but for the seeds: large blocks and small ones."""

    async def hypothesize(self, request: ReasonRequest) -> tuple[Hypothesis, ...]:
        if request.operator != "seed":
            return await super().hypothesize(request)
        return tuple(
            Hypothesis(
                title=f"{size} threads",
                bottleneck="none",
                cause="",
                fix="",
                vector=settled(request.problem, (("block_size", size), ("grid_split", "off"))),
            )
            for size in ("1024", "128")
        )


class Reading:
    """Calls large blocks fast at the first case, small ones at the others."""

    name = "null"
    target: Target = H100
    parallel = 1

    async def evaluate(self, problem: Problem, kernel: Kernel, on_stage: OnStage) -> Evaluation:
        program = parse(kernel.source)
        times = []
        for case in problem.cases:
            plan = interpret(program, problem.metas(case), H100, refuse_library)
            large = plan.launches[0].block[0] == 1024
            us = 10.0 if large == (case is problem.cases[0]) else 20.0
            times.append(
                CaseTime(
                    case=case.label, source="model", time_us=us, floor_us=1.0, baselines=(("eager", 15.0),)
                )
            )
        return Evaluation(
            kernel=kernel.digest, device="null", target="H100", outcome=Passed(), times=tuple(times)
        )

    async def close(self) -> None:
        pass


def test_the_round_ends_with_a_kernel_that_is_best_at_every_shape(tmp_path: Path) -> None:
    policy = Policy(rounds=1, seeds=2)
    opened = SessionOpened(
        version="0", problem=PROBLEM, policy=policy, target=H100, device="null", brain="playbook"
    )
    team = replace(playbook_team(), reasoner=TwoSeeds())
    with Session.create(tmp_path / "s", opened) as session:
        asyncio.run(run(session, team, Reading()))
        tree = session.tree
    assert read_tree(tmp_path / "s") == tree
    assert list(tree.nodes) == ["b1", "b2", "b3"] and tree.best() == "b3"
    joined = tree.nodes[tree.best()]  # type: ignore[index]
    assert joined.operator == "crossover" and set(joined.branch.parents) == {"b1", "b2"}
    assert joined.branch.hypothesis.technique == "by_shape"
    assert joined.evaluation is not None and [t.time_us for t in joined.evaluation.times] == [10.0, 10.0]
    assert [dict(part.vector)["block_size"] for part in classes_of(PROBLEM, joined.vector)] == ["128", "1024"]
    assert joined.lesson is not None and joined.lesson.expected_factor == 2**0.5
    assert "as expected" in joined.lesson.lesson
