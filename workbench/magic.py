"""The magics: read the line, wire a session, show it. Every one has a plain call beside it in ``live``.

Owns options and their errors. Imports neither torch nor a view until a magic runs.
"""

from __future__ import annotations

import re
import shlex
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)
from IPython.core.error import UsageError as ShellUsageError
from IPython.core.magic import (
    Magics,
    cell_magic,
    line_cell_magic,
    line_magic,
    magics_class,
)
from IPython.core.magic_arguments import argument, magic_arguments
from traitlets import Enum, Float, Int, Unicode
from traitlets.config import Configurable

from workbench import syntax
from workbench.errors import UsageError, WorkbenchError, nearest

if TYPE_CHECKING:
    from argparse import Namespace

    from IPython.core.interactiveshell import InteractiveShell

    from workbench.live import LiveSession, RecordedSession
    from workbench.problem.capture import Capture

DEVICES = ("auto", "emulator", "cuda", "null")
BRAINS = ("playbook", "llm", "replay")
REVIEWS = ("auto", "manual", "cards")
GRACE_S = 1.5
"""A mistake that shows while the cell is read this long ends the cell; a later one shows in the panel."""
CHOICES = {"--device": DEVICES, "--brain": BRAINS, "--review": REVIEWS}
"""Values that completion offers and that misspelt ones are compared with."""
EXAMPLES = {
    **{flag: words[0] for flag, words in CHOICES.items()},
    "--parent": "b3",
    "--name": "softmax",
    "--inputs": "a,b",
    "--folder": "runs/first",
    "--from": "runs/first",
    "--model": "NAME",
    "--format": "folder",
}
"""What is shown to somebody who left the value of an option out."""
FREE = ("--brain",)
"""Options that take more than these values: ``reasoner=llm,synthesizer=playbook``."""
SET_BY_CONFIG = (
    "rounds", "branches", "device", "brain", "review", "model", "max_tokens", "max_money", "max_seconds",
)  # fmt: skip
"""Options of a line that have a ``%config`` trait of the same name."""


