"""A hand-made session of softmax with every kind of verdict, for the tests of the views."""

from __future__ import annotations

import math
from random import Random

from workbench.events import (
    AgentFailed,
    BranchAbandoned,
    BranchApproved,
    BranchProposed,
    BranchPruned,
    Event,
    HintGiven,
    KernelJudged,
    KernelWritten,
    LessonLearnt,
    RoundEnded,
    RoundStarted,
    SessionOpened,
    StageEntered,
)
from workbench.model import (
    H100,
    AccessSite,
    Branch,
    BranchId,
    Case,
    CaseTime,
    Check,
    CompileFailed,
    CompileReport,
    Conditions,
    Counts,
    Diagnostic,
    Difference,
    Draft,
    Evaluation,
    Graph,
    Hazard,
    Hypothesis,
    Kernel,
    KernelProfile,
    Measured,
    Mismatch,
    Operator,
    Outcome,
    OutputSpec,
    Passed,
    PlanFacts,
    Problem,
    Profile,
    Ref,
    Resources,
    Rival,
    Sampler,
    Stage,
    StepTime,
    TensorSpec,
    TimedOut,
    Vector,
    WorstEntry,
)
from workbench.policy import Policy
from workbench.tree import Tree, fold

KERNEL = """/* plan
def plan(x):
    rows, cols = x.shape
    require(x.dtype == f32 and x.is_contiguous, "contiguous float32 only")
    y = empty_like(x)
    launch("softmax_rows<{block}>", grid=rows, block={block}, args=[x, y, cols])
    return y
*/
// Technique: one block a row, {width} floats a load.
template <int BLOCK>
__device__ float block_sum(float value, float* partial) {{
    for (int step = 16; step; step /= 2) value += __shfl_xor_sync(0xffffffff, value, step);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0.0f;
    for (int warp = 0; warp < BLOCK / 32; ++warp) sum += partial[warp];
    return sum;
}}

template <int BLOCK>
__global__ void softmax_rows(const float* __restrict__ x, float* __restrict__ y, int cols) {{
    __shared__ float partial[BLOCK / 32];
    const float* row = x + (size_t)blockIdx.x * cols;
    float top = -INFINITY;
    for (int i = threadIdx.x; i < cols; i += BLOCK) top = fmaxf(top, row[i]);  // pass 1: the maximum
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += BLOCK) sum += expf(row[i] - top);  // pass 2: the sum
    sum = block_sum<BLOCK>(sum, partial);
    for (int i = threadIdx.x; i < cols; i += BLOCK) y[blockIdx.x * cols + i] = expf(row[i] - top) / sum;
}}
"""


def problem() -> Problem:
    """Row softmax at two declared shapes."""
    output = OutputSpec(dtype="f32", dims=("s0", "s1"))
    return Problem(
        name="softmax",
        source="import torch\n\ndef softmax(x):\n    return torch.softmax(x, dim=1)\n",
        entry="softmax",
        kind="function",
        tensors=(
            TensorSpec(
                name="x", role="input", dtype="f32", dims=("s0", "s1"), sampler=Sampler(kind="normal")
            ),
        ),
        signature=("x",),
        symbols=("s0", "s1"),
        outputs=(output,),
        cases=(
            Case(label="4096x32768", sizes=(("s0", 4096), ("s1", 32768))),
            Case(label="64x131072", sizes=(("s0", 64), ("s1", 131072))),
        ),
        graph=Graph(nodes=(), outputs=(Ref(ref="softmax"),)),
    )


def kernel(block: int, width: int) -> Kernel:
    """One of the story's kernels."""
    return Kernel(source=KERNEL.format(block=block, width=width))


def card(title: str, technique: str, vector: Vector, factor: float) -> Hypothesis:
    """A hypothesis about memory."""
    return Hypothesis(
        title=title,
        bottleneck="memory",
        cause="Three passes read each row three times; the last two come from L2 at best.",
        evidence=(
            "1.61 GB planned where 1.07 GB would do (plan)",
            "31% of copy bandwidth (roofline model)",
        ),
        fix="Keep the row in registers between the passes and move four floats with each load.",
        technique=technique,
        predicted_factor=factor,
        risk="More registers a thread: fewer warps to hide latency.",
        vector=vector,
    )


def _times(factor: float) -> tuple[CaseTime, ...]:
    return tuple(
        CaseTime(
            case=case,
            source="model",
            time_us=compile_us / factor,
            baselines=(("eager", eager_us), ("compile", compile_us)),
            floor_us=floor_us,
        )
        for case, eager_us, compile_us, floor_us in (
            ("4096x32768", 1090.0, 712.5, 357.0),
            ("64x131072", 68.0, 60.0, 24.6),
        )
    )


