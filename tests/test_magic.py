"""The magics in a real shell: options, errors in a line or two, what they leave in the notebook."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from IPython.core.completer import provisionalcompleter
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import workbench
from workbench.errors import WorkbenchError
from workbench.live import LiveSession, RecordedSession
from workbench.live.applied import Applied
from workbench.magic import CudaMagics, complete_options

CELL = """import torch
def double(x):
    return x * 2.0
inputs = [torch.randn(8, 16)]
"""


@pytest.fixture(scope="module")
def only_shell() -> InteractiveShell:
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    workbench.load_ipython_extension(shell)
    return shell


@pytest.fixture
def shell(
    only_shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[InteractiveShell]:
    """A shell with the extension loaded, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    workbench.load_ipython_extension(only_shell)
    yield only_shell
    magics(only_shell).close()
    only_shell.reset(new_session=False)


def magics(shell: InteractiveShell) -> CudaMagics:
    [found] = [c for c in shell.configurables if isinstance(c, CudaMagics)]
    return found


def session(shell: InteractiveShell) -> LiveSession:
    live = shell.user_ns["session"]
    assert isinstance(live, LiveSession)
    return live


def refusal(shell: InteractiveShell, line: str, cell: str | None = CELL) -> str:
    """The one or two lines a person reads."""
    with pytest.raises(UsageError) as caught:
        if cell is None:
            shell.run_line_magic("cuda_optimize", line)
        else:
            shell.run_cell_magic("cuda_optimize", line, cell)
    text = str(caught.value)
    assert 0 < len(text.splitlines()) <= 2, text
    assert "session" not in shell.user_ns
    return text


def test_a_cell_returns_at_once_with_a_session(shell: InteractiveShell) -> None:
    shell.run_cell_magic("cuda_optimize", "--device null --rounds 1 --review manual", CELL)
    live = session(shell)
    assert live.name == "double"
    assert live.opened(120)
    opened = live.tree.opened
    assert opened is not None
    assert (opened.policy.rounds, opened.policy.review, opened.device) == (1, "manual", "null")
    assert live.folder.parent.name == ".workbench"
    assert live.wait(60)


def test_the_cells_name_can_be_called_and_its_code_did_not_run(shell: InteractiveShell) -> None:
    shell.run_cell_magic("cuda_optimize", "--device null --rounds 1", CELL)
    assert "inputs" not in shell.user_ns
    assert torch.equal(shell.user_ns["double"](torch.ones(2)), torch.full((2,), 2.0))


def test_the_line_form_takes_what_the_notebook_has(shell: InteractiveShell) -> None:
    shell.run_cell("import torch\ndef triple(x): return x * 3.0\nx = torch.randn(4, 4)", silent=True)
    shell.run_line_magic("cuda_optimize", "triple --inputs x --device null --rounds 1")
    assert session(shell).name == "triple"


def test_config_gives_the_defaults(shell: InteractiveShell) -> None:
    shell.run_line_magic("config", "CudaMagics.rounds = 7")
    shell.run_cell_magic("cuda_optimize", "--device null", CELL)
    assert session(shell).opened(120)
    opened = session(shell).tree.opened
    assert opened is not None and opened.policy.rounds == 7


def test_variables_of_the_notebook_stand_in_a_line(shell: InteractiveShell) -> None:
    shell.run_cell("n = 1", silent=True)
    shell.run_cell_magic("cuda_optimize", "--device null --rounds {n} --wait", CELL)
    first = session(shell)
    assert first.tree.round == 1
    first.close()
    shell.user_ns["folder"] = first.folder
    shell.run_line_magic("cuda_resume", "{folder}")
    assert session(shell).folder == first.folder
    shell.run_line_magic("cuda_resume", "$folder --look")
    assert isinstance(shell.user_ns["session"], RecordedSession)