@magics_class
class CudaMagics(Magics, Configurable):
    """``%%cuda_optimize``, ``%%cuda_kernel``, ``%cuda_resume``, ``%cuda_apply`` and ``%cuda_export``."""

    rounds = Int(3, help="rounds of search before you are asked for more").tag(config=True)
    branches = Int(24, help="most branches in the tree").tag(config=True)
    device = Enum(DEVICES, "auto", help="where kernels are judged").tag(config=True)
    brain = Unicode("playbook", help="who thinks of kernels: playbook, llm, replay, or role by role").tag(
        config=True
    )
    model = Unicode("", help="language model of all roles (WORKBENCH_MODEL)").tag(config=True)
    base_url = Unicode("", help="server of the language model (OPENAI_BASE_URL)").tag(config=True)
    key_variable = Unicode(
        "OPENAI_API_KEY", help="environment variable that holds the key; the key itself is never typed here"
    ).tag(config=True)
    prices = Unicode("", help="US dollars a million tokens, IN/OUT (WORKBENCH_PRICES)").tag(config=True)
    max_tokens = Int(0, help="most tokens for language models; 0: no limit").tag(config=True)
    max_money = Float(0.0, help="most US dollars for language models; 0: no limit").tag(config=True)
    max_seconds = Float(0.0, help="most seconds of search; 0: no limit").tag(config=True)
    review = Enum(
        REVIEWS, "auto", help="manual: wait for you after every round; cards: before kernels are written too"
    ).tag(config=True)

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell=shell, parent=shell)
        self._sessions: dict[str, LiveSession | RecordedSession] = {}
        self._names: dict[str, Any] = shell.user_ns

    @magic_arguments()
    @argument("target", nargs="?", help="line form: a function or module of the notebook")
    @argument("--rounds", type=int, help="rounds of search before you are asked for more (3)")
    @argument("--branches", type=int, help="most branches in the tree (24)")
    @argument("--device", help="auto, emulator or cuda: where kernels are judged (auto)")
    @argument("--brain", help="who thinks of kernels: playbook, llm, replay, or role by role (playbook)")
    @argument("--model", help="language model of all roles (WORKBENCH_MODEL)")
    @argument(
        "--from", dest="recorded", default="", help="with --brain replay: a session's folder or journal"
    )
    @argument("--max-tokens", type=int, help="most tokens for language models (no limit)")
    @argument("--max-money", type=float, help="most US dollars for language models (no limit)")
    @argument("--max-seconds", type=float, help="most seconds of search (no limit)")
    @argument(
        "--review",
        help="auto; manual: wait for you after every round; cards: before kernels are written too (auto)",
    )
    @argument("--no-archive", action="store_true", help="neither use nor keep what sessions learnt")
    @argument("--wait", action="store_true", help="end the cell when the search has ended")
    @argument("--name", help="which definition of the cell is meant, when there are several")
    @argument("--inputs", help="line form: names of the inputs in the notebook, as in --inputs a,b")
    @argument("--folder", help="where the session is kept (.workbench/NAME-TIME)")
    @line_cell_magic
    def cuda_optimize(self, line: str, cell: str | None = None) -> None:
        """Search for fast CUDA kernels for the operation in this cell, and return while it goes on.

        The session is ``session`` in the notebook: ``session.best``, ``session.to_frame()``,
        ``session.to_html()``, ``session.wait()``. The cell's code runs in a worker, not in the notebook.
        """
        from workbench.live.apply import announce
        from workbench.views.notebook import in_notebook

        with _plain_errors():
            options = self._options(line)
            capture = self._capture(options, cell)
            live = self._start(options, capture)
            try:
                live.opened(GRACE_S if in_notebook() and not options.wait else None)
            except KeyboardInterrupt:
                live.close()  # nobody would hold it, and it would search to its end
                raise UsageError("interrupted while the problem was read; no search was begun") from None
            if cell is not None and capture and capture.kind in ("function", "module_instance"):
                announce(live, self._names)
            self._show(live, wait=options.wait)

    @magic_arguments()
    @argument("name", nargs="?", help="the operation's name in the notebook (the newest session's)")
    @argument("--parent", help="branch that this kernel is a change of, as in --parent b3")
    @cell_magic
    def cuda_kernel(self, line: str, cell: str) -> None:
        """Judge the kernel in this cell, plan and device code, and show the verdict under it.

        It is a branch of yours in the session's tree. ``%%cuda_optimize --rounds 0`` opens a session that
        searches nothing and waits for such kernels.
        """
        with _plain_errors():
            options = _parse(self.cuda_kernel, line)
            live = self._session_named(options.name) if options.name else self._newest()
            self._wait_for_problem(live)
            # The magic's own line is line 1, so that messages have the person's line numbers.
            try:
                branch = live.judge("\n" + cell, options.parent)
            except KeyboardInterrupt:
                raise UsageError(
                    "no longer waited for: the kernel is still being judged, and session has the verdict then"
                ) from None
            self._show_verdict(live, branch)

    @magic_arguments()
    @argument("folder", help="folder of the session")
    @argument("--wait", action="store_true", help="end the cell when the search has ended")
    @argument("--look", action="store_true", help="show it as it was recorded; needs no GPU and no model")
    @line_magic
    def cuda_resume(self, line: str) -> None:
        """Go on with a session where it ended, or look at it: its kernel can be applied and exported, too."""
        from workbench.live import look, resume

        with _plain_errors():
            options = _parse(self.cuda_resume, line)
            if options.look:
                recorded = self._names["session"] = look(options.folder)
                if getattr(self._sessions.get(recorded.name), "closed", True):  # else it is at work here
                    self._sessions.pop(recorded.name, None)
                    self._sessions[recorded.name] = recorded
                recorded.show()
                return
            self._show(resume(Path(options.folder).expanduser()), wait=options.wait)

    @magic_arguments()
    @argument("name", help="the operation's name in the notebook")
    @argument("--undo", action="store_true", help="put the original back")
    @line_magic
    def cuda_apply(self, line: str) -> None:
        """Put the best kernel behind the original name, with the original as its fallback.

        The name then counts ``kernel_calls`` and ``fallback_calls``; ``last_fallback`` says why.
        """
        from workbench.live.apply import apply, restore

        with _plain_errors():
            options = _parse(self.cuda_apply, line)
            if options.undo:
                print(restore(options.name, self._names))
                return
            print(apply(self._session_named(options.name), self._names))

    @magic_arguments()
    @argument("name", help="the operation's name in the notebook")
    @argument("path", help="folder or file to write")
    @argument("--format", default="folder", help="folder, or kernelbench: one file with a class ModelNew")
    @line_magic
    def cuda_export(self, line: str) -> None:
        """Write the best kernel: a folder with journal and report, or one file for KernelBench."""
        with _plain_errors():
            options = _parse(self.cuda_export, line)
            live = self._session_named(options.name)
            print(f"written: {live.export(Path(options.path).expanduser(), options.format)}")

    # ------------------------------------------------------------------------------ steps

    def _options(self, line: str) -> Namespace:
        options = _parse(self.cuda_optimize, line)
        for name in ("folder", "recorded"):  # no shell has done it
            if path := getattr(options, name):
                setattr(options, name, str(Path(path).expanduser()))
        for name in SET_BY_CONFIG:
            if getattr(options, name) is None:
                setattr(options, name, getattr(self, name))
        for flag, known in CHOICES.items():
            if flag in FREE:
                continue
            value = getattr(options, flag.removeprefix("--"))
            if value not in known:
                shown = [word for word in known if word != "null"]  # for tests of the workbench itself
                raise UsageError(
                    f"{flag} is one of {', '.join(shown)}, not {value!r}.{nearest(value, shown)}"
                )
        if options.rounds < 0 or options.branches < 1:
            raise UsageError("--rounds is at least 0 (your own kernels only), --branches at least 1")
        return options

    def _capture(self, options: Namespace, cell: str | None) -> Capture | None:
        """What is to be made fast; None for a recording alone, which has its own problem."""
        from workbench.problem.capture import from_objects, read_cell

        if cell is None:
            if not options.target and options.recorded:
                return None
            if not options.target:
                raise UsageError(
                    "name a function of the notebook, as in %cuda_optimize softmax --inputs x,\n"
                    "or put %%cuda_optimize (two percent signs) on top of a cell that defines one, and inputs"
                )
            names = [name.strip() for name in (options.inputs or "").split(",") if name.strip()]
            return from_objects(self._names, options.target, names)
        # The magic's own line is line 1, so that errors have the person's line numbers.
        return read_cell("\n" + cell, options.name or options.target, self._names)

    def _start(self, options: Namespace, capture: Capture | None) -> LiveSession:
        from workbench.agents.llm.settings import Choice
        from workbench.live import optimize
        from workbench.live.start import choose_brain
        from workbench.policy import Policy

        choice = Choice(options.model, self.base_url, self.key_variable, self.prices)
        brain = choose_brain(options.brain, choice, options.recorded)
        policy = Policy(
            rounds=options.rounds,
            branches=options.branches,
            review="auto" if options.review == "auto" else "manual",
            cards="review" if options.review == "cards" else "run",
            tokens=options.max_tokens,
            money_usd=options.max_money,
            seconds=options.max_seconds,
            archive=not options.no_archive,
        )
        return optimize(capture, policy, options.device, brain, options.folder)

    def _show(self, live: LiveSession, wait: bool) -> None:
        from workbench.views.notebook import in_notebook

        if old := self._sessions.pop(live.name, None):
            if old.tree.nodes and old.folder != live.folder:
                print(_replaced(old))
            # In the background: its kernels in flight are waited for.
            threading.Thread(target=old.close, daemon=True).start()
        self._sessions[live.name] = live
        self._names["session"] = live
        shown = live.show()
        if not wait:
            return
        try:
            live.wait()
        except KeyboardInterrupt:
            live.stop()
        shown.freeze()
        if not in_notebook():
            print(live)

    def _wait_for_problem(self, live: LiveSession | RecordedSession) -> None:
        """Until it is read. An error of it names lines of another cell, so that its name is put in front."""
        try:
            live.opened()
        except KeyboardInterrupt:
            raise UsageError(
                "no longer waited for: the problem is still being read; run this cell again"
            ) from None
        except WorkbenchError as error:
            raise UsageError(f"{live.name} has no session: {error}") from None

    def _show_verdict(self, live: LiveSession | RecordedSession, branch: str) -> None:
        from IPython.display import display

        from workbench.model import BranchId
        from workbench.views.notebook import in_notebook
        from workbench.views.verdict import verdict_html, verdict_text

        text = verdict_text(live.tree, BranchId(branch), "cell")
        if not in_notebook():
            print(text)
            return
        display({"text/html": verdict_html(live.tree, BranchId(branch)), "text/plain": text}, raw=True)

    def _newest(self) -> LiveSession | RecordedSession:
        if not self._sessions:
            raise UsageError("no session to judge for: run %%cuda_optimize --rounds 0 on the operation first")
        return list(self._sessions.values())[-1]

    def _session_named(self, name: str) -> LiveSession | RecordedSession:
        if name in self._sessions:
            return self._sessions[name]
        if not self._sessions:
            raise UsageError(f"no session for {name!r}: run %%cuda_optimize on it first")
        known = ", ".join(self._sessions)
        raise UsageError(f"no session for {name!r}; there is {known}.{nearest(name, self._sessions)}")

    def close(self) -> None:
        """End every session."""
        for live in self._sessions.values():
            live.close()