def _check(inputs: str, ratio: float, pattern: str = "") -> Check:
    heat = tuple(tuple(ratio * abs(math.sin(3 * i + j)) ** 4 for j in range(16)) for i in range(16))
    worst = (WorstEntry(index=(3, 127), expected=0.00781, got=math.nan if ratio > 1 else 0.0078100001),)
    found = Difference(
        max_abs=2.4e-7 * ratio,
        max_ratio=ratio,
        wrong_fraction=0.031 if ratio > 1 else 0.0,
        worst=worst,
        pattern=pattern,
        heatmap=heat,
    )
    return Check(case="7x129", inputs=inputs, seed=1, differences=(found,))


def evaluation(source: Kernel, outcome: Outcome, factor: float = 1.0, ratio: float = 0.21) -> Evaluation:
    """A judgement as the emulator would give it."""
    compiled = isinstance(outcome, CompileFailed)
    passed = isinstance(outcome, Passed)
    report = CompileReport(
        arch="sm_90a",
        kernels=(
            Resources(
                kernel="softmax_rows<256>",
                registers=32,
                shared_bytes=32,
                spill_store_bytes=0,
                spill_load_bytes=0,
                stack_bytes=0,
            ),
        ),
        seconds=0.21,
        cached=False,
        nvrtc="13.0",
    )
    facts = PlanFacts(
        case="4096x32768",
        launches=1,
        kernels=("softmax_rows<256>",),
        bytes_min=1073741824,
        bytes_plan=1610612736,
        workspace_bytes=0,
    )
    site = AccessSite(
        line=25, space="global", kind="load", width_bytes=4, requests=64, transactions=512,
        ideal_transactions=256,
    )  # fmt: skip
    counts = Counts(
        case="7x129", launches=1, sectors=1024, ideal_sectors=512, load_bytes=10836, store_bytes=3612,
        barriers=14, sites=(site,),
    )  # fmt: skip
    checks = (
        _check("normal", ratio / 2),
        _check("scale 64", ratio, "the last 3 columns" if ratio > 1 else ""),
    )
    return Evaluation(
        kernel=source.digest,
        device="emulator",
        target=H100.name,
        outcome=outcome,
        compiled=None if compiled else report,
        facts=() if compiled else (facts,),
        checks=() if compiled else checks,
        counts=(counts,) if passed else (),
        times=_times(factor) if passed else (),
        seconds=(("compile", 0.25), ("run", 1.75)),
    )


def _branch(id: str, parents: str, round: int, operator: Operator, hypothesis: Hypothesis) -> BranchProposed:
    author = "person" if operator == "edit" else "playbook"
    parent_ids = tuple(BranchId(name) for name in parents.split())
    return BranchProposed(
        branch=Branch(
            id=BranchId(id), parents=parent_ids, round=round, operator=operator, hypothesis=hypothesis,
            author=author,
        )
    )  # fmt: skip


def _written(id: str, block: int, width: int, vector: Vector) -> KernelWritten:
    return KernelWritten(branch=BranchId(id), draft=Draft(kernel=kernel(block, width), vector=vector))


def _judged(id: str, block: int, width: int, outcome: Outcome, factor: float = 1.0) -> KernelJudged:
    ratio = 37.5 if isinstance(outcome, Mismatch) else 0.21
    said = "The tail of each row is left out: the loop stops before cols." if ratio > 1 else ""
    found = evaluation(kernel(block, width), outcome, factor, ratio)
    return KernelJudged(branch=BranchId(id), evaluation=found, explanation=said)


SCALAR: Vector = (("vector_width", "1"), ("threads_per_row", "block"))
FLOAT4: Vector = (("vector_width", "4"), ("threads_per_row", "block"))
CACHED: Vector = (("vector_width", "4"), ("row_cache", "registers"), ("threads_per_row", "block"))

UNKNOWN_NAME = Diagnostic(
    line=28, column=11, message='identifier "block_sun" is undefined',
    caret="    sum = block_sun<BLOCK>(sum, partial);\n          ^",
)  # fmt: skip


