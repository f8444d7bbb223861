"""The expert whose answers are files, behind the model server. Run it to record the classroom's session.

It answers from the request alone: the card's title names the kernel, the failing kernel names its repair.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from pathlib import Path

from model_server import Json, ModelServer, Script, Turn, asked_for, words_of

from workbench.agents.casting import cast_team
from workbench.agents.llm.settings import Choice
from workbench.devices.base import Device
from workbench.devices.emulator import EmulatorDevice
from workbench.devices.select import keep_receipts
from workbench.model import Problem
from workbench.orchestrator import run
from workbench.policy import Policy
from workbench.session import Session, opening
from workbench.tree import Tree

ANSWERS = Path(__file__).parent / "expert_answers"
PROBLEMS = ("softmax", "layer_norm", "linear_rowsum")
POLICY = Policy(rounds=2, seeds=2, parents=1, hypotheses=1, refine=0.0, rewrite=0.0, crossover=1.0, repairs=2)
"""Two starts, their repairs, and one crossing."""
NOTE = "Recorded with a scripted expert: people wrote its answers, no language model did."


def problem_of(name: str) -> Problem:
    """The problem of ``reference.py``, as the intake read it."""
    return Problem.model_validate_json((ANSWERS / name / "problem.json").read_text())


def scripted_expert(name: str) -> Script:
    """Answers from the files of one problem."""
    folder = ANSWERS / name
    cards = json.loads((folder / "cards.json").read_text())
    files = {path.read_text().strip(): path for path in folder.glob("*.cu")}

    def answer(body: Json) -> Turn:
        words, kind = words_of(body), asked_for(body)
        if kind == "Cards":
            operator = "crossover" if "ways to cross the parents" in words else "seed"
            return Turn(json.dumps({"cards": cards[operator]}))
        if kind == "KernelAnswer":
            return Turn(json.dumps(_kernel(folder, words)))
        if kind == "RepairAnswer":
            role = "correctness" if "compiles and is wrong" in words else "compiler"
            broken = next(path for text, path in files.items() if text in words)
            return Turn(json.dumps(_repair(folder, role, broken)))
        return Turn(json.dumps(_lesson(words)))

    return answer


def _kernel(folder: Path, words: str) -> Json:
    section = words.rpartition(
        "## What to keep from each" if "## What to keep" in words else "## What to do"
    )[2]
    found = re.search(r'"((?:[^"\\]|\\.)*)"', section)
    assert found is not None
    slug = re.sub(r"\W+", "_", found[1].lower()).strip("_")
    return {"name": slug, "description": f"{found[1]}.", "source": (folder / f"{slug}.cu").read_text()}


def _repair(folder: Path, role: str, broken: Path) -> Json:
    source = (folder / f"{broken.name.partition('.')[0]}.{role}.cu").read_text()
    if role == "compiler":
        said = ("flaot is no type.", "The compiler names the line.", "float.")
    else:
        said = ("A term of the reference is missing.", "All elements are wrong alike.", "The term is back.")
    return {"issue": said[0], "why": said[1], "fix": said[2], "source": source}


def _lesson(words: str) -> Json:
    title = re.search(r'Hypothesis: "(.*?)"', words)
    found = re.search(r"Found factor: (\d+(?:\.\d+)?)", words)
    what = title[1] if title else "It"
    lesson = f"{what} gave {found[1]}x." if found else f"{what} was not right yet; mend it before judging it."
    return {"diagnosis_right": True, "fix_effective": found is not None, "lesson": lesson}


def search(name: str, folder: Path, problem: Problem | None = None, device: Device | None = None) -> Tree:
    """The expert's session, on the emulator or on ``device``, which is closed in the end."""
    with ModelServer(scripted_expert(name)) as server:
        team = cast_team("llm:scripted-expert", Choice(base_url=server.url))
        device = device or EmulatorDevice()
        keep_receipts(device, folder)
        first = opening(problem or problem_of(name), POLICY, device, team.name)

        async def work(session: Session) -> None:
            try:
                await run(session, team, device)
            finally:
                await device.close()

        with Session.create(folder, first) as session:
            asyncio.run(work(session))
            return session.tree


def main() -> None:
    """Write the problems anew, then record softmax for the classroom."""
    from workbench.problem.capture import read_file
    from workbench.problem.intake import open_problem

    for name in PROBLEMS:
        problem = open_problem(read_file(ANSWERS / name / "reference.py"))
        (ANSWERS / name / "problem.json").write_text(problem.model_dump_json(indent=1) + "\n")
    softmax = problem_of("softmax")
    with tempfile.TemporaryDirectory() as scratch:
        noted = softmax.model_copy(update={"notes": (*softmax.notes, NOTE)})
        search("softmax", Path(scratch), noted)
        recorded = (Path(scratch) / "journal.jsonl").read_text()
    Path(sys.argv[1]).write_text(recorded)


if __name__ == "__main__":
    main()