class _plain_errors:
    """Turns the workbench's errors into the shell's own: one or two lines, no traceback."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, _Told):
            print(error)
            return True
        if isinstance(error, WorkbenchError):
            raise ShellUsageError(str(error)) from None
        return False


class _Told(Exception):
    """What was asked for is words and nothing else."""


def _replaced(old: LiveSession | RecordedSession) -> str:
    """What became of the session that a cell opened when it was run before."""
    from workbench.views.phrases import plural, shown_path

    had = plural(len(old.tree.nodes), "branch")
    where = shown_path(old.folder)
    return f"A new session of {old.name} begins. The one before, with {had}: %cuda_resume {where}"


def refuse_misplaced(lines: list[str]) -> list[str]:
    """Input transformer: a cell magic with one percent sign, or below the first line, is told as that.

    Python would only say that the CUDA below it is no Python. Raises the shell's ``UsageError``.
    """
    if lines and lines[0].startswith("%%"):
        return lines
    for number, line in enumerate(lines, 1):
        found = re.match(r"\s*(%{1,2})(cuda_kernel|cuda_optimize)\b", line)
        if found is None or (found[1] == "%" and found[2] == "cuda_optimize"):
            continue
        if _is_python("".join(lines)):  # the line stands in a string
            return lines
        where = "" if number == 1 else f"; here it is line {number}"
        raise ShellUsageError(
            f"%%{found[2]} takes two percent signs and is the first line of its cell{where}"
        )
    return lines


def _is_python(text: str) -> bool:
    try:
        syntax.module(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


refuse_misplaced.has_side_effects = True  # type: ignore[attr-defined]  # not asked while somebody types


def _parse(magic: Any, line: str) -> Namespace:
    """Options of a line; an unknown one is met with the nearest known one. Raises ``UsageError``."""
    parser = magic.parser
    known = [flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")]
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"the line cannot be read: {error}") from None
    if {"--help", "-h"} & set(words):
        raise _Told(parser.format_help().removeprefix("::\n\n"))
    for word in words:
        flag = word.partition("=")[0]
        if flag.startswith("-") and flag not in known and not _is_number(flag):
            raise UsageError(
                f"unknown option {flag}.{nearest(flag, known)} The options are {' '.join(known)}"
            )
    try:
        # Of the words, not of the line: the shell's own way of splitting leaves quotes around a path.
        options: Namespace = parser.parse_args(words)
        return options
    except ShellUsageError as error:
        raise UsageError(f"{_plainly(str(error))}{_how(parser, str(error))}") from None


def _plainly(text: str) -> str:
    """argparse's words for a value of the wrong kind, or none, in ours."""
    found = re.match(r"argument (--[\w-]+): (?:invalid (int|float) value: (.*)|expected one argument)$", text)
    if found is None:
        return text
    flag, kind, value = found.groups()
    if kind is None:
        return f"{flag} needs a value, as in {flag} {EXAMPLES.get(flag, '3')}"
    what = "a whole number" if kind == "int" else "a number"
    return f"{flag} takes {what}, as in {flag} 3, not {value}"


