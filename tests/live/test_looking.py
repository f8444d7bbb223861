"""A recorded session: read on any machine, changed by nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import doubles
import pytest

from workbench.devices.null import NullDevice
from workbench.errors import SessionError, UsageError
from workbench.events import SessionOpened
from workbench.live import look, optimize, resume
from workbench.live.apply import apply
from workbench.policy import Policy
from workbench.session import Session, read_tree
from workbench.session.session import opening


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("looking") / "session"
    with optimize(doubles.problem(), Policy(rounds=1), NullDevice(), doubles.team(), folder) as live:
        assert live.wait(60)
    return folder


def test_it_shows_what_was_recorded(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = look(folder)
    assert shown.tree == read_tree(folder)
    assert shown.best is not None
    assert len(shown.to_frame()) == len(shown.tree.nodes)
    assert "wb-data" in shown.to_html()
    shown.show()
    assert "double:" in capsys.readouterr().out


def test_what_only_reads_is_the_same_as_of_a_live_one(folder: Path, tmp_path: Path) -> None:
    shown = look(folder)
    assert shown.wait(1) and shown.opened() and shown.finished()
    assert shown.name == "double" and shown.state.startswith("stopped")
    assert shown.replayed() == () and shown.conversation("b1")
    assert (shown.export(tmp_path / "out") / "double.cu").is_file()
    with pytest.raises(SessionError, match="only shown"):
        shown.judge("__global__ void k() {}")


def test_the_best_kernel_of_a_recorded_session_is_applied(tmp_path: Path) -> None:
    kernel = """// null: passed 1
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty_like(x)
    launch("doubled", grid=rows, block=cols, args=[x, y])
    return y
*/
__global__ void doubled(const float* x, float* y) {}
"""
    where = tmp_path / "session"
    with optimize(doubles.problem(), Policy(rounds=0), NullDevice(), doubles.team(), where) as live:
        live.judge(kernel)
    names: dict[str, Any] = {}
    assert apply(look(where), names).startswith("double now runs e1")
    assert names["double"].source == kernel


def test_nothing_is_recorded_and_no_lock_is_held(folder: Path) -> None:
    before = (folder / "journal.jsonl").read_bytes()
    shown = look(folder)
    for act in (
        lambda: shown.approve("b1"),
        lambda: shown.hint("more"),
        lambda: shown.next_round(),
        shown.undo,
    ):
        with pytest.raises(SessionError, match="only shown"):
            act()
    Session.resume(folder).close()
    assert (folder / "journal.jsonl").read_bytes() == before


def test_a_folder_without_a_session_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="check the path"):
        look(tmp_path)


def test_resuming_without_its_gpu_says_how_to_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: SessionOpened = opening(doubles.problem(), Policy(), NullDevice(), "playbook")
    Session.create(tmp_path / "s", opened.model_copy(update={"device": "cuda"})).close()
    monkeypatch.setattr("workbench.live.start.open_device_named", _no_gpu)
    with pytest.raises(UsageError, match=r"no usable GPU.*--look"):
        resume(tmp_path / "s")
    assert look(tmp_path / "s").tree.opened is not None


def _no_gpu(name: str) -> NullDevice:
    raise UsageError("no usable GPU: none here")
