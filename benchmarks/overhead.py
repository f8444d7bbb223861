"""What the search itself costs: 200 branches, a model that answers at once, a device that judges nothing.

Three ways: agents that answer from a list, which is the orchestration alone (decide, journal, tree); an
instant model: all five roles through the client, whose answers come from this process without a socket, which
adds prompts, the client and the conversation's record; and the same against an HTTP server in another
process, which adds the network's part and the server's own time. Prints a table; writes ``overhead.json`` to
the folder that ``$WORKBENCH_RECEIPTS`` names. A busy machine takes longer for the same work: the receipt
tells its load, and how long a loop of five million additions took.
Usage: ``python benchmarks/overhead.py [--branches 200] [--profile]``
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import functools
import json
import os
import platform
import pstats
import subprocess
import sys
import tempfile
import time
from pathlib import Path
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

REACH_S = 5.0
NOWHERE = "http://localhost:9/v1"
SERVER = "from model_server import ModelServer; from expert import expert; import time;"
SERVER += "s = ModelServer(expert()); s.__enter__(); print(s.url, flush=True); time.sleep(600)"
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


def weighed(tree: Tree, sizes: list[tuple[int, int]]) -> None:
    """Note the memory once for every size of the tree: asking for it is dear beside an event."""
    if not sizes or sizes[-1][0] != len(tree.nodes):
        sizes.append((len(tree.nodes), resident_bytes()))


def searched(team: Team, branches: int) -> Json:
    """One search, with what it cost this process."""
    from scripted_expert import problem_of

    device = NullDevice()
    policy = Policy(rounds=10**6, branches=branches, stagnant_rounds=10**6, stop_at_roofline=10.0)
    sizes: list[tuple[int, int]] = []
    with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
        first = opening(problem_of("softmax"), policy, device, team.name)
        with Session.create(Path(folder), first) as session:
            session.subscribe(lambda tree: weighed(tree, sizes))
            wall, cpu = time.perf_counter(), time.process_time()
            asyncio.run(run(session, team, device))
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            tree = session.tree
        journal = (Path(folder) / "journal.jsonl").stat().st_size
    half = next(memory for count, memory in sizes if count >= len(tree.nodes) // 2)
    return {
        "branches": len(tree.nodes),
        "calls": len(tree.exchanges),
        "wall_s": round(wall, 2),
        "cpu_s": round(cpu, 2),
        "waited_for_answers_s": round(sum(one.seconds for one in tree.exchanges.values()), 2),
        "journal_bytes": journal,
        "grown_in_second_half_bytes": sizes[-1][1] - half,
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

    answer = expert()

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


def over_http(branches: int) -> Json:
    """The language-model roles against a server in another process."""
    places = os.pathsep.join([str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "agents")])
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": places}
    ) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            return searched(cast_team("llm:instant", Choice(base_url=url)), branches)
        finally:
            server.kill()


def main() -> None:
    """Search both ways, print and keep what it cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--branches", type=int, default=200)
    parser.add_argument("--profile", action="store_true", help="say where the time goes")
    options = parser.parse_args()
    rows: Json = {}
    ways = (
        ("agents that read a list", in_process),
        ("five roles, an instant model", instant_model),
        ("five roles, a server over HTTP", over_http),
    )
    for name, way in ways:
        profile = cProfile.Profile()
        rows[name] = profile.runcall(way, options.branches) if options.profile else way(options.branches)
        row = rows[name]
        print(
            f"{name}: {row['branches']} branches, {row['calls']} calls: {row['wall_s']} s, {row['cpu_s']} s "
            f"of processor time; {row['grown_in_second_half_bytes'] / 2**20:.1f} MiB more in the second half"
        )
        if options.profile:
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)
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
