"""The phases of a GPU session: what each runs, how long that takes, and its smallest form without a GPU.

Owns the command lines and the seconds, which are those of earlier runs on an H100. How a phase is run is in
gpu_session.py. A dry run carries out the same programs on the emulator or the model where they have one, and
else as far as they come without a card (their tests are collected, their arguments read).
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from gpu_session import ROOT, GpuSession, Phase, Turn, nvidia_smi

PYTHON = sys.executable
BENCHMARKS = ROOT / "benchmarks"
KERNELBENCH = ROOT / ".kb"
"""The person's: ``level1/``, ``level2/``, ``src/`` and, to go on from, ``first.json``."""
PUBLISHED = ROOT / "out" / "published"
PACKING_S = 8
"""Left at the end of a grid, which begins no op that it cannot end: devices are closed, receipts packed."""
LONG = ("problems/softmax", "problems/layer_norm")
LONG_AUTOTUNE = ("100c87a6697f-nvidia-h100-80gb-hbm3-20261122T051347.json",
                    "39b830a4edb4-nvidia-h100-80gb-hbm3-20261122T051355.json")  # fmt: skip
"""Linear + row-sum, and x over its RMS: their max-autotune takes a minute to compile."""
REPLAYED = "939ec16b7c8c-nvidia-h100-80gb-hbm3-20261121T181615.json"


def script(name: str, real: Sequence[str], dry: Sequence[str]) -> Callable[[Turn], Sequence[str]]:
    """A benchmark with its words on a card and its words on the CPU; ``{seconds}`` is what it may take."""

    def command(turn: Turn) -> Sequence[str]:
        words = dry if turn.dry else [word.format(seconds=int(turn.seconds) - 5) for word in real]
        return [PYTHON, str(BENCHMARKS / f"{name}.py"), *words]

    return command


def module(real: Sequence[str], dry: Sequence[str]) -> Callable[[Turn], Sequence[str]]:
    """The same for a program that is a module."""
    return lambda turn: [PYTHON, "-m", *(dry if turn.dry else real)]


def sample_ops() -> list[str]:
    """Every sample op."""
    return sorted(path.stem for path in (ROOT / "sample_ops").glob("*.py"))


def judged_already(folders: Iterable[Path]) -> set[str]:
    """Ops that earlier tries of a phase have a row of."""
    found = set()
    for folder in folders:
        path = folder / "parts" / "gpu_judged.json"
        rows = json.loads(path.read_text()).get("rows", []) if path.is_file() else []
        found |= {row["op"] for row in rows}
    return found


def grid(ops: Sequence[str] = (), phase: str = "measure") -> Callable[[Turn], Sequence[str] | None]:
    """The grid over ``ops``, else those of the call, else all; without what an earlier try has a row of.

    None when all have one.
    """

    def command(turn: Turn) -> Sequence[str] | None:
        done = judged_already(turn.earlier) if phase == "measure" else set()
        left = [op for op in ops or turn.ops or sample_ops() if op not in done]
        if not left:
            return None
        # A compile's limit is for each op, half of its seconds: it is the phase's own that ends it.
        seconds = int(turn.seconds) - PACKING_S if phase == "measure" else 2 * int(turn.seconds)
        words = ["--ops", ",".join(left), "--phase", phase, "--seconds", str(seconds)]
        dry = ["--list", "--ops", ",".join(left[:2])]
        return [PYTHON, str(BENCHMARKS / "grid.py"), *(dry if turn.dry else words)]

    return command


def kernelbench(turn: Turn) -> Sequence[str] | None:
    """The odd-numbered problems, on from the last run's receipt; None without the person's copy of them."""
    program = [PYTHON, str(BENCHMARKS / "kernelbench.py")]
    if turn.dry:
        return [*program, "--help"]
    if not KERNELBENCH.is_dir():
        return None
    done = [KERNELBENCH / "first.json", *(folder / "kernelbench.json" for folder in turn.earlier)]
    if known := next((path for path in reversed(done) if path.is_file()), None):
        turn.out.mkdir()
        if (KERNELBENCH / "opened").is_dir():
            shutil.copytree(KERNELBENCH / "opened", turn.out / "opened")
        (turn.out / "kernelbench.json").write_bytes(known.read_bytes())
    seconds = int(turn.seconds) - 15
    words = [
        "--root",
        str(KERNELBENCH),
        "--device",
        "cuda",
        "--out",
        str(turn.out),
        "--seconds",
        str(seconds),
    ]
    return [
        *program,
        *words,
        "--evaluate",
        str(KERNELBENCH / "src"),
        "--evaluate-seconds",
        str(seconds * 2 // 5),
    ]


def published(*words: str) -> Callable[[Turn], Sequence[str] | None]:
    """Other people's kernels; None without the folder that ``published_kernels.py prepare`` makes."""

    def command(turn: Turn) -> Sequence[str] | None:
        program = [PYTHON, str(BENCHMARKS / "published_kernels.py")]
        if turn.dry:
            return [
                PYTHON,
                "-c",
                f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r}); import published_kernels",
            ]
        first, *rest = words
        return [*program, first, str(PUBLISHED), *rest] if PUBLISHED.is_dir() else None

    return command


