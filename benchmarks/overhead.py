"""What the search itself costs: 200 branches, a model that answers at once, a device that judges nothing.

Four ways, each in a process of its own: agents that answer from a list, which is the orchestration alone
(decide, journal, tree); an instant model: all five roles through the client, whose answers come from the same
process without a socket, which adds prompts, the client and the conversation's record; the same with nothing
recorded of what was said, to tell what the record costs; and against an HTTP server in another process,
which adds the network's part and the server's own time.

Memory is asked for twice: of the process, and, in a second run under ``tracemalloc``, of what Python holds. A
branch has to stay in memory: its card, kernel, findings and lesson, and who said how much when. These values
are weighed one by one, so that what grows beside them can be told from them.

Prints a table; writes ``overhead.json`` to the folder that ``$WORKBENCH_RECEIPTS`` names. A busy machine
takes longer for the same work: the receipt tells its load and how long five million additions took.
Usage: ``python benchmarks/overhead.py [--branches 200] [--profile] [--only instant]``
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import functools
import gc
import json
import os
import platform
import pstats
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "agents")]

from workbench.agents.base import Team  # noqa: E402
from workbench.agents.casting import cast_team  # noqa: E402
from workbench.agents.llm.endpoint import Endpoint  # noqa: E402
from workbench.agents.llm.settings import Choice  # noqa: E402
from workbench.agents.scripted import Script, scripted_team  # noqa: E402
from workbench.devices.null import NullDevice  # noqa: E402
from workbench.orchestrator import run  # noqa: E402
from workbench.policy import Policy  # noqa: E402
from workbench.session import Session, opening  # noqa: E402
from workbench.tree import Tree  # noqa: E402
from workbench.workers.keeping import end, kept  # noqa: E402

REACH_S = 5.0
GC_HEADER = 16
"""Bytes that the interpreter puts before everything its collector looks at."""
TECHNIQUES = 24
"""What the model's ideas vary: a chain of ideas that each add one would measure its own length."""
NOWHERE = "http://localhost:9/v1"
SERVER = "from model_server import ModelServer; from expert import expert; import time;"
SERVER += f"s = ModelServer(expert(techniques={TECHNIQUES}));"
SERVER += "s.__enter__(); print(s.url, flush=True); time.sleep(600)"
Json = dict[str, Any]


def resident_bytes() -> int:
    """Memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def yardstick_s() -> float:
    """Processor time of a loop that does nothing else: how fast this machine is just now."""
    began, total = time.process_time(), 0
    for number in range(5_000_000):
        total += number
    return round(time.process_time() - began, 3)


def own_bytes(value: object, seen: set[int]) -> int:
    """Bytes of a value and all that hangs on it, but for what was ``seen``, types and code."""
    total, left = 0, [value]
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, type | ModuleType | FunctionType | BuiltinFunctionType):
            continue
        seen.add(id(one))
        total += sys.getsizeof(one) + (GC_HEADER if gc.is_tracked(one) else 0)
        left += gc.get_referents(one)
    return total


class Scales:
    """Weighs the search when half of its branches are there, and at the end."""

    def __init__(self, branches: int) -> None:
        self.marks = (branches // 2, branches)
        self.found: dict[int, Json] = {}

    def look(self, tree: Tree) -> None:
        """Once for each mark that is reached or passed: weighing is dear beside an event."""
        size = len(tree.nodes)
        if len(self.found) < len(self.marks) and size >= self.marks[len(self.found)]:
            self.found[size] = self.weigh(tree)

    @staticmethod
    def weigh(tree: Tree) -> Json:
        """Memory of the process; under ``tracemalloc`` also of what Python and the tree hold."""
        found: Json = {"process": resident_bytes()}
        if tracemalloc.is_tracing():
            gc.collect()
            found["python"] = tracemalloc.get_traced_memory()[0]
            seen: set[int] = {id(tree.opened), id(tree.base)}
            found["branches"] = own_bytes(tree.nodes, seen)
            found["exchanges"] = own_bytes(tree.exchanges, seen)
        return found

    def grown(self) -> Json:
        """What a branch of the second half added, in bytes."""
        (few, half), (many, end) = self.found.items()
        return {name: round((end[name] - half[name]) / (many - few)) for name in end}


def searched(team: Team, branches: int) -> Json:
    """One search, with what it cost this process."""
    from scripted_expert import problem_of

    device = NullDevice()
    policy = Policy(rounds=10**6, branches=branches, stagnant_rounds=10**6, stop_at_roofline=1e9)
    scales = Scales(branches)
    with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
        first = opening(problem_of("softmax"), policy, device, team.name)
        with Session.create(Path(folder), first) as session:
            session.subscribe(scales.look)
            wall, cpu = time.perf_counter(), time.process_time()
            asyncio.run(run(session, team, device))
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            tree = session.tree
        journal = (Path(folder) / "journal.jsonl").stat().st_size
    return {
        "branches": len(tree.nodes),
        "calls": len(tree.exchanges),
        "wall_s": round(wall, 2),
        "cpu_s": round(cpu, 2),
        "waited_for_answers_s": round(sum(one.seconds for one in tree.exchanges.values()), 2),
        "journal_bytes": journal,
        "a_branch_bytes": scales.grown(),
        "stopped": tree.stopped.reason if tree.stopped else "",
    }


def in_process(branches: int) -> Json:
    """Agents that answer from a list."""
    kernels = tuple(f"// null: passed {10 + 90 / (n + 1):.4f}" for n in range(branches))
    return searched(scripted_team(Script(kernels=kernels)), branches)


def instant_model(branches: int) -> Json:
    """The language-model roles; the client's transport answers at once, in this process."""
    import httpx2  # the client's own
    from expert import expert
    from model_server import streamed
    from openai import AsyncOpenAI

    answer = expert(techniques=TECHNIQUES)

    async def respond(request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        content = streamed(answer(body), body)
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=content)

    def opened(_: Endpoint) -> AsyncOpenAI:
        transport = httpx2.MockTransport(respond)
        client = httpx2.AsyncClient(transport=transport)
        return AsyncOpenAI(api_key="none", base_url=NOWHERE, max_retries=0, http_client=client)

    with patch.object(Endpoint, "_open", functools.cache(opened)):
        return searched(cast_team("llm:instant", Choice(base_url=NOWHERE)), branches)


