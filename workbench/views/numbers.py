"""An evaluation as plain JSON: compile report, checks, heatmap, counts, times. Words and numbers only.

Every number is finite or a word (``nan``, ``inf``), so that any JSON reader takes it.
"""

from __future__ import annotations

import math
from typing import Any

from workbench.model import (
    ULP_EDGES,
    Check,
    CompileFailed,
    CompileReport,
    Counts,
    Diagnostic,
    Difference,
    Evaluation,
    LaunchFailed,
    Outcome,
    Passed,
    PlanFacts,
    Resources,
    Target,
)
from workbench.plan.steps import Launch
from workbench.views.launches import occupancy, shared_bytes
from workbench.views.phrases import (
    bound_text,
    bytes_text,
    error_text,
    number,
    plural,
    share_text,
)
from workbench.views.plots import heatmap, histogram

Json = dict[str, Any]
Launched = tuple[tuple[Launch, ...], Target]
"""What a kernel launches, and on which card."""

HEAT_EDGES = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)
"""Upper ends of the heatmap's levels, as error over bound: up to level 4 the error is allowed."""
HEAT_WORST = 8
HEAT_END = 1e6
"""The comparison cuts its heatmap off here: so far off, or not a number at all."""


def heat_level(ratio: float) -> int:
    """0 exact, 1..4 within the bound, 5..7 beyond it, 8 far beyond or not a number."""
    if not ratio < HEAT_END:
        return HEAT_WORST
    return 0 if ratio == 0 else 1 + sum(ratio > edge for edge in HEAT_EDGES)


def diagnostics(outcome: Outcome | None, evaluation: Evaluation | None) -> list[Json]:
    """Errors of a failed plan, compilation or launch, else the compiler's warnings."""
    found: tuple[Diagnostic, ...] = ()
    if isinstance(outcome, CompileFailed | LaunchFailed):
        found = outcome.diagnostics
    elif evaluation and evaluation.compiled:
        found = evaluation.compiled.warnings
    return [entry.model_dump() for entry in found]


def verdict_message(outcome: Outcome) -> str:
    """One sentence on what went wrong, or on what the pass covers."""
    match outcome:
        case CompileFailed(diagnostics=found) | LaunchFailed(diagnostics=found):
            first = found[0] if found else None
            return f"line {first.line}: {first.message}" if first else ""
        case Passed(not_covered=missing, deterministic=steady):
            words = [f"does not cover {', '.join(missing)}"] if missing else []
            return "; ".join(words + ([] if steady else ["not bit-equal from run to run"]))
        case _:
            return outcome.message or f"no answer within {getattr(outcome, 'limit_s', 0):g} s"


def compile_json(evaluation: Evaluation, found: Launched | None = None) -> Json | None:
    """The compiler's report, or None when nothing compiled; occupancy where the launches are known."""
    report = evaluation.compiled
    if report is None:
        return None
    return {
        "arch": report.arch,
        "nvrtc": report.nvrtc,
        "seconds": round(report.seconds, 3),
        "cached": report.cached,
        "kernels": [
            {
                **_resources(entry),
                "shared": bytes_text(shared_bytes(found[0] if found else (), entry)),
                "occupancy": occupancy(found[0], entry, found[1]) if found else None,
            }
            for entry in report.kernels
        ],
    }


def _resources(entry: Resources) -> Json:
    return {
        "kernel": entry.kernel,
        "consts": ", ".join(f"{name}={value}" for name, value in entry.consts),
        "registers": entry.registers,
        "spill_bytes": entry.spill_store_bytes + entry.spill_load_bytes,
        "stack_bytes": entry.stack_bytes,
        "barriers": entry.barriers,
    }


def complaints(found: CompileReport | Outcome | None) -> list[Json]:
    """Errors and warnings of a text somebody is typing, at their lines."""
    if isinstance(found, CompileReport):
        return [entry.model_dump() for entry in found.warnings]
    listed: tuple[Diagnostic, ...] = getattr(found, "diagnostics", ())
    message = getattr(found, "message", "")
    return [
        entry.model_dump() for entry in listed or ((Diagnostic(line=1, message=message),) if message else ())
    ]


def compiled_words(found: CompileReport | Outcome | None) -> str:
    """``compiles: 3 kernels, up to 32 registers, nothing spilled``; empty for what does not."""
    if not isinstance(found, CompileReport):
        return ""
    most = max((entry.registers for entry in found.kernels), default=0)
    spilled = sum(entry.spill_store_bytes + entry.spill_load_bytes for entry in found.kernels)
    spills = f"{bytes_text(spilled)} spilled" if spilled else "nothing spilled"
    return f"compiles: {plural(len(found.kernels), 'kernel')}, up to {most} registers, {spills}"


