"""A profile without counters: every number names its source, and nothing comes from a model of time."""

from __future__ import annotations

from dataclasses import replace

import torch
from softmax_problem import PROBLEM, RIGHT

from tests.playbook.problems import problem_of
from workbench.compile import compile_kernel
from workbench.model import (
    H100,
    AccessSite,
    CaseTime,
    CompileReport,
    Counts,
    Digest,
    Evaluation,
    Measured,
    Passed,
    StepTime,
    TensorMeta,
    contiguous_strides,
)
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse
from workbench.plan.steps import Plan
from workbench.profile.estimate import Known, estimated

CASE = PROBLEM.cases[0]
METAS = {"x": TensorMeta(dtype="f32", shape=(4096, 32768), strides=contiguous_strides((4096, 32768)))}


def plan() -> Plan:
    return interpret(parse(RIGHT), METAS, H100)


def known(time_us: float | None = 400.0, source: str = "measured", **update: object) -> Known:
    report = compile_kernel(RIGHT, plan().instances)
    assert isinstance(report, CompileReport)
    times = ()
    if time_us is not None:
        time = {"case": CASE.label, "source": source, "time_us": time_us, "floor_us": 356.0}
        times = (CaseTime.model_validate(time),)
    evaluation = Evaluation(
        kernel=Digest("k"), device="cuda", target=H100.name, outcome=Passed(), compiled=report, times=times
    )
    return Known(PROBLEM, CASE, plan(), evaluation.model_copy(update=update), H100)


def test_golden_sentences() -> None:
    profile = estimated(known(), "ncu is not installed")
    assert profile.source == "estimate"
    assert profile.note == (
        "No hardware counters: ncu is not installed. Estimated from ptxas, the plan and measured time."
    )
    assert profile.bound == "memory"
    first, *_, last = profile.sentences
    assert first == (
        "89% of a copy's bandwidth: the least bytes, 1.07 GB, in 400 us are 2.68 TB/s "
        "(plan over measured time). Only moving fewer bytes helps."
    )
    assert last.startswith("softmax_rows<128>: ")
    assert last.endswith(
        "registers a thread (ptxas); at most 100% occupancy, 16 blocks an SM, limited by threads."
    )


def test_a_modelled_time_is_no_evidence() -> None:
    for one in (known(source="model"), known(time_us=None)):
        profile = estimated(one, "refused")
        assert profile.bound is None
        assert not any("measured time)" in sentence for sentence in profile.sentences)


def test_what_limits_a_kernel_follows_its_time() -> None:
    assert estimated(known(time_us=4000.0), "").bound == "latency"
    assert estimated(known(time_us=H100.launch_us * 1.5), "").bound == "launch"


def test_counts_of_the_emulator_name_the_line() -> None:
    site = AccessSite(
        line=7,
        space="global",
        kind="load",
        width_bytes=4,
        requests=10,
        transactions=320,
        ideal_transactions=40,
    )
    counts = Counts(
        case="3x7", launches=1, sectors=320, ideal_sectors=40, load_bytes=1, store_bytes=1, barriers=0,
        sites=(site,),
    )  # fmt: skip
    told = estimated(known(counts=(counts,)), "").sentences
    assert told[-1] == "Line 7: 32 sectors per request where 4 would do (emulator)."


def test_spills_and_small_grids_are_said() -> None:
    small = known()
    launch = small.plan.launches[0].model_copy(update={"grid": (16, 1, 1)})
    report = small.evaluation.compiled
    assert report is not None
    spilled = report.kernels[0].model_copy(update={"spill_store_bytes": 24, "registers": 255})
    evaluation = small.evaluation.model_copy(
        update={"compiled": report.model_copy(update={"kernels": (spilled,)})}
    )
    changed = Known(
        PROBLEM,
        CASE,
        small.plan.model_copy(update={"steps": (small.plan.steps[0], launch)}),
        evaluation,
        H100,
    )
    told = " ".join(estimated(changed, "").sentences)
    assert "limited by registers" in told
    assert "the grid fills 6% of the GPU once" in told
    assert "24 B a thread are spilled" in told


def test_products_are_held_against_the_unit_that_they_need() -> None:
    """Nothing in float32 passes its peak but what tensor cores multiply, three products for one."""
    tensors = {"x": torch.empty(4096, 4096), "w": torch.empty(4096, 4096)}
    product = problem_of(lambda t: t["x"] @ t["w"], tensors, varying=False)
    case = product.cases[0]

    def told(time_us: float) -> str:
        one = known()
        time = one.evaluation.times[0].model_copy(update={"case": case.label, "time_us": time_us})
        evaluation = one.evaluation.model_copy(update={"times": (time,)})
        sentences = estimated(Known(product, case, plan(), evaluation, H100), "").sentences
        return next(sentence for sentence in sentences if "least operations" in sentence)

    alone_us = 2.0 * 4096**3 / H100.fp32_flops_per_s * 1e6
    assert told(alone_us / 0.9).startswith("90% of the FP32 peak (")
    assert told(alone_us / 1.5).startswith("50% of the peak of three TF32 products for one in FP32 (")


def test_measured_steps_say_where_the_time_goes() -> None:
    """By time, where it is known: a library call that moves few bytes may take most of it."""
    steps = tuple(
        StepTime(step=step, kind=kind, line=line, time_us=time_us)
        for step, kind, line, time_us in (
            ("aten.mm", "library", 5, 300.0),
            ("softmax_rows<128>", "kernel", 6, 90.0),
        )
    )
    one = known(400.0)
    measured = Measured(
        clock="events", low_us=399.0, high_us=401.0, samples=9, relative_stdev=0.0, steps=steps
    )
    time = one.evaluation.times[0].model_copy(update={"measured": measured})
    evaluation = one.evaluation.model_copy(update={"times": (time,)})
    profile = estimated(replace(one, evaluation=evaluation), "refused")
    assert (
        "aten.mm (line 5) takes 77% of the 390 us of 2 steps, library calls 77% (CUPTI)." in profile.sentences
    )
    assert profile.bound == "library"