def instance_norm(turn: Turn) -> Sequence[str]:
    """Twelve layouts of the one row family that is below its baseline."""
    warp = "threads_per_row=warp row_cache=registers vector_width=4 block_size=256"
    more = ("persistent_grid=on", "stores=streamed", "stream_hints=on", "chains=many", "occupancy=full",
            "vector_width=2", "vector_width=1", "block_size=128", "block_size=512",
            "persistent_grid=on stores=streamed")  # fmt: skip
    tried = [warp, *(f"{warp} {one}" for one in more), "row_cache=registers vector_width=4 block_size=64"]
    words = ["--help"] if turn.dry else ["instance_norm", "--only", "128x256x14x14", *tried]
    return [PYTHON, str(BENCHMARKS / "vectors.py"), *words]


def dry_sanitizer(turn: Turn) -> Sequence[str]:
    """No name is looked at in a dry run: the tools need a card."""
    return [PYTHON, str(BENCHMARKS / "sanitizer_suite.py"), *(["no-such-kernel"] if turn.dry else [])]


def asked(path: Path) -> dict[str, Phase]:
    """More phases from a file, ``NAME SECONDS LIMIT SCRIPT WORD...`` a line.

    Quoted as in a shell; ``#`` begins a remark. The script is one of this folder, without its ending.
    Raises ``ValueError`` that names the line.
    """
    found = {}
    for number, text in enumerate(path.read_text().splitlines(), start=1):
        words = shlex.split(text, comments=True)
        if not words:
            continue
        name, seconds, limit, program, *rest = [*words, "", "", ""][: max(len(words), 4)]
        if not (BENCHMARKS / f"{program}.py").is_file() or not (seconds + limit).isdecimal():
            raise ValueError(f"{path}, line {number} is not NAME SECONDS LIMIT SCRIPT WORD...: {text[:80]}")
        found[name] = Phase(name, float(seconds), float(limit), script(program, rest, ["--help"]))
    return found


GPU_TESTS = ["pytest", "tests/gpu", "tests/referee", "tests/live", "-m", "gpu", "-rsfE", "-n0",
             "--show-capture=no", "-p", "no:cacheprovider",
             "-W", "ignore::pytest.PytestConfigWarning"]  # fmt: skip
TWO_GPUS = ["pytest", "tests/gpu/test_two_devices.py", *GPU_TESTS[GPU_TESTS.index("-m") :]]


def two_gpus(turn: Turn) -> Sequence[str] | None:
    """Tests that skip themselves on a machine of one card, where skipping would look like passing."""
    if turn.dry:
        return [PYTHON, "-m", *TWO_GPUS, "--collect-only"]
    cards = nvidia_smi("--query-gpu=index").split()
    return [PYTHON, "-m", *TWO_GPUS] if len(cards) > 1 else None


RECEIPT = str(BENCHMARKS / "receipts" / "measured" / REPLAYED)