def _first_round() -> tuple[Event, ...]:
    return (
        RoundStarted(round=1),
        _branch("b1", "", 1, "seed", card("One block a row, three passes", "threads_per_row", SCALAR, 1.0)),
        _branch("b2", "", 1, "seed", card("One warp a row", "threads_per_row", SCALAR, 1.0)),
        _branch("b3", "", 1, "seed", card("Read four floats at a time", "vector_width", FLOAT4, 1.4)),
        _written("b1", 256, 1, SCALAR),
        _judged("b1", 256, 1, Passed(), 1.21),
        _written("b2", 32, 1, SCALAR),
        _judged("b2", 32, 1, Passed(), 0.84),
        _written("b3", 128, 4, FLOAT4),
        _judged("b3", 128, 4, CompileFailed(stage="nvrtc", diagnostics=(UNKNOWN_NAME,))),
        _branch("b3.1", "b3", 1, "repair", card("Read four floats at a time", "vector_width", FLOAT4, 1.4)),
        _written("b3.1", 256, 4, FLOAT4),
        _judged("b3.1", 256, 4, Passed(not_covered=("7x129",)), 1.62),
        RoundEnded(round=1, best=BranchId("b3.1"), score=1.62),
    )


def _second_round() -> tuple[Event, ...]:
    wrong = Mismatch(
        case="7x129", message="element [3, 127] is NaN where 0.00781 is right; 3.1% of 903 elements are wrong"
    )
    outside = Hazard(
        hazard="out_of_bounds",
        case="1x1",
        line=25,
        message="thread 255 of block 0 reads 4 bytes past the end of x",
    )
    return (
        BranchApproved(branch=BranchId("b3.1"), by="person"),
        HintGiven(text="try <b>registers</b>", by="person"),
        RoundStarted(round=2),
        _branch("b4", "b3.1", 2, "refine", card("Keep the row in registers", "row_cache", CACHED, 1.5)),
        _branch("b5", "b3.1", 2, "rewrite", card("One pass with a running maximum", "online", FLOAT4, 1.3)),
        _branch("b6", "b1", 2, "refine", card("More items a thread", "items", SCALAR, 1.1)),
        _branch("b7", "b1 b2", 2, "crossover", card("A block a row, a warp's tail", "items", SCALAR, 1.1)),
        _written("b4", 512, 4, CACHED),
        _judged("b4", 512, 4, Passed(), 1.94),
        LessonLearnt(
            branch=BranchId("b4"), expected_factor=1.5, actual_factor=1.2,
            lesson="Registers pay off for long rows; expected 1.50x, found 1.20x.",
        ),
        _written("b5", 64, 4, FLOAT4),
        _judged("b5", 64, 4, wrong),
        _written("b6", 1024, 1, SCALAR),
        _judged("b6", 1024, 1, outside),
        BranchAbandoned(branch=BranchId("b7"), reason="same kernel as b1", duplicate_of=BranchId("b1")),
        BranchPruned(branch=BranchId("b6"), by="person", reason="reads outside"),
        RoundEnded(round=2, best=BranchId("b4"), score=1.94),
    )  # fmt: skip


def _stage(id: str, stage: Stage) -> StageEntered:
    return StageEntered(branch=BranchId(id), stage=stage)


def _third_round() -> tuple[Event, ...]:
    slow = TimedOut(case="64x131072", limit_s=20.0)
    return (
        RoundStarted(round=3),
        BranchApproved(branch=BranchId("b4"), by="person"),
        _branch("b8", "b4", 3, "refine", card("Persistent grid", "persistent", CACHED, 1.1)),
        _branch("b9", "b4 b1", 3, "crossover", card("Registers and a block a row", "items", CACHED, 1.1)),
        _branch("b10", "b3.1", 3, "refine", card("Streaming loads", "streaming", FLOAT4, 1.05)),
        _branch("e1", "b4", 3, "edit", card("edit of b4", "", (), 1.0)),
        _written("e1", 16, 4, ()),
        _judged("e1", 16, 4, slow),
        _written("b8", 640, 4, CACHED),
        _stage("b8", "running"),
        _written("b9", 768, 4, CACHED),
        _stage("b9", "compiling"),
        _stage("b10", "writing"),
        AgentFailed(role="reasoner", message="no further hypothesis for <b2>"),
    )


def events(rounds: int = 3) -> tuple[Event, ...]:
    """The journal up to a round; the third is in flight."""
    opened = SessionOpened(
        version="0.1.0", problem=problem(), policy=Policy(), target=H100, device="emulator", brain="playbook"
    )
    story = ((opened,), _first_round(), _second_round(), _third_round())
    return tuple(event for part in story[: rounds + 1] for event in part)


def tree(rounds: int = 3) -> Tree:
    """The folded story."""
    return fold(events(rounds))


