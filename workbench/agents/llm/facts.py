"""What a model is told of problem, machine and kernels: names, values with units, and what they mean.

Owns the choice and the wording of numbers; at most 24 of them a kernel, since a curated couple of dozen
served models better than the full dump (CudaForge). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from workbench.agents.base import Attempt
from workbench.model import (
    AccessSite,
    CaseTime,
    CompileFailed,
    Crashed,
    Diagnostic,
    Evaluation,
    Hazard,
    LaunchFailed,
    Mismatch,
    Outcome,
    Passed,
    Problem,
    Suspect,
    Target,
    TimedOut,
)

MOST_METRICS = 24
MOST_STEPS = 4
"""Steps of a plan whose times are told, longest first."""
DIAGNOSTICS_LIMIT = 10_000
"""Characters of compiler output; the last ones are kept (PIKE)."""


class Metric(NamedTuple):
    """One number and how to read it."""

    name: str
    value: str
    meaning: str


def device_facts(target: Target) -> tuple[Metric, ...]:
    """The card, in the units a kernel is planned in."""
    return (
        Metric("architecture", target.arch, target.name),
        Metric("multiprocessors", str(target.sm_count), "blocks needed to keep all busy: a multiple of it"),
        Metric("copy bandwidth", f"{target.dram_bytes_per_s / 1e12:.2f} TB/s", "read plus written, measured"),
        Metric("fp32 peak", f"{target.fp32_flops_per_s / 1e12:.0f} TFLOP/s", "without tensor cores"),
        Metric("L2", f"{target.l2_bytes / 2**20:.0f} MiB", ""),
        Metric("shared memory a block", f"{target.shared_bytes_per_block // 1024} KiB", "48 KiB static"),
        Metric("registers a multiprocessor", str(target.registers_per_sm), "over threads: occupancy"),
        Metric("launch", f"{target.launch_us:g} us", "device-side cost of one launch"),
        Metric("DRAM latency", f"{target.dram_latency_ns:g} ns", "bytes in flight = bandwidth x latency"),
    )


def tensor_lines(problem: Problem) -> tuple[str, ...]:
    """One line a tensor: name, role, dtype and size symbols."""
    lines = [
        f"{spec.name}: {spec.role}, {spec.dtype}[{', '.join(map(str, spec.dims))}]"
        + ("" if spec.strides is None else f", strides {', '.join(map(str, spec.strides))}")
        + (" (complex numbers: real and imaginary part)" if spec.in_pairs else "")
        for spec in problem.tensors
    ]
    lines += [f"{static.name} = {static.value!r} (fixed)" for static in problem.statics]
    outputs = ", ".join(f"{spec.dtype}[{', '.join(map(str, spec.dims))}]" for spec in problem.outputs)
    named = problem.returned.result_names if problem.returned else ()
    order = f" ({', '.join(named)}, in this order)" if named else ""
    return (*lines, f"returns {'a tuple of ' if problem.returns_tuple else ''}{outputs}{order}")


def case_lines(problem: Problem) -> tuple[str, ...]:
    """Declared sizes, most important first; then what correctness is proved at."""
    lines = [", ".join(f"{name}={size}" for name, size in case.sizes) or case.label for case in problem.cases]
    if problem.proofs:
        lines.append(f"and, for correctness, {', '.join(case.label for case in problem.proofs[:8])}")
    return tuple(lines)


# ------------------------------------------------------------------------------------ numbers


def metrics(evaluation: Evaluation) -> tuple[Metric, ...]:
    """The most telling numbers of a judged kernel, at most ``MOST_METRICS``."""
    found = [
        *(_time_metrics(evaluation.times[0]) if evaluation.times else ()),
        *_plan_metrics(evaluation),
        *_resource_metrics(evaluation),
        *_count_metrics(evaluation),
        *_profile_metrics(evaluation),
        *_other_cases(evaluation),
    ]
    return tuple(found[:MOST_METRICS])


def _time_metrics(time: CaseTime) -> Iterator[Metric]:
    source = "a roofline model, not a measurement" if time.source == "model" else "measured, caches cold"
    yield Metric("time", f"{time.time_us:.4g} us at {time.case}", source)
    yield Metric("speed of light", f"{time.floor_us:.4g} us", "least bytes over copy bandwidth, one launch")
    yield Metric("share of speed of light", f"{time.roofline_share:.0%}", "100% cannot be improved")
    yield Metric("bound by", time.bound, time.note or "what limits it")
    for name, baseline_us in sorted(time.baselines, key=lambda pair: pair[1])[:3]:
        yield Metric(
            f"baseline {name}", f"{baseline_us:.4g} us", f"the kernel is {baseline_us / time.time_us:.2f}x"
        )
    if time.measured is not None:
        if time.measured.warm_us is not None:
            yield Metric("time, caches warm", f"{time.measured.warm_us:.4g} us", "far below: it lives off L2")
        if time.measured.host_us is not None:
            yield Metric("host time", f"{time.measured.host_us:.4g} us", "to issue one call; launch-bound")
        longest = sorted(time.measured.steps, key=lambda step: -step.time_us)[:MOST_STEPS]
        for step in longest:
            share = f"{step.time_us / (time.measured.steps_us or 1.0):.0%} of all steps"
            yield Metric(f"step {step.name}, line {step.line}", f"{step.time_us:.4g} us", share)


def _plan_metrics(evaluation: Evaluation) -> Iterator[Metric]:
    for facts in evaluation.facts[:1]:
        yield Metric("launches", str(facts.launches), f"about {facts.launches} launch costs")
        ratio = facts.bytes_plan / max(facts.bytes_min, 1)
        yield Metric("bytes touched over least", f"{ratio:.3g}", "1 is every byte once; above it, re-reading")
        if facts.workspace_bytes:
            yield Metric("workspace", f"{facts.workspace_bytes / 1e6:.3g} MB", "written and read back")
        if facts.library_share > 0:
            yield Metric("library share", f"{facts.library_share:.0%}", "bytes moved by library calls")


def _resource_metrics(evaluation: Evaluation) -> Iterator[Metric]:
    kernels = evaluation.compiled.kernels if evaluation.compiled else ()
    for kernel in sorted(kernels, key=lambda k: -k.registers)[:1]:
        yield Metric("registers a thread", str(kernel.registers), "65536 over it: threads that fit at once")
        yield Metric("static shared memory", f"{kernel.shared_bytes} B", "a block")
        spilled = kernel.spill_load_bytes + kernel.spill_store_bytes
        yield Metric("register spills", f"{spilled} B", "none is right" if spilled == 0 else "goes to memory")


def _count_metrics(evaluation: Evaluation) -> Iterator[Metric]:
    for counts in evaluation.counts[-1:]:
        waste = counts.sectors / max(counts.ideal_sectors, 1)
        yield Metric(
            "sectors over ideal", f"{waste:.3g}", "1 is coalesced; above 1.2 look at the lines below"
        )
        yield Metric("barriers", str(counts.barriers), f"at {counts.case}, all threads")
        for site in sorted(counts.sites, key=_wasted, reverse=True)[:3]:
            if _wasted(site) > 0:
                unit = "sectors" if site.space == "global" else "wavefronts"
                each, ideal = site.transactions / site.requests, site.ideal_transactions / site.requests
                value = f"{each:.3g} {unit} a request"
                yield Metric(f"line {site.line}, {site.space} {site.kind}", value, f"{ideal:.3g} would do")


def _wasted(site: AccessSite) -> int:
    return site.transactions - site.ideal_transactions if site.requests else 0


def _profile_metrics(evaluation: Evaluation) -> Iterator[Metric]:
    if evaluation.profile is not None:
        source = "hardware counters" if evaluation.profile.source == "counters" else "estimate"
        for sentence in evaluation.profile.sentences[:8]:
            yield Metric("profile", sentence, source)


def _other_cases(evaluation: Evaluation) -> Iterator[Metric]:
    for time in evaluation.times[1:4]:
        value = f"{time.time_us:.4g} us, {time.roofline_share:.0%} of speed of light, bound by {time.bound}"
        yield Metric(f"at {time.case}", value, time.source)
    if (ratio := evaluation.worst_ratio) is not None:
        yield Metric("largest error", f"{ratio:.0%} of what is allowed", "against float64")


# ------------------------------------------------------------------------------------ outcomes


def attempt_line(attempt: Attempt) -> str:
    """One attempt in a line: what was tried and what came of it."""
    card, evaluation = attempt.branch.hypothesis, attempt.evaluation
    tried = f"{attempt.branch.id} {attempt.branch.operator}: {card.title}"
    if evaluation is None:
        return f"{tried}: not judged"
    if evaluation.passed and evaluation.times:
        time = evaluation.times[0]
        found = f"{time.time_us:.4g} us, {evaluation.score:.2f}x, {time.roofline_share:.0%} of speed of light"
    else:
        found = outcome_line(evaluation.outcome)
    return f"{tried}: {found}" + (f"; lesson: {attempt.lesson}" if attempt.lesson else "")


def outcome_line(outcome: Outcome) -> str:
    """What became of a kernel, in a line."""
    match outcome:
        case Passed():
            return "correct"
        case CompileFailed(stage=stage, diagnostics=diagnostics):
            return f"does not compile ({stage}){_first(diagnostics)}"
        case LaunchFailed(case=case, diagnostics=diagnostics):
            return f"cannot be launched at {case}{_first(diagnostics)}"
        case Mismatch(message=message):
            return f"wrong: {message}"
        case Hazard(hazard=hazard, line=line, message=message):
            where = f" in line {line}" if line else ""
            return f"undefined behaviour ({hazard}){where}: {message}"
        case Crashed(message=message) | Suspect(message=message):
            return f"{outcome.kind}: {message}"
        case TimedOut(limit_s=limit):
            return f"did not end within {limit:g} s"


def _first(diagnostics: tuple[Diagnostic, ...]) -> str:
    return f": line {diagnostics[0].line}: {diagnostics[0].message}" if diagnostics else ""


def diagnostics_text(outcome: Outcome) -> str:
    """All messages of a compiler, the last ``DIAGNOSTICS_LIMIT`` characters."""
    if not isinstance(outcome, CompileFailed | LaunchFailed):
        return outcome_line(outcome)
    lines = [
        f"{d.file}:{d.line}:{d.column}: {d.severity}: {d.message}" + (f"\n{d.caret}" if d.caret else "")
        for d in outcome.diagnostics
    ]
    return "\n".join(lines)[-DIAGNOSTICS_LIMIT:] or outcome_line(outcome)


def mismatch_lines(evaluation: Evaluation) -> tuple[str, ...]:
    """Where a wrong result is wrong: case, inputs, first bad indices, pattern, size of the error."""
    lines = [outcome_line(evaluation.outcome)]
    failing = [
        check for check in evaluation.checks if any(d.max_ratio > 1 or d.worst for d in check.differences)
    ]
    for check in failing[-1:]:
        lines.append(f"failing check: {check.case}, inputs {check.inputs}, seed {check.seed}")
        for difference in check.differences:
            where = f", pattern: {difference.pattern}" if difference.pattern else ""
            lines.append(
                f"output {difference.output}: {difference.wrong_fraction:.2%} of the elements are wrong, "
                f"error up to {difference.max_ratio:.3g} times what is allowed{where}"
            )
            lines += [
                f"  at {list(w.index)}: expected {w.expected:.9g}, got {w.got:.9g}"
                for w in difference.worst[:4]
            ]
    return tuple(lines)