PHASES = {
    phase.name: phase
    for phase in (
        Phase("first-branch", 55, 100, script("first_branch",
              ["softmax", "layer_norm", "--device", "cuda", "--rounds", "1", "--seconds", "40"],
              ["softmax", "--device", "emulator", "--rounds", "1", "--branches", "1", "--seconds", "40"])),
        Phase("figures", 180, 260, script("nine_figures", ["--seconds", "{seconds}"], ["--help"])),
        Phase("launch", 25, 60, script("nine_figures", ["--parts", "probe,routes", "--seconds", "{seconds}"],
              ["--help"])),
        Phase("compile", 150, 300, grid(phase="compile")),
        Phase("grid", 980, 580, grid(), goes_on=True),
        Phase("long-compile", 60, 200, grid(LONG, "compile")),
        Phase("softmax-long", 100, 200, grid(LONG), goes_on=True),
        Phase("long-rows", 100, 170, script("long_rows", ["--only", "softmax", "--seconds", "{seconds}"],
              ["--help"])),
        Phase("max-autotune", 130, 170, script("remeasure", ["--seconds", "{seconds}", *LONG_AUTOTUNE],
              ["--list", *LONG_AUTOTUNE])),
        Phase("walks", 15, 40, script("walks", [], ["--source"])),
        Phase("lines-left-behind", 30, 60, script("lines_left_behind", [], ["--source"])),
        Phase("joins", 25, 60, script("joins", [], ["--source"])),
        Phase("bare-moves", 40, 90, script("bare_moves", [], ["--list"])),
        Phase("off-grid", 480, 570, script("off_grid",
              ["--device", "cuda", "--first", "6", "--seconds", "{seconds}"], ["--list"])),
        Phase("bounds-cost", 75, 130, script("bounds_cost",
              ["heston_paths", "double_q", "load_balance", "delta_features"], ["--help"]), timed=False),
        Phase("shared-launches", 90, 140, script("shared_launches",
              ["cache_write", "edge_softmax", "degree_norm", "neighbour_sums", "kalman_step"], ["--help"])),
        Phase("followed", 70, 110, script("baselines_followed", ["layer_norm", "--seconds", "{seconds}"],
              ["--help"])),
        Phase("two-gpus", 60, 120, two_gpus, timed=False),
        Phase("instance-norm", 40, 60, instance_norm),
        Phase("search-cost", 120, 180, script("search_cost", ["--device", "cuda", "softmax", "kl_div"],
              ["--rounds", "1", "--evaluations", "2", "softmax"])),
        Phase("second-run", 150, 220, script("second_run",
              ["--device", "cuda", "--rounds", "2", "--branches", "10", "softmax", "log_softmax"],
              ["--rounds", "1", "--branches", "2", "softmax"])),
        Phase("replay", 36, 80, module(["workbench", "replay-receipt", RECEIPT],
              ["workbench", "replay-receipt", "--help"])),
        Phase("published-times", 150, 250, published("time", "robust-layernorm", "robust-llama_rmsnorm",
              "robust-mnist_linear")),
        Phase("kernelbench", 290, 330, kernelbench),
        Phase("expert", 105, 150, script("expert_on_gpu", [], ["softmax", "--device", "emulator"]),
              timed=False),
        Phase("tests", 60, 150, module(GPU_TESTS, [*GPU_TESTS, "--collect-only"]), timed=False),
        Phase("cheats", 70, 200, script("cheat_suite", ["--device", "cuda"], ["--only", "restores_input"]),
              timed=False),
        Phase("foreign", 110, 230, script("foreign_suite", ["--device", "cuda"], ["--help"]), timed=False),
        Phase("sanitizer", 45, 180, dry_sanitizer, timed=False),
        Phase("published", 170, 250, published("judge", "cuda"), timed=False),
    )
}  # fmt: skip


def list_phases() -> int:
    """Print what there is."""
    for phase in PHASES.values():
        kind = "times" if phase.timed else "verdicts"
        print(f"{phase.name:<16}{kind:<10}about {phase.expected_s:4.0f} s, at most {phase.limit_s:.0f}")
    return 0


def run_phases(given: argparse.Namespace) -> int:
    """The named phases; 1 where one is not ok."""
    more = asked(given.asked) if given.asked else {}
    known = {**PHASES, **more}
    names = list(dict.fromkeys((*given.phases, *more)))  # once, though named here and in the file too
    if unknown := [name for name in names if name not in known]:
        print(f"no phase {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    receipts = Path(os.environ.get("WORKBENCH_RECEIPTS") or ROOT / "out" / "receipts")
    session = GpuSession(given.work, receipts, given.dry_run, given.ops.split(",") if given.ops else ())
    if given.archive is not None and not session.known():
        session.unpack(given.archive)
    rows = session.run([known[name] for name in names], given.seconds, given.resume)
    print("\n".join(["", *(row.line() for row in rows)]))
    return int(any(row.state not in ("ok", "nothing to do") for row in rows))
