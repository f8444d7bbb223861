"""Which events wait until the disk has them: all that could not be had again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from toy import judged, opened, proposed, written

from workbench.events import HintGiven, RoundEnded, RoundStarted
from workbench.model import BranchId
from workbench.session import Session, read_tree


def test_what_follows_from_the_tree_waits_for_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with Session.create(tmp_path, opened()) as session:
        before = len(synced)
        session.post(RoundStarted(round=1))
        session.post(RoundEnded(round=1, best=None, score=0.0))
        assert len(synced) == before
        assert read_tree(tmp_path) == session.tree
        session.post(HintGiven(text="shared memory", by="person"))
        assert len(synced) == before + 1
        session.post(RoundStarted(round=2), HintGiven(text="and less of it", by="person"))
        assert len(synced) == before + 2


def test_an_idea_is_had_again_but_a_verdict_and_a_persons_edit_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with Session.create(tmp_path, opened()) as session:
        before = len(synced)
        session.post(proposed("b1"))
        session.post(written("b1", "// us 50"))
        assert len(synced) == before
        session.post(judged("b1", "// us 50"))
        assert len(synced) == before + 1
        session.edit(BranchId("b1"), "// us 40")
        assert len(synced) == before + 2