def test_a_path_may_be_quoted_and_begin_at_home(
    shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    shell.run_cell_magic("cuda_optimize", '--device null --rounds 0 --folder "my runs/ü"', CELL)
    assert session(shell).folder == tmp_path / "my runs" / "ü"
    session(shell).close()
    shell.run_line_magic("cuda_resume", "'my runs/ü' --look")  # as we tell it ourselves
    shell.run_cell_magic("cuda_optimize", "--device null --rounds 0 --folder ~/there", CELL)
    assert session(shell).folder == tmp_path / "there"
    session(shell).close()
    shell.run_line_magic("cuda_optimize", "--brain replay --from ~/there --folder '~/the other'")
    assert session(shell).folder == tmp_path / "the other"


def test_a_cell_run_again_for_a_folder_that_is_taken_leaves_the_session_at_work(
    shell: InteractiveShell,
) -> None:
    line = "--device null --rounds 0 --no-archive --folder here"
    shell.run_cell_magic("cuda_optimize", line, CELL)
    before = session(shell)
    with pytest.raises(UsageError, match="already holds a session; resume it or choose another folder"):
        shell.run_cell_magic("cuda_optimize", line, CELL)
    assert session(shell) is before
    shell.run_cell_magic("cuda_kernel", "double", BY_HAND)
    assert list(before.tree.nodes) == ["e1"]


def test_a_folder_without_a_session_is_met_with_those_there_are(shell: InteractiveShell) -> None:
    for line in ("double", "elsewhere/nothing --look"):
        with pytest.raises(UsageError, match="check the path"):
            shell.run_line_magic("cuda_resume", line)
    shell.run_cell_magic("cuda_optimize", "--device null --rounds 1 --wait", CELL)
    where = session(shell).folder.name
    for line in ("double", "elsewhere/nothing --look"):
        with pytest.raises(UsageError, match=f"the newest: .workbench/{where}"):
            shell.run_line_magic("cuda_resume", line)


@pytest.mark.parametrize("line", ["cuda_optimize --help", "cuda_resume -h", "cuda_apply softmax --help"])
def test_help_is_help(shell: InteractiveShell, capsys: pytest.CaptureFixture[str], line: str) -> None:
    name, _, options = line.partition(" ")
    shell.run_line_magic(name, options)
    told = capsys.readouterr().out
    assert told.startswith(f"  %{name}") and "options:" in told


def test_resume_goes_on_in_the_same_folder(shell: InteractiveShell, tmp_path: Path) -> None:
    shell.run_cell_magic("cuda_optimize", "--device null --rounds 1 --wait --folder here", CELL)
    first = session(shell)
    tree = first.tree
    first.close()
    shell.run_line_magic("cuda_resume", f"{tmp_path / 'here'} --wait")
    assert session(shell) is not first
    assert session(shell).tree.nodes == tree.nodes
    session(shell).close()
    shell.run_line_magic("cuda_resume", f"{tmp_path / 'here'} --look")
    shown = shell.user_ns["session"]
    assert isinstance(shown, RecordedSession) and shown.tree.nodes == tree.nodes


def test_a_kernel_for_a_cell_that_cannot_be_read_names_that_cell_s_operation(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:  # as in a notebook, where a late mistake shows in the panel
        patch.setattr(LiveSession, "opened", lambda *_: False)
        cell = "import torch\ndef f(x):\n    return x @ x\ninputs = [torch.randn(2, 3)]\n"
        shell.run_cell_magic("cuda_optimize", "--device null --no-archive", cell)
    with pytest.raises(UsageError, match="f has no session: line 4: the reference raised"):
        shell.run_cell_magic("cuda_kernel", "", BY_HAND)


def test_a_recorded_session_is_the_one_that_is_meant(shell: InteractiveShell, tmp_path: Path) -> None:
    shell.run_cell_magic("cuda_optimize", "--device null --rounds 1 --wait --folder first", CELL)
    session(shell).close()
    cell = CELL.replace("double", "twice")
    shell.run_cell_magic("cuda_optimize", "--device null --rounds 0 --no-archive", cell)
    shell.run_line_magic("cuda_resume", "first --look")
    with pytest.raises(UsageError, match="only shown"):  # and not judged as a kernel for "twice"
        shell.run_cell_magic("cuda_kernel", "", BY_HAND)
    with pytest.raises(UsageError, match="double has no correct kernel yet"):
        shell.run_line_magic("cuda_export", f"double {tmp_path / 'out'}")
    shell.run_line_magic("cuda_resume", "first")
    live = session(shell)
    shell.run_line_magic("cuda_resume", "first --look")  # beside the one at work, which goes on
    shell.run_cell_magic("cuda_kernel", "double", BY_HAND)
    assert "e1" in live.tree.nodes


BY_HAND = """/* plan
def plan(x):
    rows, cols = x.shape
    require(x.dtype == f32 and x.is_contiguous, "contiguous float32 only")
    y = empty_like(x)
    launch("doubled", grid=cdiv(rows * cols, 256), block=256, args=[x, y, rows * cols])
    return y
*/
__global__ void doubled(const float* x, float* y, long long count) {
    long long i = blockIdx.x * 256ll + threadIdx.x;
    if (i < count) y[i] = 2.0f * x[i];
}
"""


def test_a_cell_s_kernel_is_judged_and_its_messages_have_the_cell_s_lines(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_cell_magic("cuda_optimize", "--device emulator --rounds 0", CELL)
    shell.run_cell_magic("cuda_kernel", "", BY_HAND)
    assert capsys.readouterr().out.strip().endswith("passed")
    shell.run_cell_magic("cuda_kernel", "double --parent e1", BY_HAND.replace("2.0f", "3.0f"))
    assert "mismatch:" in capsys.readouterr().out
    shell.run_cell_magic("cuda_kernel", "double", BY_HAND.replace("2.0f * x[i]", "2.0f * z[i]"))
    said = capsys.readouterr().out
    assert "cell:12: error:" in said and "z" in said  # the magic's own line is the first
    shell.run_cell_magic("cuda_kernel", "", BY_HAND)  # a cell that is run again has its verdict again
    assert capsys.readouterr().out.startswith("e1:\n") and "e4" not in session(shell).tree.nodes
    tree = session(shell).tree
    assert [(n.id, n.branch.parents, n.branch.author) for n in tree.nodes.values()] == [
        ("e1", (), "person"),
        ("e2", ("e1",), "person"),
        ("e3", (), "person"),
    ]
    assert tree.round == 0 and tree.stopped is not None


def test_a_kernel_in_a_cell_needs_a_session_and_a_parent_that_is_there(shell: InteractiveShell) -> None:
    with pytest.raises(UsageError, match="--rounds 0"):
        shell.run_cell_magic("cuda_kernel", "", BY_HAND)
    shell.run_cell_magic("cuda_optimize", "--device null --rounds 0", CELL)
    with pytest.raises(UsageError, match="there is no branch 'b7'"):
        shell.run_cell_magic("cuda_kernel", "--parent b7", BY_HAND)
    with pytest.raises(UsageError, match="no session for 'dubble'"):
        shell.run_cell_magic("cuda_kernel", "dubble", BY_HAND)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--round 2", "'--rounds'"),
        ("--devise emulator", "'--device'"),
        ("--device emulater", "'emulator'"),
        ("--device cuda", "cuda"),
        ("--brain playbok", "'playbook'"),
        ("--review automatic", "auto"),
        ("--rounds many", "--rounds takes a whole number, as in --rounds 3, not 'many'"),
        ("--device nul", "auto, emulator, cuda, not 'nul'"),
        ("--rounds -1", "at least 0"),
        ("--branches 0", "at least 1"),
        ("--rounds", "--rounds needs a value, as in --rounds 3"),
        ("--name", "--name needs a value, as in --name softmax"),
        ('--name "double', "cannot be read"),
        ("--name dubble", "'double'"),
    ],
)
def test_a_wrong_option_is_told_in_a_line_or_two(shell: InteractiveShell, line: str, words: str) -> None:
    assert words in refusal(shell, line)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("x = 1\n", "no function"),
        ("def f(x):\n    return x\n", "no inputs"),
        ("def f(x):\n    return x\ndef g(x):\n    return x\ninputs = [1]\n", "--name"),
        ("def f(x:\n", "line 2"),
    ],
)
def test_a_cell_that_cannot_be_read_is_told_with_its_line(
    shell: InteractiveShell, cell: str, words: str
) -> None:
    assert words in refusal(shell, "--device null", cell)