def _how(parser: Any, text: str) -> str:
    """Where words are missing or too many: which words the magic takes."""
    if not text.startswith(("the following", "unrecognized")):
        return ""
    takes = " ".join(action.dest.upper() for action in parser._actions if not action.option_strings)
    marks = "%%" if parser.prog == "cuda_kernel" else "%"
    return f". It is {marks}{parser.prog} {takes}"


def _is_number(word: str) -> bool:
    return word.lstrip("-").replace(".", "", 1).isdigit()


# ------------------------------------------------------------------------------------ completion


@context_matcher()
def complete_options(context: CompletionContext) -> SimpleMatcherResult:
    """Options of the ``cuda_`` magics, and the values of those that have a few."""
    line = context.text_until_cursor.splitlines()[-1] if context.text_until_cursor else ""
    found = re.match(r"\s*%{1,2}(cuda_optimize|cuda_kernel|cuda_resume|cuda_apply|cuda_export)\s(.*)$", line)
    words = []
    if found:
        parser = getattr(CudaMagics, found[1]).parser
        before, _, token = found[2].rpartition(" ")
        asked = before.split()[-1] if before.split() else ""
        flags = [f for action in parser._actions for f in action.option_strings if f.startswith("--")]
        words = [w for w in CHOICES.get(asked, flags) if w.startswith(token) and w != "null"]
    completions = [SimpleCompletion(text=word, type="option") for word in words]
    return {"completions": completions, "suppress": bool(words)}


def load(shell: InteractiveShell) -> None:
    """Register magics, their ``%config`` traits and completion; prints nothing.

    In a notebook a worker begins to import torch in the background: the first cell will need it.
    """
    magics = CudaMagics(shell)
    shell.register_magics(magics)
    transformers: list[Any] = shell.input_transformers_cleanup
    others = [t for t in transformers if getattr(t, "__name__", "") != refuse_misplaced.__name__]
    transformers[:] = [*others, refuse_misplaced]
    configurables: list[Any] = shell.configurables
    configurables[:] = [*(c for c in configurables if not isinstance(c, CudaMagics)), magics]
    completer = getattr(shell, "Completer", None)
    if completer is not None:
        others = [m for m in completer.custom_matchers if m.__name__ != complete_options.__name__]
        completer.custom_matchers[:] = [*others, complete_options]
    if hasattr(shell, "kernel"):
        threading.Thread(target=_warm_up, daemon=True).start()


def _warm_up() -> None:
    from workbench.live.warming import warm_up

    warm_up()
