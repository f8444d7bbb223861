"""The kernelbench format from a session, the command and the magic: one file, or a line that says why not."""

from __future__ import annotations

from pathlib import Path

import pytest
from live import doubles

from workbench.agents.scripted import Script, scripted_team
from workbench.cli import main
from workbench.devices.null import NullDevice
from workbench.errors import SessionError, UsageError
from workbench.live import optimize
from workbench.policy import Policy

KERNEL = """// null: passed 50
/* plan
def plan(x):
    y = empty_like(x)
    launch("twice", grid=1, block=128, args=[x, y])
    return y
*/
__global__ void twice(const float* x, float* y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
"""


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """The folder of a session that has found one kernel."""
    folder = tmp_path / "session"
    team = scripted_team(Script(kernels=(KERNEL,)))
    with optimize(doubles.problem(), Policy(rounds=1, branches=1), NullDevice(), team, folder) as live:
        live.wait(60.0)
        with pytest.raises(UsageError, match=r"folder, kernelbench, not 'kernelbensh'.*'kernelbench'"):
            live.export(tmp_path / "x", "kernelbensh")  # type: ignore[arg-type]
        assert live.export(tmp_path / "live.py", "kernelbench") == tmp_path / "live.py"
    return folder


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr("sys.argv", ["workbench", "export", *words])
    main()


def test_the_command_writes_what_the_session_writes(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, str(session), "--format", "kernelbench", "-o", str(tmp_path / "new" / "command.py"))
    assert ended.value.code == 0
    text = (tmp_path / "new" / "command.py").read_text()
    assert text == (tmp_path / "live.py").read_text()
    assert "def forward(self, x):" in text and "return double(x)" in text
    assert "written" in capsys.readouterr().out


def test_the_command_tells_what_it_cannot_write(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, told in (
        (("--format", "folder", "-o", str(tmp_path / "x")), "optimize --export writes a folder"),
        (("-o", str(tmp_path / "live.py" / "x")), "cannot write"),
    ):
        with pytest.raises(SystemExit) as ended:
            run(monkeypatch, str(session), *words)
        assert ended.value.code == 2
        assert told in capsys.readouterr().err


def test_a_session_without_a_kernel(tmp_path: Path) -> None:
    team = scripted_team(Script(kernels=("// null: mismatch\n",)))
    with optimize(
        doubles.problem(), Policy(rounds=1, branches=1), NullDevice(), team, tmp_path / "s"
    ) as live:
        live.wait(60.0)
        with pytest.raises(SessionError, match="no correct kernel yet"):
            live.export(tmp_path / "x.py", "kernelbench")