def test_a_reference_that_raises_is_told_with_its_line(shell: InteractiveShell) -> None:
    cell = "import torch\ndef f(x):\n    return x @ x\ninputs = [torch.randn(2, 3)]\n"
    assert "line 4" in refusal(shell, "--device null --wait", cell)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("cuda_apply", "required: name. It is %cuda_apply NAME"),
        ("cuda_apply softmax now", "unrecognized arguments: now. It is %cuda_apply NAME"),
        ("cuda_export softmax", "required: path. It is %cuda_export NAME PATH"),
        ("cuda_resume", "required: folder. It is %cuda_resume FOLDER"),
        ("cuda_kernel softmax e1", "unrecognized arguments: e1. It is %%cuda_kernel NAME"),
    ],
)
def test_words_that_are_missing_or_too_many(shell: InteractiveShell, line: str, words: str) -> None:
    name, _, options = line.partition(" ")
    with pytest.raises(UsageError, match=words):
        if name == "cuda_kernel":
            shell.run_cell_magic(name, options, BY_HAND)
        else:
            shell.run_line_magic(name, options)


def test_the_line_form_needs_a_name_that_exists(shell: InteractiveShell) -> None:
    assert "name a function" in refusal(shell, "", None)
    assert "nothing named" in refusal(shell, "softmax --inputs x", None)


