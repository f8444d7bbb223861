"""How a command that follows a search ends: its exit code, and what it says where nothing was left to do."""

from pathlib import Path

import pytest
from softmax_problem import PROBLEM
from typer.testing import CliRunner

from workbench import __version__, cli
from workbench.live import optimize
from workbench.policy import Policy
from workbench.session import read_tree
from workbench.views import terminal


def finished(folder: Path, branches: int = 1) -> Path:
    """A session of one round on the null device, over."""
    policy = Policy(rounds=1, seeds=1, branches=branches, repairs=0, archive=False)
    with optimize(PROBLEM, policy, "null", folder=folder) as session:
        session.wait()
    return folder


def test_resuming_what_is_over_says_so(tmp_path: Path) -> None:
    told, more = "The search was over already, and nothing was done", "; --rounds N asks for more rounds"
    folder = finished(tmp_path / "open", branches=9)
    assert f"{told}{more}." in CliRunner().invoke(cli.app, ["resume", str(folder)]).output
    assert told not in CliRunner().invoke(cli.app, ["resume", str(folder), "--rounds", "1"]).output
    full = finished(tmp_path / "full")
    room = "; --branches N makes room for more"
    assert f"{told}{room}." in CliRunner().invoke(cli.app, ["resume", str(full)]).output
    assert told not in CliRunner().invoke(cli.app, ["resume", str(full), "--branches", "1"]).output
    assert len(read_tree(full).nodes) == 2


def test_an_interrupted_command_ends_with_130(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(terminal, "follow", interrupted)
    result = CliRunner().invoke(cli.app, ["resume", str(finished(tmp_path / "session"))])
    assert result.exit_code == cli.INTERRUPTED
    assert "workbench resume" in result.output


def test_the_command_says_its_version_and_what_it_is_for() -> None:
    result = CliRunner().invoke(cli.app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"workbench {__version__}\n")
    assert "Turn PyTorch code into CUDA kernels" in CliRunner().invoke(cli.app, ["--help"]).output