def _measured(name_of_receipt: str, time_us: float, suspicion: str = "") -> Measured:
    """As a clock on an H100 would tell it, against all five baselines."""
    rivals = (
        ("eager", 1.62, "FASTER"), ("compile", 1.004, "SAME"), ("compile max-autotune", 0.91, "SLOWER"),
        ("graph of eager", 1.5, "FASTER"), ("graph of compile", 1.02, "AMBIGUOUS"),
    )  # fmt: skip
    return Measured(
        clock="cupti",
        low_us=0.998 * time_us,
        high_us=1.003 * time_us,
        samples=48,
        relative_stdev=0.0123,
        warm_us=0.9 * time_us,
        rivals=tuple(
            Rival(
                name=name, time_us=ratio * time_us, ratio=ratio, low=ratio - 0.006, high=ratio + 0.007,
                verdict=verdict, blocks=24,
            )
            for name, ratio, verdict in rivals
        ),
        missing=(("clock events", "tracing stretches the gaps"),),
        crosschecks=(("CUDA events", 1.001 * time_us),),
        conditions=Conditions(sm_mhz_low=1755, sm_mhz_high=1980, power_w=612.3, temperature_c=51, dropped=2),
        suspicion=suspicion,
        steps=tuple(
            StepTime(step=step, kind=kind, line=line, time_us=share * time_us)
            for step, kind, line, share in (
                ("aten.mm", "library", 7, 0.6), ("softmax_rows<256>", "kernel", 11, 0.3),
            )
        ),
        receipt=name_of_receipt,
    )  # fmt: skip


PROFILE = Profile(
    case="4096x32768",
    source="counters",
    kernels=(
        KernelProfile(
            kernel="softmax_rows<256>",
            metrics=(("time_us", 482.912), ("dram_percent", 65.11), ("dram_read_bytes", 5.37e8)),
        ),
    ),
    sentences=("65% of DRAM peak: 537 MB read, 517 MB written in 483 us. Memory is the limit.",),
    bound="memory",
)


def measured_tree(receipt: str = "receipts/one.json") -> Tree:
    """Two rounds on a GPU: a seed, another, and a branch of both, all of them measured."""
    opened = events(0)[0].model_copy(update={"device": "cuda"})
    seed = card("One block a row", "threads_per_row", SCALAR, 1.0)
    found: list[Event] = [opened, RoundStarted(round=1)]
    for id, parents, operator, block, time_us in (
        ("b1", "", "seed", 256, 700.0), ("b2", "", "seed", 128, 650.0),
        ("b3", "b1 b2", "crossover", 512, 500.0),
    ):  # fmt: skip
        passed = evaluation(kernel(block, 4), Passed())
        doubt = "the clocks disagree: CUPTI 500 us, events 560 us" if id == "b3" else ""
        times = tuple(
            time.model_copy(
                update={
                    "source": "measured",
                    "time_us": scale * time_us,
                    "measured": (clocked := _measured(receipt, scale * time_us, doubt if scale < 1 else "")),
                    "baselines": tuple((rival.name, rival.time_us) for rival in clocked.rivals),
                }
            )
            for time, scale in zip(_times(1.0), (1.0, 0.07), strict=True)
        )
        judged = passed.model_copy(
            update={"device": "cuda", "times": times, "counts": (), "profile": PROFILE}
        )
        found += [
            _branch(id, parents, 1 if not parents else 2, operator, seed),
            _written(id, block, 4, SCALAR),
            KernelJudged(branch=BranchId(id), evaluation=judged),
        ]
    return fold(found)


def large_tree(count: int, seed: int = 1) -> Tree:
    """A made-up search of ``count`` branches, the last four in flight; for sizes and speed of the views."""
    return fold(large_events(count, seed))


def large_events(count: int, seed: int = 1) -> tuple[Event, ...]:
    """The journal of the same search."""
    random = Random(seed)
    found: list[Event] = [*events(0), RoundStarted(round=1)]
    for number in range(1, count + 1):
        id, operator = f"b{number}", random.choice(("refine", "rewrite", "crossover"))
        above = max(1, number // 2 - 20)
        parents = "" if number <= 3 else f"b{random.randint(above, number - 1)}"
        if operator == "crossover" and number > 10:
            parents += f" b{random.randint(1, above)}"
        vector: Vector = (*FLOAT4, ("variant", str(number)))
        title = card(f"Hypothesis {number}: the row in registers", "row_cache", vector, 1.2)
        found.append(_branch(id, parents, 1 + number // 4, operator if parents else "seed", title))
        found.append(_written(id, 32 * number, 4, vector))
        if number <= count - 4:
            failed = CompileFailed(stage="nvrtc", diagnostics=(UNKNOWN_NAME,))
            found.append(
                _judged(
                    id, 32 * number, 4, Passed() if random.random() < 0.7 else failed, 0.8 + random.random()
                )
            )
        if random.random() < 0.03:
            found.append(BranchPruned(branch=BranchId(id), by="person"))
    return tuple(found)
