"""Throws nonsense at the referee: no input may crash the trusted side or outlast its deadline.

Every input is made from a seed: random bytes, truncated kernels, and mutations of the cheats and honest
kernels (characters, tokens, numbers, lines, plans, two kernels spliced). Each goes the whole way on the
emulator: plan, NVRTC, emulator, verdict. Usage, from the repository's root:

    python benchmarks/fuzz_judge.py --count 20000 --seed 1

Prints counts; writes ``fuzz-judge.json`` to ``benchmarks/receipts``, or into the folder
``$WORKBENCH_RECEIPTS`` names, and inputs that did harm beside it. An input is repeated with ``--count 1
--seed N`` where N is its own seed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "referee")]

from cheat_files import CheatFile, all_files, verdict_of  # noqa: E402

from workbench.emulator import toolchain  # noqa: E402
from workbench.model import H100, Crashed, Evaluation, Kernel, Problem  # noqa: E402
from workbench.referee.judge import judge  # noqa: E402
from workbench.referee.options import JudgeOptions  # noqa: E402

DEADLINE_S = 15.0
PATIENCE_S = 90.0
"""NVRTC has a minute of its own; beyond that and the deadline an input counts as a hang."""
OPTIONS = JudgeOptions(kinds=("normal", "special values"), wall_s=DEADLINE_S, cpu_s=int(2 * DEADLINE_S))
TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
PYTHON_FAULT = re.compile(r"^\w+(Error|Exception|Iteration)\b")
NASTY = (
    "while (true) {}", "__syncthreads();", "if (threadIdx.x & 1) __syncthreads();", "return;",
    "__trap();", "*/", "/*", "/* plan", "#define", "#include <cuda_fp16.h>", "((((((((((", "}}}}",
    "template <int N>", "-1", "2147483647", "1e400", "nan", "inf", "\x00", "\ufeff", "\\", "'", "\"",
    "assert(0);", "y[-1] = 0;", "x[n * 1000000] = 1;", "for (;;)", "__shfl_sync(0xffffffff, 1, 99);",
    "atomicAdd(y, 1.0f);", "(float*)0", "goto end;", "asm(\"\");", "unsigned", "launch(",
    "view(y, (1, 1), (1, 1))", "empty((2 ** 40,), f32)", "for i in range(9999):", "require(False, 'no')",
    "const={'N': 10 ** 70}", "grid=2147483647", "x.shape[99]", "library('aten.mm', x, x)", "return x, y",
    "0 // 0",
)  # fmt: skip


@dataclass(frozen=True)
class Input:
    """One text and the problem it is judged for."""

    seed: int
    kind: str
    text: str
    problem: Problem


def made(seed: int, files: tuple[CheatFile, ...]) -> Input:
    """The input of a seed; the same on every machine."""
    dice = random.Random(seed)
    kind = dice.choices(tuple(KINDS), weights=[weight for _, weight in KINDS.values()])[0]
    file = dice.choice(files)
    text = KINDS[kind][0](dice, file.kernel.source, dice.choice(files).kernel.source)
    return Input(seed, kind, text, _small(file.problem))


def _small(problem: Problem) -> Problem:
    return problem.model_copy(update={"proofs": problem.proofs[:4]})


# ------------------------------------------------------------------------------------ kinds of input

Maker = Callable[[random.Random, str, str], str]


def _random_bytes(dice: random.Random, text: str, _: str) -> str:
    noise = dice.randbytes(dice.randrange(1, 2000)).decode("latin1")
    return noise if dice.random() < 0.5 else text[: text.index("*/") + 2] + noise


def _truncated(dice: random.Random, text: str, _: str) -> str:
    return text[: dice.randrange(len(text))] if dice.random() < 0.7 else text[dice.randrange(len(text)) :]


def _characters(dice: random.Random, text: str, _: str) -> str:
    letters = list(text or " ")
    for _turn in range(dice.choice((1, 1, 2, 5, 20))):
        letters[dice.randrange(len(letters))] = chr(
            dice.choice((dice.randrange(32, 127), dice.randrange(0x3000)))
        )
    return "".join(letters)


def _tokens(dice: random.Random, text: str, _: str) -> str:
    words = TOKEN.findall(text)
    for _turn in range(dice.choice((1, 1, 2, 4))):
        words = words or [" "]
        at, other = dice.randrange(len(words)), dice.randrange(len(words))
        match dice.randrange(4):
            case 0:
                words[at] = words[other]
            case 1:
                words[at], words[other] = words[other], words[at]
            case 2:
                del words[at]
            case _:
                words.insert(at, words[other])
    return "".join(words)


def _numbers(dice: random.Random, text: str, _: str) -> str:
    places = [m.span() for m in re.finditer(r"\b\d+\b", text)]
    low, high = dice.choice(places)
    new = dice.choice(("0", "1", "-1", "2", "7", "31", "33", "1024", "1025", "65536", "2147483648", "9" * 80))
    return text[:low] + new + text[high:]


def _lines(dice: random.Random, text: str, other: str) -> str:
    lines = text.splitlines(keepends=True)
    for _turn in range(dice.choice((1, 1, 2, 3))):
        lines = lines or ["\n"]
        at = dice.randrange(len(lines))
        match dice.randrange(4):
            case 0 if len(lines) > 1:
                del lines[at]
            case 1:
                lines.insert(at, dice.choice(lines))
            case 2:
                lines.insert(at, dice.choice(other.splitlines(keepends=True) or ["\n"]))
            case _:
                dice.shuffle(lines) if dice.random() < 0.1 else lines.insert(at, "\n")
    return "".join(lines)


def _nasty(dice: random.Random, text: str, _: str) -> str:
    for _turn in range(dice.choice((1, 1, 2))):
        places = [m.start() for m in re.finditer(r"[;,\n(]", text)]
        at = dice.choice(places or [-1]) + 1
        text = text[:at] + " " + dice.choice(NASTY) + " " + text[at:]
    return text


def _plan(dice: random.Random, text: str, other: str) -> str:
    """Mutate the plan alone, so that the kernel still compiles."""
    start, end = text.index("/* plan"), text.index("*/")
    inner = dice.choice((_tokens, _numbers_or_same, _lines, _nasty))(dice, text[start + 8 : end], other)
    return text[: start + 8] + inner + text[end:]


def _numbers_or_same(dice: random.Random, text: str, other: str) -> str:
    return _numbers(dice, text, other) if re.search(r"\b\d+\b", text) else _tokens(dice, text, other)


def _body(dice: random.Random, text: str, other: str) -> str:
    """Mutate the device code alone, so that the plan still stands."""
    end = text.index("*/") + 2
    inner = dice.choice((_numbers_or_same, _operators, _lines, _tokens, _nasty))(
        dice, text[end:] or "\n", other
    )
    return text[:end] + inner


def _operators(dice: random.Random, text: str, other: str) -> str:
    places = [m.span() for m in re.finditer(r"<=|>=|==|\+=|[-+*/%<>]", text)]
    if not places:
        return _tokens(dice, text, other)
    low, high = dice.choice(places)
    return text[:low] + dice.choice(("+", "-", "*", "/", "%", "<", "<=", ">", "==", "+=", "-=")) + text[high:]


def _spliced(dice: random.Random, text: str, other: str) -> str:
    """The plan of one and the kernels of another."""
    return text[: text.index("*/") + 2] + other[other.index("*/") + 2 :]


KINDS: dict[str, tuple[Maker, int]] = {
    "random bytes": (_random_bytes, 15),
    "truncated": (_truncated, 18),
    "characters": (_characters, 15),
    "tokens": (_tokens, 10),
    "numbers": (_numbers, 6),
    "lines": (_lines, 6),
    "nasty words": (_nasty, 6),
    "plan alone": (_plan, 16),
    "device code alone": (_body, 7),
    "spliced": (_spliced, 1),
}


# ------------------------------------------------------------------------------------ running


@dataclass
class Tally:
    """What came of the inputs so far."""

    kinds: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    harm: list[dict[str, Any]] = field(default_factory=list)
    slowest_s: float = 0.0

    @property
    def count(self) -> int:
        """Inputs judged."""
        return sum(self.kinds.values())


def tried(one: Input) -> tuple[str, str, float]:
    """Verdict, harm in words or nothing, and seconds."""
    started = time.perf_counter()
    harm = ""
    try:
        evaluation = judge(one.problem, Kernel(source=one.text), H100, OPTIONS, lambda stage: None)
        verdict = verdict_of(evaluation)
        harm = _trusted_fault(evaluation)
    except BaseException:
        verdict, harm = "exception", traceback.format_exc(limit=-4)
    seconds = time.perf_counter() - started
    if seconds > DEADLINE_S + PATIENCE_S:
        harm = harm or f"took {seconds:.0f} s"
    return verdict, harm, seconds


def _trusted_fault(evaluation: Evaluation) -> str:
    """An exception of Python in the process that judges, told as a crash of the kernel."""
    outcome = evaluation.outcome
    told = outcome.message if isinstance(outcome, Crashed) else ""
    return told if PYTHON_FAULT.match(told) else ""


def run(seeds: range, threads: int, save: Callable[[Tally], None]) -> Tally:
    """Judge the inputs of all seeds."""
    toolchain.prepare("plain", "checked")  # else the first inputs would pay for the emulator itself
    files, tally = all_files(), Tally()
    with ThreadPoolExecutor(threads) as pool:
        for one, (verdict, harm, seconds) in pool.map(lambda s: _made_and_tried(s, files), seeds):
            tally.kinds[one.kind] += 1
            tally.verdicts[verdict] += 1
            tally.slowest_s = max(tally.slowest_s, seconds)
            if harm:
                tally.harm.append({"seed": one.seed, "kind": one.kind, "what": harm[-1500:]})
                print(f"seed {one.seed} ({one.kind}): {harm.strip().splitlines()[-1][:200]}", flush=True)
            if tally.count % 100 == 0:
                save(tally)
    save(tally)
    return tally


def _made_and_tried(seed: int, files: tuple[CheatFile, ...]) -> tuple[Input, tuple[str, str, float]]:
    one = made(seed, files)
    return one, tried(one)


def main() -> int:
    """Run, print, write the receipt."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    folder = Path(os.environ.get("WORKBENCH_RECEIPTS", ROOT / "benchmarks" / "receipts"))
    started = time.perf_counter()

    def save(tally: Tally) -> None:
        receipt = {
            "date": time.strftime("%Y-%m-%d"),
            "inputs": tally.count,
            "seeds": [asked.seed, asked.seed + tally.count - 1],
            "kinds": dict(tally.kinds.most_common()),
            "verdicts": dict(tally.verdicts.most_common()),
            "crashes_or_hangs_of_the_trusted_side": len(tally.harm),
            "harm": tally.harm[:50],
            "deadline_s": DEADLINE_S,
            "slowest_s": round(tally.slowest_s, 1),
            "seconds": round(time.perf_counter() - started),
            "repeat": f"python benchmarks/fuzz_judge.py --count {tally.count} --seed {asked.seed}",
        }
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "fuzz-judge.json").write_text(json.dumps(receipt, indent=1) + "\n")
        print(f"{tally.count} inputs, {len(tally.harm)} harmful, {dict(tally.verdicts)}", flush=True)

    tally = run(range(asked.seed, asked.seed + asked.count), asked.threads, save)
    return 1 if tally.harm else 0


if __name__ == "__main__":
    sys.exit(main())
