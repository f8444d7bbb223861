"""kill -9 at any moment, then resume: the tree is the one an uninterrupted run grows."""

import asyncio
import random
import signal
import subprocess
import sys
from pathlib import Path

import killed
import pytest

from workbench.session import has_session, read_tree
from workbench.tree import Tree

ROOT = Path(__file__).parents[2]


def uninterrupted(folder: Path) -> Tree:
    session = asyncio.run(killed.search(folder, salt=0, most_s=0.0))
    session.close()
    return session.tree


def live_once(folder: Path, salt: int, seconds: float | None) -> bool:
    """Run a life of the session, killed so long after its begin; True when it ended of itself."""
    life = subprocess.Popen(
        [sys.executable, killed.__file__, folder, str(salt)],
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert life.stdout is not None
    assert life.stdout.readline() == "begun\n"
    try:
        output, _ = life.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        life.send_signal(signal.SIGKILL)
        output, _ = life.communicate()
    assert life.returncode in (0, -signal.SIGKILL), output
    return life.returncode == 0


@pytest.mark.many(5)
@pytest.mark.parametrize("seed", range(3))
def test_killed_and_resumed_it_grows_the_same_tree(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    folder = tmp_path / "killed"
    kills = 0
    # The delays of a whole life add up to more than the longest wait: the first kill always hits.
    while not live_once(folder, salt=seed * 100 + kills, seconds=0.01 + dice.random() * 0.1):
        kills += 1
        if kills == 5:
            assert live_once(folder, salt=kills, seconds=None)
            break
    assert kills > 0
    assert read_tree(folder) == uninterrupted(tmp_path / "whole")


@pytest.mark.many(6)
@pytest.mark.parametrize("seed", range(6))
def test_cut_after_any_byte_it_grows_the_same_tree(tmp_path: Path, seed: int) -> None:
    """What a kill leaves is a prefix of the journal: try prefixes directly, many of them."""
    expected = uninterrupted(tmp_path / "whole")
    whole = (tmp_path / "whole" / "journal.jsonl").read_bytes()
    dice = random.Random(seed)
    for attempt in range(8):
        folder = tmp_path / f"cut{attempt}"
        folder.mkdir()
        (folder / "journal.jsonl").write_bytes(whole[: dice.randrange(len(whole))])
        assert has_session(folder) or len((folder / "journal.jsonl").read_bytes()) < whole.index(b"\n") + 1
        session = asyncio.run(killed.search(folder, salt=seed, most_s=0.004))
        session.close()
        assert session.tree == expected
        assert read_tree(folder) == expected
