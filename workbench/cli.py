"""The ``workbench`` command: arguments in, exit codes out.

Owns option parsing, what is printed and the exit code; the work is done by live/, referee and views/.
Exit codes: 0 done (or passed), 1 nothing correct found (or not passed), 2 bad usage, bad problem or a
broken machine.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.errors import UsageError, WorkbenchError, nearest
from workbench.policy import Policy

if TYPE_CHECKING:
    from workbench.agents.base import Team
    from workbench.live import LiveSession
    from workbench.model import Problem
    from workbench.tree import Tree

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it: 128 and the signal's number."""

app = typer.Typer(
    help="Turn PyTorch code into CUDA kernels: search, judge, export.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ProblemFile = Annotated[Path, typer.Argument(help="Python file with a reference, inputs and shapes.")]
Name = Annotated[str | None, typer.Option(help="Which function or class, when the file has several.")]
Device = Annotated[str, typer.Option(help="auto, emulator or cuda.")]
Brain = Annotated[
    str,
    typer.Option(help="Who fills the roles: playbook, llm, replay, or reasoner=llm,synthesizer=playbook."),
]
Model = Annotated[str, typer.Option(help="Language model of all roles; WORKBENCH_MODEL by default.")]
From = Annotated[
    str, typer.Option("--from", help="With --brain replay: a session's folder, or a journal's file.")
]
MaxTokens = Annotated[int, typer.Option(min=0, help="Most tokens for language models; 0: no limit.")]
MaxMoney = Annotated[float, typer.Option(min=0, help="Most US dollars for language models; 0: no limit.")]
MaxSeconds = Annotated[float, typer.Option(min=0, help="Most seconds of search; 0: no limit.")]
Rounds = Annotated[int, typer.Option(min=1, help="Rounds to run.")]
Branches = Annotated[int, typer.Option(min=1, help="Most branches in the tree.")]
Hazards = Annotated[
    str,
    typer.Option(help="sanitizer: on a GPU, run what passes under compute-sanitizer too; takes a minute."),
]
Json = Annotated[Path | None, typer.Option("--json", help="Write the result as JSON.")]
Html = Annotated[Path | None, typer.Option("--html", help="Write the report, a page without scripts.")]
Export = Annotated[Path | None, typer.Option("--export", help="Folder for the best kernel and the journal.")]
Folder = Annotated[Path | None, typer.Option(help="Session folder; a new one in .workbench by default.")]


def _tell_version(asked: bool) -> None:
    if asked:
        from workbench import __version__

        typer.echo(f"workbench {__version__}")
        raise typer.Exit


@app.callback()
def workbench(
    version: Annotated[
        bool,
        typer.Option("--version", help="Say which version this is.", callback=_tell_version, is_eager=True),
    ] = False,
) -> None:
    """Options before any command."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report, the kernel and the session.")] = Path(
        "out"
    ),
    rounds: Rounds = 3,
    device: Device = "auto",
) -> None:
    """Optimise the softmax of sample_ops, offline, and write OUT/demo.html."""
    from workbench.live import optimize as start
    from workbench.live.start import fresh_folder

    problem = _open(_sample("softmax"), None)
    folder = out / fresh_folder("demo").name
    with start(problem, Policy(rounds=rounds), device, "playbook", folder) as session:
        _follow(session)
        _write_results(session, None, out / "demo.html", None)
        best = session.best
        if best is None:
            raise typer.Exit(1)
        kernel = out / "best.cu"
        _write(kernel, best.source)
    typer.echo(f"\nreport   {out / 'demo.html'}\nkernel   {kernel}\nsession  {folder}")


@app.command()
def optimize(
    problem: Annotated[
        Path | None, typer.Argument(help="Python file with a reference; a replay has its own.")
    ] = None,
    name: Name = None,
    device: Device = "auto",
    brain: Brain = "playbook",
    model: Model = "",
    recorded: From = "",
    rounds: Rounds = 3,
    branches: Branches = 24,
    max_tokens: MaxTokens = 0,
    max_money: MaxMoney = 0.0,
    max_seconds: MaxSeconds = 0.0,
    json_file: Json = None,
    html: Html = None,
    export: Export = None,
    folder: Folder = None,
    archive: Annotated[bool, typer.Option(help="Use and keep what sessions learnt.")] = True,
    sanitize: Annotated[
        int, typer.Option(min=0, help="Best kernels compute-sanitizer looks at while a GPU is idle.")
    ] = 0,
) -> None:
    """Search for fast kernels for the reference in PROBLEM."""
    from workbench.live import optimize as start

    team = _brain(brain, model, recorded)
    caps = {"tokens": max_tokens, "money_usd": max_money, "seconds": max_seconds}
    width = {"rounds": rounds, "branches": branches, "sanitize": sanitize}
    policy = Policy.model_validate({**width, "archive": archive, **caps})
    opened = _open(problem, name) if problem is not None else None
    with start(opened, policy, device, team, folder) as session:
        _finish(session, json_file, html, export)


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(help="Session folder.")],
    rounds: Annotated[int, typer.Option(min=0, help="More rounds than were planned.")] = 0,
    branches: Annotated[int, typer.Option(min=0, help="Room for so many more branches in the tree.")] = 0,
    json_file: Json = None,
    html: Html = None,
    export: Export = None,
) -> None:
    """Go on with a session where its journal ends."""
    from workbench.live import resume as reopen
    from workbench.session import has_session, read_tree

    before = read_tree(folder) if has_session(folder) else None
    with reopen(folder) as session:
        if branches and not rounds:
            rounds = 1
        if rounds:
            session.next_round(rounds, branches)
        _finish(session, json_file, html, export, before)


@app.command()
def conversation(
    session: Annotated[Path, typer.Argument(help="Session folder.")],
    branch: Annotated[str, typer.Argument(help="Branch, such as b3; all of them by default.")] = "",
    prompts: Annotated[bool, typer.Option(help="Show what was sent, too.")] = True,
) -> None:
    """Show what was said with language models about a branch."""
    from workbench.model import BranchId
    from workbench.session import read_tree
    from workbench.views.conversation import conversation_text

    tree = read_tree(session)
    for id in [BranchId(branch)] if branch else list(tree.nodes):
        typer.echo(conversation_text(tree, id, prompts))


@app.command()
def judge(
    kernel: Annotated[
        Path, typer.Argument(help="A .cu file with its plan, or a .py file with a class ModelNew.")
    ],
    problem: ProblemFile,
    name: Name = None,
    device: Device = "auto",
    hazards: Hazards = "auto",
    json_file: Json = None,
) -> None:
    """Judge one kernel: exit code 0 passed, 1 not passed, 2 bad usage or bad problem.

    A .py file is foreign code: it runs in a sandbox, on cpu or cuda.
    """
    if kernel.suffix == ".py":
        raise typer.Exit(_judge_foreign(kernel, problem, name, device, json_file))
    import asyncio

    from workbench.devices.select import look_for_hazards
    from workbench.live.start import open_device_named
    from workbench.model import Kernel
    from workbench.views.judgement import judgement, judgement_lines

    source = Kernel(source=_read(kernel))
    machine = open_device_named(device)
    look_for_hazards(machine, hazards)
    opened = _open(problem, name)

    async def evaluate() -> Any:
        try:
            return await machine.evaluate(opened, source, lambda stage: None)
        finally:
            await machine.close()

    evaluation = asyncio.run(evaluate())
    found = judgement(evaluation)
    if json_file is not None:
        _write(json_file, json.dumps(found, indent=1) + "\n")
    for line in judgement_lines(found, str(kernel)):
        typer.echo(line)
    raise typer.Exit(0 if evaluation.passed else 1)


@app.command("export")
def export_session(
    session: Annotated[Path, typer.Argument(help="Session folder.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.")],
    format: Annotated[str, typer.Option(help="kernelbench: one file with a class ModelNew.")] = "kernelbench",
) -> None:
    """Write a session's best kernel as a file that other harnesses can judge."""
    from workbench.live.export import export_kernelbench
    from workbench.session import read_tree

    if format != "kernelbench":
        raise UsageError(
            f"--format is kernelbench, not {format!r}.{nearest(format, ['kernelbench'])} "
            "(optimize --export writes a folder with kernel, journal and report)"
        )
    typer.echo(f"written  {export_kernelbench(read_tree(session), out)}")


@app.command("replay-receipt")
def replay_receipt(
    receipt: Annotated[Path, typer.Argument(help="JSON file of a measured result.")],
    device: Annotated[str, typer.Option(help="auto measures again where there is a GPU; emulator never.")] = (
        "auto"
    ),
    json_file: Json = None,
) -> None:
    """Check a receipt and, on a GPU, measure again: exit code 0 it holds, 1 something differs."""
    from workbench.live.replay import replay
    from workbench.referee.receipts import read_receipt
    from workbench.referee.replay import state_of

    told = read_receipt(receipt)
    findings = []
    for finding in replay(told, device):
        findings.append(finding)
        typer.echo(f"{finding.state:<13}{finding.what:<28}{finding.detail}".rstrip())
    state = state_of(findings)
    if json_file is not None:
        found = {"state": state, "findings": [one.model_dump() for one in findings]}
        _write(json_file, json.dumps(found, indent=1) + "\n")
    typer.echo({"agrees": "the receipt holds", "differs": "the receipt does not hold"}.get(state, state))
    raise typer.Exit(0 if state == "agrees" else 1)


@app.command("archive")
def archive_command(
    clear: Annotated[bool, typer.Option("--clear", help="Forget everything.")] = False,
) -> None:
    """List what searches have taught so far, by device and family of problems."""
    from workbench.archive import Archive, archive_folder, recall, sentences

    folder = archive_folder()
    if folder is None:
        raise UsageError("the archive is switched off by WORKBENCH_ARCHIVE=off")
    kept = Archive(folder)
    if clear:
        typer.echo(f"{kept.clear()} families forgotten")
        return
    shelves = kept.shelves()
    for shelf, found in shelves:
        typer.echo(f"{shelf.device}: {shelf.family} ({len(found)} kernels)")
        for sentence in sentences(recall(found, "", {})):
            typer.echo(f"    {sentence}")
    if not shelves:
        typer.echo(f"nothing is kept in {folder} yet")


@app.command()
def doctor() -> None:
    """Say what this machine has: Python, torch, NVRTC, compiler, GPU or why not, keys set or not."""
    from workbench.compile.toolchain import toolchain_facts
    from workbench.devices.select import device_fact

    facts = (*toolchain_facts(), device_fact())
    width = max(len(fact.name) for fact in facts)
    for fact in facts:
        mark = "ok" if fact.ok else ("MISSING" if fact.needed else "-")
        typer.echo(f"{mark:<8}{fact.name:<{width + 2}}{fact.found}")
    if any(fact.needed and not fact.ok for fact in facts):
        raise typer.Exit(1)


# ------------------------------------------------------------------------------------ the work


def _open(path: Path, name: str | None) -> Problem:
    from workbench.problem.capture import read_file
    from workbench.problem.intake import open_problem
    from workbench.views.terminal import console

    capture = read_file(path, name)
    out = console()
    if not out.is_terminal:
        problem = open_problem(capture)
    else:
        with out.status("reading the problem") as status:
            problem = open_problem(capture, status.update)
    for note in problem.notes:
        typer.echo(f"note: {note}", err=True)
    return problem


def _brain(brain: str, model: str, recorded: str) -> Team | str:
    from workbench.agents.llm.settings import Choice
    from workbench.live.start import choose_brain

    return choose_brain(brain, Choice(model=model), recorded)


def _follow(session: LiveSession) -> bool:
    """Show progress until the search rests; Ctrl-C stops it after the kernels in flight: then True."""
    from workbench.views.terminal import console, follow, summary

    out = console()
    if session.tree.opened is not None and session.tree.opened.estimate:
        typer.echo(f"expected: {session.tree.opened.estimate}", err=True)
    interrupted = False
    try:
        follow(session, out)
    except KeyboardInterrupt:
        interrupted = True
        typer.echo("stopping after the kernels in flight; Ctrl-C again to leave at once", err=True)
        session.stop()
        session.wait()
    session.wait()
    out.print(summary(session.tree))
    _tell_failures(session)
    return interrupted


def _tell_failures(session: LiveSession) -> None:
    """What went wrong outside the kernels, each once, and what language models cost."""
    told = Counter(f"{failure.role}: {failure.message}" for failure in session.tree.failures)
    for text, count in told.items():
        typer.echo(f"failed: {text}" + (f" ({count} times)" if count > 1 else ""), err=True)
    if session.tree.exchanges:
        from workbench.views.spending import spent_words

        typer.echo(spent_words(session.tree))


def _tell_replay(session: LiveSession) -> None:
    """Whether a replay grew the recorded tree, or where it left it."""
    from workbench.live.recordings import replay_words

    for line in replay_words(session.tree):
        typer.echo(line)


def _finish(
    session: LiveSession,
    json_file: Path | None,
    html: Path | None,
    export: Path | None,
    before: Tree | None = None,
) -> None:
    """Follow to the end, write what was asked for; ``before`` is what a resumed journal said."""
    from workbench.views.phrases import shown_path

    interrupted = _follow(session)
    _tell_replay(session)
    _write_results(session, json_file, html, export)
    if before is not None and before.stopped is not None and before.nodes == session.tree.nodes:
        typer.echo(f"The search was over already, and nothing was done{_more(before)}.")
    where = shown_path(session.folder)
    typer.echo(f"\nsession  {where}  (workbench resume {where} goes on)")
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if session.best is None:
        raise typer.Exit(1)


def _more(tree: Tree) -> str:
    """How to have more done; where the budget of branches is used, that has to grow first."""
    from workbench.search import budget_left

    room = tree.opened is not None and budget_left(tree, tree.opened.policy) > 0
    return "; --rounds N asks for more rounds" if room else "; --branches N makes room for more"


def _write_results(
    session: LiveSession, json_file: Path | None, html: Path | None, export: Path | None
) -> None:
    from workbench.views.judgement import session_json

    if json_file is not None:
        _write(json_file, json.dumps(session_json(session.tree), indent=1) + "\n")
    if html is not None:
        _write(html, session.to_html())
    if export is not None and session.best is not None:
        session.export(export)


def _judge_foreign(
    solution: Path, problem: Path, name: str | None, device: str, json_file: Path | None
) -> int:
    """Judge code that brings its own host side; the exit code."""
    from workbench.foreign.judge import judge_solution, place_named
    from workbench.foreign.values import ForeignOptions
    from workbench.views.foreign_judgement import foreign_judgement, foreign_lines

    options = ForeignOptions(device=place_named(device))
    text = _read(solution)
    if "ModelNew" not in text and "import *" not in text:
        raise UsageError(
            f"{solution} has no class ModelNew: a solution in Python defines it beside what it needs"
        )
    evaluation = judge_solution(_open(problem, name), text, options)
    if json_file is not None:
        _write(json_file, json.dumps(foreign_judgement(evaluation), indent=1) + "\n")
    for line in foreign_lines(evaluation):
        typer.echo(line)
    return 0 if evaluation.passed else 1


def _sample(name: str) -> Path:
    """A file of ``sample_ops``: beside the package in a checkout, inside it in an installation."""
    here = Path(__file__).resolve().parent
    folders = (here.parent / "sample_ops", here / "sample_ops")
    found = next((folder / f"{name}.py" for folder in folders if (folder / f"{name}.py").is_file()), None)
    if found is None:
        raise UsageError(f"sample_ops/{name}.py is missing from this installation; install it again")
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        beside = nearest(path.name, (p.name for p in path.parent.glob("*"))) if path.parent.is_dir() else ""
        reason = getattr(error, "strerror", None) or "it is not a text file"
        raise UsageError(f"cannot read {path}: {reason}.{beside}") from error


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


def main() -> None:
    """Entry point: errors meant for people go to standard error in a line or two, with exit code 2."""
    try:
        app()
    except WorkbenchError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