def check_json(check: Check) -> Json:
    """One correctness run in a row."""
    ratio = max((d.max_ratio for d in check.differences), default=None)
    absolute = max((d.max_abs for d in check.differences), default=None)
    return {
        "case": check.case,
        "inputs": check.inputs,
        "seed": check.seed,
        "covered": check.covered,
        "ok": bool(check.covered and ratio is not None and ratio <= 1),
        "max_abs": error_text(absolute),
        "ratio": error_text(ratio),
        "of_bound": share_text(ratio),
        "note": check.told,
    }


def worst_difference(evaluation: Evaluation) -> Json | None:
    """The comparison with the largest error over bound, with its heatmap and worst entries."""
    pairs = [(check, found) for check in evaluation.checks for found in check.differences]
    if not pairs:
        return None
    check, found = max(pairs, key=lambda pair: _badness(pair[1]))
    return {
        "check": f"{check.case}, {check.inputs}, seed {check.seed}",
        "output": found.output,
        "max_abs": number(found.max_abs),
        "max_ratio": number(found.max_ratio),
        "max_abs_text": error_text(found.max_abs) + " at an edge" * (found.crossed is not None),
        "share_text": share_text(found.max_ratio),
        "allowed": bound_text(found.max_ratio) + (f": {found.crossed.words}" if found.crossed else ""),
        "wrong_percent": round(100 * found.wrong_fraction, 2),
        "pattern": found.pattern,
        "worst": [
            {"index": list(e.index), "expected": number(e.expected), "got": number(e.got)}
            for e in found.worst[:10]
        ],
        "heatmap": [[heat_level(ratio) for ratio in row] for row in found.heatmap],
        "ulps": _ulps(found),
    }


def difference_json(evaluation: Evaluation) -> Json | None:
    """The same for a view of one branch: heatmap and histogram are drawings."""
    found = worst_difference(evaluation)
    if found is None:
        return None
    return {**found, "heatmap": heatmap(found["heatmap"]), "ulps": histogram(found["ulps"])}


def _ulps(found: Difference) -> list[Json]:
    """Bars of the histogram of errors in units of the last place, without empty bars at the end."""
    total = sum(found.ulps)
    if not total:
        return []
    names = ["exact", *(f"≤ {edge:g}" for edge in ULP_EDGES[1:]), f"> {ULP_EDGES[-1]:g}"]
    bars = [
        {"name": name, "count": count, "percent": round(100 * count / total, 2)}
        for name, count in zip(names, found.ulps, strict=True)
    ]
    last = max(place for place, bar in enumerate(bars) if bar["count"])
    return bars[: max(last + 1, 4)]


def _badness(difference: Difference) -> float:
    return math.inf if math.isnan(difference.max_ratio) else difference.max_ratio


def counts_json(counts: Counts) -> Json:
    """Emulator counts of one case; ``sector_ratio`` is sectors over the least possible."""
    return {
        "case": counts.case,
        "launches": counts.launches,
        "sectors": counts.sectors,
        "sector_ratio": round(counts.sectors / counts.ideal_sectors, 2) if counts.ideal_sectors else None,
        "loads": bytes_text(counts.load_bytes),
        "stores": bytes_text(counts.store_bytes),
        "barriers": counts.barriers,
        "lines": [
            {
                "line": site.line,
                "words": f"{site.space} {site.kind}, {site.width_bytes} B a thread",
                "requests": site.requests,
                "per_request": round(site.transactions / site.requests, 2) if site.requests else None,
                "ideal": round(site.ideal_transactions / site.requests, 2) if site.requests else None,
            }
            for site in counts.sites
        ],
    }


def facts_json(facts: PlanFacts) -> Json:
    """What the plan alone says about one case."""
    return {
        "case": facts.case,
        "launches": facts.launches,
        "kernels": list(facts.kernels),
        "least": bytes_text(facts.bytes_min),
        "planned": bytes_text(facts.bytes_plan),
        "workspace": bytes_text(facts.workspace_bytes),
        "library": list(facts.library_calls),
        "library_percent": round(100 * facts.library_share),
    }


def technique_text(detail: Json) -> str:
    """The technique vector of a detail on one line, without what is plain."""
    words = [f"{chip['name']}={chip['value']}" for chip in detail["techniques"] if not chip["plain"]]
    return " ".join(words) or ("plain" if detail["techniques"] else "")
