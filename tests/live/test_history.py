"""How long a stage took in earlier sessions: read from journals beside a new one, never a reason to fail."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from workbench.events import SessionOpened
from workbench.live.history import with_history
from workbench.session import read_tree
from workbench.views.progress import usual_s

RECORDED = Path(__file__).resolve().parents[2] / "notebooks" / "recordings" / "softmax.jsonl"


def keep(folder: Path, name: str, text: str, age_s: int = 0) -> None:
    """A session of that journal in ``folder``, written some time ago."""
    path = folder / name / "journal.jsonl"
    path.parent.mkdir()
    path.write_text(text)
    os.utime(path, (1_000_000 - age_s, 1_000_000 - age_s))


@pytest.fixture
def opened(tmp_path: Path) -> SessionOpened:
    keep(tmp_path, "one", RECORDED.read_text())
    first = read_tree(tmp_path / "one").opened
    shutil.rmtree(tmp_path / "one")
    assert first is not None
    return first


def test_the_first_session_knows_nothing(opened: SessionOpened, tmp_path: Path) -> None:
    assert with_history(opened, tmp_path / "new").usual == ()


def test_a_later_one_knows_what_the_earlier_took(opened: SessionOpened, tmp_path: Path) -> None:
    keep(tmp_path, "earlier", RECORDED.read_text())
    found = dict(with_history(opened, tmp_path / "new").usual)
    took = usual_s(read_tree(tmp_path / "earlier"))
    assert found == {stage: round(seconds, 3) for stage, seconds in took.items()}
    assert found["running"] > 0


def test_sessions_on_another_device_do_not_count(opened: SessionOpened, tmp_path: Path) -> None:
    keep(tmp_path, "earlier", RECORDED.read_text())
    assert with_history(opened.model_copy(update={"device": "cuda"}), tmp_path / "new").usual == ()


def test_what_cannot_be_read_is_passed_over(opened: SessionOpened, tmp_path: Path) -> None:
    first = RECORDED.read_text().splitlines()[0]
    for place, text in enumerate(("", "no journal\n", "[1]\n", first + "\nbroken\n{}\n", first + "\n")):
        keep(tmp_path, f"bad{place}", text)
    keep(tmp_path, "earlier", RECORDED.read_text(), age_s=60)
    assert dict(with_history(opened, tmp_path / "new").usual)["running"] > 0


def test_a_journal_from_before_says_nothing_of_others(opened: SessionOpened) -> None:
    assert opened.usual == ()