def unrecorded(branches: int) -> Json:
    """The same, and what was said is forgotten: what is left when nothing is kept of a conversation."""
    from workbench.agents.llm.record import Record

    with patch.object(Record, "post", lambda self, event: None):
        return instant_model(branches)


def over_http(branches: int) -> Json:
    """The language-model roles against a server in another process."""
    places = os.pathsep.join([str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "agents")])
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(
        kept(command), stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": places}
    ) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            return searched(cast_team("llm:instant", Choice(base_url=url)), branches)
        finally:
            end(server)


WAYS = {
    "list": ("agents that read a list", in_process),
    "instant": ("five roles, an instant model", instant_model),
    "unrecorded": ("the same, nothing recorded of what was said", unrecorded),
    "http": ("five roles, a server over HTTP", over_http),
}


def apart(way: str, options: argparse.Namespace, traced: bool) -> Json:
    """One way in a process of its own, whose memory no other way has shaped."""
    command = [sys.executable, __file__, "--way", way, "--branches", str(options.branches)]
    command += ["--traced"] if traced else []
    command += ["--profile"] if options.profile and not traced else []
    *said, last = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    print("\n".join(said), end="\n" if said else "")
    row: Json = json.loads(last)
    return row


def alone(options: argparse.Namespace) -> None:
    """In the process of its own: search, and print what it cost."""
    if options.traced:
        tracemalloc.start(1)
    way = WAYS[options.way][1]
    profile = cProfile.Profile()
    row = profile.runcall(way, options.branches) if options.profile else way(options.branches)
    if options.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
    print(json.dumps(row))


def line(name: str, row: Json) -> str:
    """What a way cost, for reading."""
    grown, total = row["a_branch_bytes"], row["a_branch_bytes"]["python"]
    held = grown["branches"] + grown["exchanges"]
    return (
        f"{name}: {row['branches']} branches, {row['calls']} calls: {row['wall_s']} s, {row['cpu_s']} s of "
        f"processor time; a branch of the second half adds {grown['process'] / 1024:.1f} KiB to the process, "
        f"{total / 1024:.1f} to what Python holds: branches {grown['branches'] / 1024:.1f}, "
        f"exchanges {grown['exchanges'] / 1024:.1f}, all else {(total - held) / 1024:.1f}"
    )


def main() -> None:
    """Search every way, print and keep what it cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--branches", type=int, default=200)
    parser.add_argument("--profile", action="store_true", help="say where the time goes")
    parser.add_argument("--only", default=",".join(WAYS), help=f"of {', '.join(WAYS)}")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--traced", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        return alone(options)
    rows: Json = {}
    for way in options.only.split(","):
        name = WAYS[way][0]
        rows[name] = apart(way, options, traced=False)
        weighed = apart(way, options, traced=True)["a_branch_bytes"]
        rows[name]["a_branch_bytes"] = {**weighed, "process": rows[name]["a_branch_bytes"]["process"]}
        print(line(name, rows[name]), flush=True)
    if where := os.environ.get("WORKBENCH_RECEIPTS"):
        receipt = {
            "reach_s": REACH_S,
            "python": platform.python_version(),
            "load": os.getloadavg(),
            "five_million_additions_s": yardstick_s(),
            "ways": rows,
        }
        Path(where, "overhead.json").write_text(json.dumps(receipt, indent=1) + "\n")


if __name__ == "__main__":
    main()
