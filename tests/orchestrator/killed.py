"""A session in a process of its own, to be killed at any moment: ``python killed.py FOLDER SALT``.

Begins or resumes the session in FOLDER; delays follow from SALT, so that every life is another race.
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from toy import ToyDevice, chance, opened

from workbench.agents.scripted import Faults, Script, scripted_team, with_faults
from workbench.orchestrator import run
from workbench.session import Session, has_session

SCRIPT = Script(
    kernels=(
        "// us 80",
        "oops",
        "// us 90",
        "// us 60",
        "// us 80",  # the same kernel as the first
        "// wrong",
        "// us 40",
        "// us 55",
        "broken",
        "// us 30",
        "// us 25",
    ),
    repairs=("// wrong again", "// us 70"),
)


async def search(folder: Path, salt: int, most_s: float) -> Session:
    """Begin or go on, with delays up to ``most_s`` seconds."""
    session = Session.resume(folder) if has_session(folder) else Session.create(folder, opened(parallel=3))
    dice = random.Random(salt)
    team = with_faults(scripted_team(SCRIPT), Faults(delay_s=lambda _: dice.random() * most_s / 4))
    device = ToyDevice(delay_s=lambda kernel: chance(kernel, salt, most_s))
    await run(session, team, device)
    return session


if __name__ == "__main__":
    print("begun", flush=True)
    asyncio.run(search(Path(sys.argv[1]), int(sys.argv[2]), 0.03))
