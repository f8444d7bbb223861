"""A team of models against a real server: whole sessions, mixed teams, streaming, caps, stopping."""

import asyncio
from pathlib import Path

import pytest
from expert import expert
from model_server import ModelServer
from softmax_problem import PROBLEM
from toy import opened

from workbench.agents.casting import cast_team
from workbench.agents.llm.settings import Choice, Patience
from workbench.devices.null import NullDevice
from workbench.orchestrator import run
from workbench.session import Session, read_tree
from workbench.tree import Tree

QUICK = Patience(stall_s=0.15, call_s=2.0, first_wait_s=0.01, longest_wait_s=0.1, report_s=0.0)


def search(
    folder: Path,
    server: ModelServer,
    brain: str = "llm:m",
    patience: Patience = QUICK,
    prices: str = "",
    **policy: object,
) -> Tree:
    """A whole session on the null device; what is recorded can be read again."""
    team = cast_team(brain, Choice(base_url=server.url, patience=patience, prices=prices))
    first = opened(**policy).model_copy(update={"problem": PROBLEM, "brain": team.name})
    with Session.create(folder, first) as session:
        asyncio.run(run(session, team, NullDevice()))
        assert read_tree(folder) == session.tree
        return session.tree


def test_a_team_of_models_grows_a_tree(tmp_path: Path) -> None:
    with ModelServer(expert()) as server:
        tree = search(tmp_path, server)
    assert tree.stopped is not None and tree.stopped.reason == "3 rounds are done"
    assert tree.failures == () and tree.speaking == {}
    assert [n.operator for n in tree.nodes.values()].count("crossover") == 1
    assert all(n.passed and n.lesson and n.lesson.lesson == "It helped by half." for n in tree.nodes.values())
    assert tree.best() == "b11"
    assert tree.spent.calls == len(server.seen) == len(tree.exchanges)
    assert tree.spent.tokens_in == 1000 * tree.spent.calls


def test_the_numbers_of_a_lesson_are_not_the_models(tmp_path: Path) -> None:
    with ModelServer(expert()) as server:
        tree = search(tmp_path, server, rounds=1)
    lesson = tree.nodes[min(tree.nodes)].lesson
    assert lesson is not None
    assert (lesson.expected_factor, lesson.actual_factor) == (1.5, pytest.approx(100 / 90))