def test_apply_without_a_session_or_with_a_misspelt_name(shell: InteractiveShell) -> None:
    with pytest.raises(UsageError, match="run %%cuda_optimize on it first"):
        shell.run_line_magic("cuda_apply", "double")
    shell.run_cell_magic("cuda_optimize", "--device null --rounds 1 --wait", CELL)
    with pytest.raises(UsageError, match="Did you mean 'double'"):
        shell.run_line_magic("cuda_apply", "doubel")


def test_export_says_what_it_cannot_write(shell: InteractiveShell, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="run %%cuda_optimize on it first"):
        shell.run_line_magic("cuda_export", f"double {tmp_path / 'x'}")
    shell.run_cell_magic("cuda_optimize", "--device null --rounds 1 --wait", CELL)
    with pytest.raises(UsageError, match="format is one of folder, kernelbench"):
        shell.run_line_magic("cuda_export", f"double {tmp_path / 'x'} --format kernelbensh")
    with pytest.raises(UsageError, match="no correct kernel yet"):
        shell.run_line_magic("cuda_export", f"double {tmp_path / 'x'} --format kernelbench")


def test_no_error_of_ours_reaches_the_person_as_a_traceback(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_cell("%%cuda_optimize --round 2\n" + CELL)
    told = capsys.readouterr()
    assert "Traceback" not in told.out + told.err
    assert "Did you mean '--rounds'" in told.out + told.err
    assert not issubclass(UsageError, WorkbenchError)  # the shell knows only its own


def test_options_and_their_values_are_completed(shell: InteractiveShell) -> None:
    def offered(text: str) -> list[str]:
        with provisionalcompleter():
            return [c.text for c in shell.Completer.completions(text, len(text))]

    assert "--rounds" in offered("%%cuda_optimize --ro")
    assert "--undo" in offered("%cuda_apply softmax --")
    assert offered("%%cuda_optimize --device em") == ["emulator"]
    assert "--rounds" not in offered("print(--ro")


def test_loading_twice_leaves_one_of_each(shell: InteractiveShell) -> None:
    workbench.load_ipython_extension(shell)
    workbench.load_ipython_extension(shell)
    matchers: list[Any] = shell.Completer.custom_matchers
    assert [m.__name__ for m in matchers].count(complete_options.__name__) == 1
    assert len([c for c in shell.configurables if isinstance(c, CudaMagics)]) == 1


def test_headless_from_cell_to_applied_kernel(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_cell_magic("cuda_optimize", "--rounds 1 --branches 2 --device emulator --wait", CELL)
    live = session(shell)
    assert live.tree.gate == "stopped"
    assert live.best is not None and live.best.score > 0
    shell.run_line_magic("cuda_apply", "double")
    assert "on the emulator" in capsys.readouterr().out
    double = shell.user_ns["double"]
    assert isinstance(double, Applied)
    x = torch.randn(8, 16)
    assert torch.allclose(double(x), 2 * x)
    assert (double.kernel_calls, double.fallback_calls) == (1, 0)
    shell.run_line_magic("cuda_apply", "double --undo")
    assert not isinstance(shell.user_ns["double"], Applied)


# ------------------------------------------------------------------------------------ models and replays


def test_a_model_by_config(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "WORKBENCH_MODEL"):
        monkeypatch.delenv(name, raising=False)
    assert "set OPENAI_API_KEY" in refusal(shell, "--brain llm --model m")
    shell.run_line_magic("config", 'CudaMagics.base_url = "ftp://elsewhere"')
    try:
        assert "'ftp://elsewhere'" in refusal(shell, "--brain llm --model m")
    finally:
        shell.run_line_magic("config", 'CudaMagics.base_url = ""')
    assert "Add --from" in refusal(shell, "--brain replay")


def test_a_cell_is_replayed(shell: InteractiveShell) -> None:
    shell.run_cell_magic("cuda_optimize", "--device null --rounds 1 --wait --folder here", CELL)
    shell.run_cell_magic("cuda_optimize", "--brain replay --from here --wait", CELL)
    assert session(shell).replayed()[0].startswith("replay: the recorded tree")


def test_a_recording_needs_no_cell(shell: InteractiveShell) -> None:
    """It has its own problem; the notebook has to define nothing."""
    shell.run_cell_magic("cuda_optimize", "--device null --rounds 1 --wait --folder here", CELL)
    shell.run_line_magic("cuda_optimize", "--brain replay --from here --wait")
    assert session(shell).replayed()[0].startswith("replay: the recorded tree")


def test_an_interrupted_wait_for_a_kernel_is_told_in_a_line(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    shell.run_cell_magic("cuda_optimize", "--device null --rounds 0 --no-archive", CELL)
    monkeypatch.setattr(LiveSession, "judge", interrupted)
    with pytest.raises(UsageError, match="no longer waited for"):
        shell.run_cell_magic("cuda_kernel", "double", "__global__ void k() {}")


def test_an_interrupt_while_the_cell_is_read_leaves_no_search_behind(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[LiveSession] = []

    def interrupted(live: LiveSession, *_: object) -> bool:
        waiting.append(live)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LiveSession, "opened", interrupted)
        with pytest.raises(UsageError, match="interrupted while the problem was read"):
            shell.run_cell_magic("cuda_optimize", "--device null --no-archive --folder here", CELL)
    assert "session" not in shell.user_ns
    [live] = waiting
    live._thread.join(120)
    assert not live._thread.is_alive() and live.tree.round == 0
    shell.run_cell_magic("cuda_optimize", "--device null --rounds 0 --no-archive", CELL)
    monkeypatch.setattr(LiveSession, "opened", interrupted)
    with pytest.raises(UsageError, match="still being read; run this cell again"):
        shell.run_cell_magic("cuda_kernel", "", BY_HAND)


CUDA_CELL = "/* plan\ndef plan(x):\n    return x\n*/\n__global__ void k() {}\n"


@pytest.mark.many(3)
@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (
            "%cuda_kernel\n" + CUDA_CELL,
            "%%cuda_kernel takes two percent signs and is the first line of its cell",
        ),
        ("%cuda_kernel double --parent e1\n" + CUDA_CELL, "takes two percent signs"),
        ("# mine\n\n%%cuda_kernel\n" + CUDA_CELL, "is the first line of its cell; here it is line 3"),
        ("import torch\n%%cuda_optimize --rounds 1\n" + CELL, "%%cuda_optimize takes two percent signs"),
        ("%cuda_optimize --rounds 0\n" + CELL, "%%cuda_optimize (two percent signs) on top of a cell"),
    ],
)
def test_a_cell_magic_that_is_none_is_told_in_a_line(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], cell: str, words: str
) -> None:
    done = shell.run_cell(cell)
    error = done.error_before_exec or done.error_in_exec
    assert isinstance(error, UsageError) and words in str(error)
    assert "Traceback" not in capsys.readouterr().err


def test_a_cell_that_only_speaks_of_the_magics_is_run(shell: InteractiveShell) -> None:
    assert shell.run_cell('text = """\n%%cuda_kernel\n%cuda_kernel x\n"""').success
    assert shell.run_cell("%%capture told\nprint('%cuda_kernel')\n").success


def test_a_cell_that_is_run_again_says_where_its_first_session_is(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_cell_magic("cuda_optimize", "--device null --rounds 0 --no-archive --folder one", CELL)
    shell.run_cell_magic("cuda_kernel", "", BY_HAND)
    assert "A new session" not in capsys.readouterr().out
    shell.run_cell_magic("cuda_optimize", "--device null --rounds 0 --no-archive --folder two", CELL)
    told = "A new session of double begins. The one before, with 1 branch: %cuda_resume one\n"
    assert told in capsys.readouterr().out
