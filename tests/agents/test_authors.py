"""Whose a branch is: the brain of the role that made it, not the whole team."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from toy import ToyDevice, opened

from workbench.agents.casting import authors_of, read_cast
from workbench.agents.replay import Recording, differences, replay_team
from workbench.agents.scripted import Script, scripted_team
from workbench.orchestrator import run
from workbench.session import Session
from workbench.session.journal import read_journal


@pytest.mark.parametrize(
    ("brain", "idea", "builds", "right"),
    [
        ("playbook", "playbook", "playbook", "playbook"),
        ("llm:big", "llm:big", "llm:big", "llm:big"),
        ("reasoner=llm:big", "llm:big, written by playbook", "playbook", "playbook"),
        (
            "synthesizer=llm:coder,compiler=llm:small",
            "playbook, written by llm:coder",
            "llm:small",
            "llm:coder",
        ),
    ],
)
def test_roles_have_authors(brain: str, idea: str, builds: str, right: str) -> None:
    told = {"reasoner": idea, "compiler": builds, "correctness": right}
    assert dict(authors_of(read_cast(brain))) == told


def test_branches_and_their_replay_say_who_made_them(tmp_path: Path) -> None:
    script = Script(kernels=("oops", "// us 50"), repairs=("// wrong", "// us 40"))
    cast = (("reasoner", "llm:big"), ("compiler", "llm:small"), ("correctness", "playbook"))
    team = replace(scripted_team(script), authors=cast)
    with Session.create(tmp_path / "one", opened(rounds=1, seeds=2, repairs=2)) as session:
        asyncio.run(run(session, team, ToyDevice()))
        tree = session.tree
    authors = {id: node.branch.author for id, node in tree.nodes.items()}
    assert authors == {"b1": "llm:big", "b1.1": "llm:small", "b1.2": "playbook", "b2": "llm:big"}
    recording = Recording.of(read_journal(tmp_path / "one" / "journal.jsonl")[0])
    with Session.create(tmp_path / "two", opened(rounds=1, seeds=2, repairs=2)) as session:
        asyncio.run(run(session, replay_team(recording, "one"), ToyDevice()))
        assert differences(tree, session.tree) == ()
