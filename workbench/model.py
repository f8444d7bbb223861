"""The nouns of the workbench: frozen values, no input or output, no torch.

Owns every value that crosses a process, goes into the journal or reaches a view. Never computes
anything that needs a tensor, a compiler or a device.
"""

from __future__ import annotations

import ast
import hashlib
import math
import operator
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, NewType, Self

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypeAliasType

from workbench import syntax

BranchId = NewType("BranchId", str)
Digest = NewType("Digest", str)

DType = Literal["f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool"]
DTYPE_BYTES: Mapping[str, int] = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1, "bool": 1,
}  # fmt: skip

Dim = int | str
"""A size: a number, or an integer expression over the problem's size symbols such as ``"s0*s1"``."""


class Value(BaseModel):
    """Compared and hashed by content. Hold tuples in it, never lists or dicts."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, ser_json_inf_nan="constants"
    )

    @cached_property
    def digest(self) -> Digest:
        """Name of the whole content: a new field changes it without being listed."""
        return Digest(hashlib.sha256(self.model_dump_json().encode()).hexdigest())

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """As pydantic's, but the copy gets a digest of its own."""
        copy = super().model_copy(update=update, deep=deep)
        copy.__dict__.pop("digest", None)
        return copy


_OPS: Mapping[type[ast.AST], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def size_of(dim: Dim, sizes: Mapping[str, int]) -> int:
    """Evaluate a dimension with the sizes of its symbols. Raises ``KeyError`` for an unknown symbol."""
    return dim if isinstance(dim, int) else int(_evaluate(syntax.expression(dim), sizes))


def _evaluate(node: ast.AST, sizes: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return sizes[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPS:
            return int(_OPS[type(op)](_evaluate(left, sizes), _evaluate(right, sizes)))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, sizes)
        case _:
            raise ValueError(f"not a size expression: {ast.unparse(node)}")


# ------------------------------------------------------------------------------------ the machine


class Target(Value):
    """The GPU a kernel is written for; every figure names its unit."""

    name: str
    arch: str
    """Architecture NVRTC compiles for, such as ``sm_90a``."""
    sm_count: int
    dram_bytes_per_s: float
    """Bandwidth a plain copy reaches, bytes read plus bytes written."""
    fp32_flops_per_s: float
    l2_bytes: int
    shared_bytes_per_block: int
    shared_bytes_per_sm: int
    registers_per_sm: int
    threads_per_sm: int
    blocks_per_sm: int
    launch_us: float
    """Device-side cost of one launch, microseconds."""
    dram_latency_ns: float
    dram_bytes: int = 80_000_000_000
    """Memory of the card, which arguments and buffers of a plan share."""


H100 = Target(
    name="NVIDIA H100 80GB HBM3",
    arch="sm_90a",
    sm_count=132,
    dram_bytes_per_s=3.03e12,  # measured copy bandwidth, docs/notes/2026-11-21-model-of-time.md
    fp32_flops_per_s=60e12,
    l2_bytes=50 * 2**20,
    shared_bytes_per_block=227 * 1024,
    shared_bytes_per_sm=228 * 1024,
    registers_per_sm=65536,
    threads_per_sm=2048,
    blocks_per_sm=32,
    launch_us=2.5,
    dram_latency_ns=600.0,
)

# ------------------------------------------------------------------------------------ the problem


class TensorMeta(Value):
    """What a plan may know of a tensor: everything but its data."""

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    alignment: int = 256
    """Largest power of two, at most 256, that divides the address; bytes."""

    @property
    def is_contiguous(self) -> bool:
        """True when the elements lie in row-major order without gaps; a size-1 axis may have any stride."""
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return True

    @property
    def numel(self) -> int:
        """Number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, gaps not counted."""
        return self.numel * DTYPE_BYTES[self.dtype]


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


class Sampler(Value):
    """How fresh values of a tensor are drawn, learnt from the tensor the person gave."""

    kind: Literal["normal", "uniform", "integers", "bools"]
    low: float = 0.0
    """Inclusive lower end (uniform, integers); the mean for ``normal``."""
    high: float = 1.0
    """Exclusive upper end (uniform, integers); the standard deviation for ``normal``."""
    scalable: bool = True
    """False where other magnitudes would leave the reference's domain (probabilities, indices)."""
    high_dim: Dim | None = None
    """Exclusive upper end that is a size, such as the number of classes; replaces ``high``."""


class TensorSpec(Value):
    """One tensor argument of the problem in functional form."""

    name: str
    """A Python identifier; the plan's parameter of the same name receives it."""
    role: Literal["input", "parameter", "buffer"]
    dtype: DType
    dims: tuple[Dim, ...]
    strides: tuple[Dim, ...] | None = None
    """In elements; None means contiguous."""
    sampler: Sampler
    path: str = ""
    """For parameters and buffers: the dotted name in the module."""


class Static(Value):
    """A python scalar the reference was called with; fixed, part of the problem."""

    name: str
    value: bool | int | float | str | None


class Case(Value):
    """One assignment of sizes to the problem's symbols."""

    label: str
    """For people: ``4096x32768``."""
    sizes: tuple[tuple[str, int], ...]
    origin: Literal["declared", "proof"] = "declared"

    @property
    def size_map(self) -> dict[str, int]:
        """Symbol to size."""
        return dict(self.sizes)


class OutputSpec(Value):
    """One tensor the reference returns."""

    dtype: DType
    dims: tuple[Dim, ...]


# ---- the op graph (core ATen, written by problem/trace.py, read by playbook/)


class Ref(Value):
    """The result of another node, or a tensor argument, by name. ``item`` picks one of several results."""

    ref: str
    item: int | None = None


class Sym(Value):
    """An integer that depends on sizes, such as a ``view``'s new shape."""

    sym: str


Arg = TypeAliasType("Arg", "Ref | Sym | bool | int | float | str | tuple[Arg, ...] | None")


class OpNode(Value):
    """One ATen operation."""

    name: str
    op: str
    """With overload, such as ``aten.sum.dim_IntList``."""
    args: tuple[Arg, ...] = ()
    kwargs: tuple[tuple[str, Arg], ...] = ()
    outs: tuple[OutputSpec, ...]
    line: int | None = None
    """Line of the person's source that made it, where known."""


class Graph(Value):
    """The reference as functional core-ATen operations; inputs are the problem's tensors by name."""

    nodes: tuple[OpNode, ...]
    outputs: tuple[Ref, ...]


Contract = Literal["ieee-fp32", "tf32", "16-bit io, fp32 accumulate"]


class Problem(Value):
    """A reference to replace: its source, functional form, sizes, and op graph."""

    name: str
    source: str
    """Python text that defines ``entry``; its line numbers are the person's own."""
    entry: str
    """Name of the function, module class or module instance in ``source``."""
    kind: Literal["function", "module_class", "module_instance", "kernelbench", "pickled"]
    payload: str = ""
    """Base64 of a cloudpickle holding notebook objects the source needs; empty for self-contained sources."""
    tensors: tuple[TensorSpec, ...]
    statics: tuple[Static, ...] = ()
    signature: tuple[str, ...] = ()
    """The reference's own positional order: names of inputs and statics."""
    symbols: tuple[str, ...] = ()
    """Size symbols that may vary; every other size is part of the problem."""
    outputs: tuple[OutputSpec, ...]
    returns_tuple: bool = False
    cases: tuple[Case, ...]
    """Declared sizes, the person's, most important first."""
    proofs: tuple[Case, ...] = ()
    """Small sizes the reference accepts, chosen for correctness checks."""
    graph: Graph
    contract: Contract = "ieee-fp32"
    own_inputs: bool = False
    """True when the person's own tensors are small enough to be one kind of input: ``yours``."""
    notes: tuple[str, ...] = ()
    """Warnings of the intake, for the person."""

    def metas(self, case: Case) -> dict[str, TensorMeta]:
        """Metadata of every tensor argument at one case."""
        sizes = case.size_map
        result = {}
        for spec in self.tensors:
            shape = tuple(size_of(d, sizes) for d in spec.dims)
            strides = contiguous_strides(shape)
            if spec.strides is not None:
                strides = tuple(size_of(d, sizes) for d in spec.strides)
            result[spec.name] = TensorMeta(dtype=spec.dtype, shape=shape, strides=strides)
        return result


# ------------------------------------------------------------------------------------ candidates

Vector = tuple[tuple[str, str], ...]
"""Technique vector: sorted (technique, value) pairs; both are words a person reads."""


class Kernel(Value):
    """A whole candidate: one ``.cu`` text with its launch plan in a ``/* plan ... */`` comment."""

    source: str


class Draft(Value):
    """What a synthesizer hands over."""

    kernel: Kernel
    vector: Vector = ()
    note: str = ""


Operator = Literal["seed", "refine", "rewrite", "crossover", "repair", "edit"]


class Hypothesis(Value):
    """A card: what is slow, why, and what to do about it."""

    title: str
    bottleneck: Literal["memory", "latency", "compute", "launch", "library", "none"]
    cause: str
    evidence: tuple[str, ...] = ()
    """Facts with numbers and units, each from a count, a report or a model that it names."""
    fix: str
    technique: str = ""
    """Name in the playbook's table, whose paragraph teaches it; empty when it has none."""
    predicted_factor: float = 1.0
    """Expected old time over new time."""
    risk: str = ""
    vector: Vector = ()
    """Technique vector to synthesise; empty when the synthesizer is free."""


class Branch(Value):
    """One node of the tree; its kernel and evaluation arrive later, as events."""

    id: BranchId
    parents: tuple[BranchId, ...] = ()
    """None for a seed, one for most, two or more for a crossover (the first is drawn as the parent)."""
    round: int
    operator: Operator
    hypothesis: Hypothesis
    author: str


# ------------------------------------------------------------------------------------ evaluation


class Diagnostic(Value):
    """One message of a compiler or of the plan's interpreter, at the person's own line."""

    severity: Literal["error", "warning", "note"] = "error"
    file: str = "kernel.cu"
    line: int
    column: int = 0
    message: str
    caret: str = ""
    """The source line and, under it, a caret; empty when unknown."""


class Resources(Value):
    """What ptxas reports for one kernel instantiation."""

    kernel: str
    consts: tuple[tuple[str, str], ...] = ()
    registers: int
    shared_bytes: int
    """Static shared memory."""
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    barriers: int = 0


class CompileReport(Value):
    """A successful NVRTC compilation of every instantiation the plans of the declared cases launch."""

    arch: str
    kernels: tuple[Resources, ...]
    warnings: tuple[Diagnostic, ...] = ()
    seconds: float
    cached: bool
    nvrtc: str
    """Version of the compiler."""


class PlanFacts(Value):
    """What the plan alone says about one case, before anything runs."""

    case: str
    launches: int
    kernels: tuple[str, ...]
    bytes_min: int
    """Inputs read once plus outputs written once."""
    bytes_plan: int
    """Every tensor argument of every step, once a step: an upper bound without re-reads."""
    workspace_bytes: int
    library_calls: tuple[str, ...] = ()
    library_share: float = 0.0
    """Share of ``bytes_plan`` moved by library steps."""


class AccessSite(Value):
    """Memory requests of one source line, warp by warp, as the emulator counted them."""

    line: int
    space: Literal["global", "shared"]
    kind: Literal["load", "store", "atomic"]
    width_bytes: int
    """Bytes one thread moves with one request."""
    requests: int
    transactions: int
    """32-byte sectors (global) or wavefronts (shared)."""
    ideal_transactions: int


class Counts(Value):
    """Emulator counts of one run at one case; a count is exact, it is not a time."""

    case: str
    launches: int
    sectors: int
    """32-byte sectors of global memory requested, loads, stores and atomics."""
    ideal_sectors: int
    load_bytes: int
    store_bytes: int
    barriers: int
    sites: tuple[AccessSite, ...] = ()


ULP_EDGES: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0)
"""Upper ends of the bins of ``Difference.ulps``; half a unit is what rounding alone costs."""


class WorstEntry(Value):
    """One element and how far off it is."""

    index: tuple[int, ...]
    expected: float
    got: float


class Difference(Value):
    """One output compared with the float64 oracle."""

    output: int = 0
    max_abs: float
    max_ratio: float
    """Largest error over the bound the operation's arithmetic allows; above 1 is wrong."""
    wrong_fraction: float = 0.0
    worst: tuple[WorstEntry, ...] = ()
    pattern: str = ""
    """Where the wrong elements lie, in words: ``the last 3 columns``, ``every 32nd element``, ``NaN``."""
    heatmap: tuple[tuple[float, ...], ...] = ()
    """Largest error over bound in at most 32 x 32 bins of the output seen as rows x columns."""
    ulps: tuple[int, ...] = ()
    """Elements by error in units of the last place of the expected value: one more than ``ULP_EDGES``,
    the last for errors beyond all of them and for NaN. Empty for integers and in old journals."""


class Check(Value):
    """One correctness run: a case, a kind of input, a seed."""

    case: str
    inputs: str
    """``normal``, ``scale 64``, ``offset``, ``heavy-tailed``, ``sparse``, ``zero-one``, ``yours``."""
    seed: int
    differences: tuple[Difference, ...] = ()
    covered: bool = True
    """False when the plan's ``require`` turned this case away."""
    note: str = ""


Comparison = Literal["FASTER", "SAME", "SLOWER", "AMBIGUOUS"]
"""The kernel against one baseline; AMBIGUOUS when the interval allows two of the others."""


class Rival(Value):
    """A baseline measured in turns with the kernel, at one case, on the same tensors."""

    name: str
    """``eager``, ``compile``, ``compile max-autotune``, ``graph of eager`` or ``graph of compile``."""
    time_us: float
    """Device time, median of its blocks, caches cold."""
    ratio: float
    """Its time over the kernel's, median over paired blocks: above 1 the kernel is faster."""
    low: float
    high: float
    """95% interval of ``ratio``; the lower end is what may be claimed."""
    verdict: Comparison
    blocks: int
    """Paired ABBA blocks."""
    host_us: float | None = None
    """Host time to issue one call, where the kernel is launch-bound."""
    graph_us: float | None = None
    """Device time when replayed from a CUDA graph, where the kernel is launch-bound."""


class Conditions(Value):
    """What the card was doing while it was timed, as NVML tells; zeros where NVML is missing."""

    sm_mhz_low: int = 0
    sm_mhz_high: int = 0
    power_w: float = 0.0
    """Highest seen."""
    temperature_c: int = 0
    """Highest seen."""
    throttled: tuple[str, ...] = ()
    """Reasons the driver gave for a lower clock, other than idling."""
    dropped: int = 0
    """Blocks left out because the card slowed itself down."""
    other_processes: int | None = None
    """Other processes that hold memory of the GPU; None when it cannot be seen."""


class Measured(Value):
    """How a case was timed and what came of it: the numbers behind a ``CaseTime`` of source ``measured``."""

    clock: Literal["cupti", "events", "wall"]
    """Which clock ``time_us`` is from; the others are cross-checks."""
    low_us: float
    high_us: float
    """95% interval of the device time, caches cold: of the median over blocks of samples."""
    samples: int
    relative_stdev: float
    warm_us: float | None = None
    """Device time with the same inputs again and again, caches warm."""
    host_us: float | None = None
    """Host time to issue one call; only where the kernel is launch-bound (under 30 us)."""
    graph_us: float | None = None
    """Device time when replayed from a CUDA graph; only where the kernel is launch-bound."""
    rivals: tuple[Rival, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    """Baselines that could not be measured (or not yet), and why."""
    crosschecks: tuple[tuple[str, float], ...] = ()
    """Other clocks' device times, microseconds: ``events``, ``slope``."""
    conditions: Conditions = Conditions()
    suspicion: str = ""
    """Why the time is not believed: clocks disagree, or faster than physics; empty when it is believed."""
    receipt: str = ""
    """File with the raw samples, below the session's folder."""

    @property
    def fastest(self) -> Rival | None:
        """The baseline the headline is against; None when none was measured."""
        return min(self.rivals, key=lambda rival: rival.time_us, default=None)

    @property
    def verdict(self) -> Comparison | None:
        """Against the fastest baseline."""
        return self.fastest.verdict if self.fastest else None


class CaseTime(Value):
    """Time of one declared case. ``model`` is a roofline model and never a measurement."""

    case: str
    source: Literal["model", "measured"]
    time_us: float
    baselines: tuple[tuple[str, float], ...] = ()
    """Name and time in microseconds, from the same source."""
    floor_us: float
    """Speed of light: least bytes over copy bandwidth, or operations over peak, plus one launch."""
    bound: Literal["memory", "latency", "compute", "launch", "library"] = "memory"
    note: str = ""
    measured: Measured | None = None
    """How it was measured; None for a model."""

    @property
    def speedup(self) -> float:
        """Fastest baseline over this; 1.0 when there is no baseline."""
        return min((t for _, t in self.baselines), default=self.time_us) / self.time_us

    @property
    def roofline_share(self) -> float:
        """Floor over time, at most 1 for an honest time."""
        return self.floor_us / self.time_us


class KernelProfile(Value):
    """What one launch of a plan did on the hardware."""

    kernel: str
    metrics: tuple[tuple[str, float], ...]
    """Name and value; the unit stands at the end of each name, such as ``dram_percent``."""


class Profile(Value):
    """Where the time of a kernel goes, at one case."""

    case: str
    source: Literal["counters", "estimate"]
    """``counters``: read by Nsight Compute. ``estimate``: computed from resources, plan and time."""
    kernels: tuple[KernelProfile, ...] = ()
    """One a launch, in the plan's order."""
    sentences: tuple[str, ...] = ()
    """The same, interpreted: numbers with units, the most telling first."""
    bound: Literal["memory", "latency", "compute", "launch", "library"] | None = None
    """What limits the longest launch; None where the numbers do not tell."""
    note: str = ""
    """Why there are no counters, where there are none."""


class CompileFailed(Value):
    """The plan or the CUDA text does not compile."""

    kind: Literal["compile_failed"] = "compile_failed"
    stage: Literal["plan", "nvrtc", "emulator", "solution"]
    diagnostics: tuple[Diagnostic, ...]


class LaunchFailed(Value):
    """The plan asked for something a GPU refuses, or argument types do not fit the kernel."""

    kind: Literal["launch_failed"] = "launch_failed"
    case: str
    diagnostics: tuple[Diagnostic, ...]


class Crashed(Value):
    """The process that ran the kernel died."""

    kind: Literal["crashed"] = "crashed"
    case: str
    message: str


class TimedOut(Value):
    """Compilation or the kernel ran past its limit."""

    kind: Literal["timed_out"] = "timed_out"
    case: str
    limit_s: float
    message: str = ""


class Mismatch(Value):
    """Wrong numbers. The failing check is the last of the evaluation's checks."""

    kind: Literal["mismatch"] = "mismatch"
    case: str
    message: str
    """One sentence: what differs, where, by how much."""


class Hazard(Value):
    """Undefined behaviour that was seen: the numbers may be right by luck."""

    kind: Literal["hazard"] = "hazard"
    hazard: Literal[
        "out_of_bounds", "misaligned", "race", "barrier", "uninitialised", "warp_sync", "input_written"
    ]
    case: str
    line: int | None
    message: str


class Suspect(Value):
    """Too good or inconsistent: nothing is claimed."""

    kind: Literal["suspect"] = "suspect"
    message: str


class Passed(Value):
    """Right on every covered check."""

    kind: Literal["passed"] = "passed"
    not_covered: tuple[str, ...] = ()
    """Cases the plan's ``require`` turned away."""
    deterministic: bool = True


Outcome = Annotated[
    CompileFailed | LaunchFailed | Crashed | TimedOut | Mismatch | Hazard | Suspect | Passed,
    Field(discriminator="kind"),
]


class Evaluation(Value):
    """All that was learnt about one kernel on one device."""

    kernel: Digest
    device: Literal["emulator", "cuda", "null"]
    target: str
    outcome: Outcome
    compiled: CompileReport | None = None
    facts: tuple[PlanFacts, ...] = ()
    checks: tuple[Check, ...] = ()
    counts: tuple[Counts, ...] = ()
    times: tuple[CaseTime, ...] = ()
    """One a declared case, most important first; empty unless the outcome is Passed."""
    seconds: tuple[tuple[str, float], ...] = ()
    """Wall seconds a stage of judging took: ``compile``, ``run``, ..."""
    card_bytes: tuple[tuple[str, int, int], ...] = ()
    """By declared case, on a GPU: most memory held at once while checking, and that of inputs and outputs."""
    profile: Profile | None = None
    """Of the most important declared case; only of a kernel that passed on a GPU."""
    seed: int = 0
    """What all inputs' seeds followed from; ``WORKBENCH_SEED`` set to it repeats the judgement."""
    notes: tuple[str, ...] = ()
    """What a reader of the verdict must know: what was not looked at, and why."""

    @property
    def passed(self) -> bool:
        """True for a correct kernel."""
        return isinstance(self.outcome, Passed)

    @property
    def score(self) -> float:
        """Geometric mean over the declared cases of fastest baseline over time; 0 unless passed."""
        if not self.passed or not self.times:
            return 0.0
        return math.exp(sum(math.log(time.speedup) for time in self.times) / len(self.times))

    @property
    def worst_ratio(self) -> float | None:
        """Largest error over bound in any check; None when nothing was compared."""
        return max((d.max_ratio for c in self.checks for d in c.differences), default=None)

    @property
    def worst_abs(self) -> float | None:
        """Largest absolute error against float64 in any check; None when nothing was compared."""
        return max((d.max_abs for c in self.checks for d in c.differences), default=None)


Stage = Literal["waiting", "writing", "compiling", "running", "done"]
