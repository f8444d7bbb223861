"""The model of time of a whole plan at its declared cases, with its baselines and its floor.

Owns ``CaseTime`` values of source ``model``. Pure: plans, resources and counts in, times out.
See docs/notes/2026-11-21-model-of-time.md for what it is worth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.model import (
    DTYPE_BYTES,
    Case,
    CaseTime,
    CompileReport,
    Contract,
    Problem,
    Resources,
    Target,
    base_name,
    fastest_over_fp32,
)
from workbench.model.aten_names import RECURRENT
from workbench.model.systems import MATRIX_AT
from workbench.plan.steps import Allocate, BufferArg, Launch, Library, LibraryArg, Plan
from workbench.problem.slow_calls import (
    ORDERED,
    SOLVING,
    ordered_rows,
    ordering_us,
    recurrent_steps,
    recurrent_us,
    solving_us,
)
from workbench.referee.baselines import START_US, EagerOp, compile_us, eager_us, library_us
from workbench.referee.launchtime import Bound, LaunchTime, Shape, Traffic, launch_time
from workbench.referee.least_bytes import least_moved
from workbench.referee.least_operations import direct_flops, least_flops
from workbench.referee.traffic import Observation, traffic_of
from workbench.referee.work import FREE, factors, flops, library_operations, sized

NOTHING_OWN = "no kernel of its own: the reference's library calls"
EAGER, COMPILE = "eager (model)", "compile (model)"
STEP_US = 3.0
"""Of a step of recurrent layers whose blocks tell one another their states: 1.8 to 7 us on an H200, for 36
kernels of twelve networks, a few of many rows more (docs/notes/2026-12-01-recurrent-layers.md)."""
OWN_SHARE = 0.55
"""Of a unit's peak that products in a kernel of one's own reach: convolutions on an H100 had 33 to 41 TFLOPS
on float32 units, 66 to 94 by three products of TF32 (receipt 2026-11-26-h100-patches.json)."""


@dataclass(frozen=True)
class _Part:
    """Time of one step of the plan, launch included."""

    us: float
    launch_us: float
    bound: Bound
    told: str


@dataclass(frozen=True)
class _Work:
    """What a case asks for, whoever does it."""

    flops: float
    """Of its products, done directly."""
    instructions: float
    contract: Contract
    steps: int
    """Of recurrent layers, each of which waits for the one before it; 0 without."""


def case_times(
    target: Target,
    problem: Problem,
    plans: Mapping[str, Plan],
    compiled: CompileReport,
    seen: Sequence[Observation],
    eager: Mapping[str, tuple[EagerOp, ...]],
) -> tuple[CaseTime, ...]:
    """Model every declared case that has a plan; ``plans`` and ``eager`` are keyed by its label."""
    return tuple(
        case_time(target, problem, case, plans[case.label], compiled, seen, eager.get(case.label, ()))
        for case in problem.cases
        if case.label in plans
    )


def case_time(
    target: Target,
    problem: Problem,
    case: Case,
    plan: Plan,
    compiled: CompileReport,
    seen: Sequence[Observation],
    eager: tuple[EagerOp, ...] = (),
) -> CaseTime:
    """Model one declared case."""
    arithmetic = sum(one.instructions for one in sized(problem, case))
    steps = _steps(problem, case, plan)
    work = _Work(direct_flops(problem, case), arithmetic, problem.contract, steps)
    parts = list(_parts(target, plan, compiled, seen, work)) or [_Part(0.0, 0.0, "launch", "nothing")]
    total = sum(part.us for part in parts) + START_US
    time_us, told = max(total, target.launch_us + START_US), [part.told for part in parts]
    if eager and _is_reference(problem, case, plan):
        # The same calls take the same time, whatever a library's roofline says of them.
        time_us, told = eager_us(target, eager), [NOTHING_OWN, *told]
    least = least_flops(problem, case)
    floor = min(floor_us(target, least_moved(problem, case).total, least, problem.contract), time_us)
    # What is taken to be fast where nobody knows is not taken to be faster than light.
    baselines = [(COMPILE, max(compile_us(target, problem, case, eager), floor))]
    if eager:
        baselines.insert(0, (EAGER, max(eager_us(target, eager), floor)))
    return CaseTime(
        case=case.label,
        source="model",
        time_us=time_us,
        baselines=tuple(baselines),
        floor_us=floor,
        bound=_bound(parts),
        note="; ".join(dict.fromkeys(told)),
    )


def _steps(problem: Problem, case: Case, plan: Plan) -> int:
    """Steps that follow one another in recurrent layers that no library call goes through.

    Layers may be at work at the same time, but in both directions each needs both ends of the one below.
    """
    if any(base_name(step.op) in RECURRENT for step in plan.steps if isinstance(step, Library)):
        return 0
    found = 0
    for one in sized(problem, case):
        if one.name in RECURRENT:
            layers, both_ways, batch_first = one.node.args[4], one.node.args[7], one.node.args[8]
            assert isinstance(layers, int)
            length = one.output[1 if batch_first else 0]
            found += length * layers if both_ways else length + layers - 1
    return found


def _is_reference(problem: Problem, case: Case, plan: Plan) -> bool:
    """True for a plan without a kernel of its own that calls what the reference calls, and copies nothing."""
    calls = [base_name(step.op) for step in plan.steps if isinstance(step, Library)]
    theirs = [one.name for one in sized(problem, case) if one.name not in FREE]
    own = any(isinstance(step, Launch) or (isinstance(step, Allocate) and step.zero) for step in plan.steps)
    return not own and sorted(name for name in calls if name not in FREE) == sorted(theirs)


def floor_us(target: Target, bytes_min: int, operations: float, contract: Contract = "ieee-fp32") -> float:
    """Speed of light: least bytes at copy bandwidth or operations at peak, and a call's first launch."""
    memory, compute = bytes_min / target.dram_bytes_per_s, operations / products_per_s(target, contract)
    return max(memory, compute) * 1e6 + target.launch_us + START_US


def floor_under(target: Target, problem: Problem, case: Case, time_us: float) -> float:
    """Speed of light; its arithmetic only as far as a measured kernel did not show a faster way."""
    moved, operations = least_moved(problem, case).total, least_flops(problem, case)
    floor = floor_us(target, moved, operations, problem.contract)
    return min(floor, max(time_us, floor_us(target, moved, 0.0)))


def products_per_s(target: Target, contract: Contract) -> float:
    """Operations of products a second, by the fastest unit that a contract allows."""
    return target.fp32_flops_per_s * fastest_over_fp32(contract, 4)


def _bound(parts: Sequence[_Part]) -> Bound:
    if sum(p.launch_us for p in parts) > 0.5 * sum(p.us for p in parts):
        return "launch"
    return max(parts, key=lambda part: part.us).bound


# ------------------------------------------------------------------------------------ steps


def _parts(
    target: Target,
    plan: Plan,
    compiled: CompileReport,
    seen: Sequence[Observation],
    work: _Work,
) -> Iterator[_Part]:
    library_flops = sum(_replaced_flops(plan, step) for step in plan.steps if isinstance(step, Library))
    own = replace(work, flops=max(work.flops - library_flops, 0.0))
    shares = _shares(plan, seen)
    for step in plan.steps:
        match step:
            case Allocate(zero=True, meta=meta):
                us = meta.nbytes / target.dram_bytes_per_s * 1e6 + target.launch_us
                yield _Part(us, target.launch_us, "memory", f"clears {_bytes(meta.nbytes)}")
            case Library() if base_name(step.op) not in FREE:
                operations = _library_operations(plan, step, work.contract)
                us = library_us(target, _library_bytes(plan, step), operations) + _beyond_bytes_us(plan, step)
                yield _Part(us + target.launch_us, target.launch_us, "library", f"library {step.op}")
            case Launch():
                share = shares.get(step, 0.0)
                yield _launch_part(target, plan, step, _resources(compiled, step), seen, own, share)
            case _:
                pass


def _shares(plan: Plan, seen: Sequence[Observation]) -> dict[Launch, float]:
    """Each launch's share of the arithmetic no library call does: by requested bytes."""
    requested = {launch: traffic_of(plan, launch, seen)[0].requested for launch in plan.launches}
    total = sum(requested.values())
    return {launch: n / total for launch, n in requested.items()} if total else {}


def _launch_part(
    target: Target,
    plan: Plan,
    launch: Launch,
    resources: Resources | None,
    seen: Sequence[Observation],
    work: _Work,
    share: float,
) -> _Part:
    traffic, counted = traffic_of(plan, launch, seen)
    operations = work.flops * share / (OWN_SHARE * _over_units(traffic, work.contract))
    traffic = replace(traffic, flops=operations, instructions=work.instructions * share)
    registers = resources.registers if resources else 32
    static = resources.shared_bytes if resources else 0
    shape = Shape(
        blocks=math.prod(launch.grid),
        threads=math.prod(launch.block),
        registers=registers,
        shared_bytes=static + launch.shared_bytes,
        spill_stored=resources.spill_store_bytes if resources else 0,
        spill_loaded=resources.spill_load_bytes if resources else 0,
    )
    time = launch_time(target, shape, traffic)
    told = _told(launch, shape, traffic, time, counted)
    met = target.meeting_of(shape.blocks) if launch.cooperative else 0.0
    met += STEP_US * work.steps if launch.cooperative or len(plan.launches) == 1 else 0.0
    return _Part(time.us + met + target.launch_us, target.launch_us, time.bound, told)


def _over_units(traffic: Traffic, contract: Contract) -> float:
    """Peak of the unit that does a kernel's products over float32's."""
    if not traffic.on_units:
        return 1.0
    return fastest_over_fp32(contract, 4)


def _told(launch: Launch, shape: Shape, traffic: Traffic, time: LaunchTime, counted: bool) -> str:
    again = traffic.requested / max(traffic.unique, 1.0)
    reads = f", asks for each {again:.2g} times" if again > 1.05 else ""
    if shape.spilled:
        reads += f", {shape.spill_stored + shape.spill_loaded} bytes a thread spilled"
    blocks = f"{shape.blocks} block" + "s" * (shape.blocks != 1)
    source = "" if counted else " (accesses assumed ideal: this kernel ran at no counted size)"
    return (
        f"{launch.kernel}: {blocks} of {shape.threads}, {time.resident} an SM, "
        f"{traffic.width:.3g} bytes a request, {_bytes(traffic.unique)}{reads}{source}"
    )


def _bytes(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} bytes"


def _resources(compiled: CompileReport, launch: Launch) -> Resources | None:
    for one in compiled.kernels:
        if one.kernel == launch.kernel and one.consts == launch.consts:
            return one
    return None


def _buffers(args: Sequence[LibraryArg]) -> Iterator[str]:
    for arg in args:
        if isinstance(arg, BufferArg):
            yield arg.buffer
        elif isinstance(arg, tuple):
            yield from _buffers(arg)


def _library_bytes(plan: Plan, step: Library) -> float:
    values = (*step.args, *(value for _, value in step.kwargs))
    read = sum(plan.meta_of(name).nbytes for name in dict.fromkeys(_buffers(values)))
    return float(read + sum(meta.nbytes for meta in step.metas))


def _beyond_bytes_us(plan: Plan, step: Library) -> float:
    """Of a call that waits for more than its bytes."""
    name = base_name(step.op)
    if name in SOLVING:
        matrix = step.args[MATRIX_AT.get(name, 0)]
        assert isinstance(matrix, BufferArg)
        shape = plan.meta_of(matrix.buffer).shape
        return solving_us(name, math.prod(shape[:-2]), shape[-1])
    if name in RECURRENT:
        given = step.args[0]
        assert isinstance(given, BufferArg)
        return recurrent_us(recurrent_steps(name, plan.meta_of(given.buffer).shape, step.args))
    if name not in ORDERED or not isinstance(step.args[0], BufferArg):
        return 0.0
    shape = plan.meta_of(step.args[0].buffer).shape
    return ordering_us(name, *ordered_rows(f"{step.op}.", shape, step.args, dict(step.kwargs)))


def _replaced_flops(plan: Plan, step: Library) -> float:
    """Operations of the graph that no kernel has to do any more: of attention, with what its mask hides."""
    if "attention" in base_name(step.op):
        step = step.model_copy(update={"args": step.args[:5]})
    return _library_flops(plan, step)


def _factor_bytes(plan: Plan, step: Library) -> int:
    names = list(_buffers(step.args))[factors(base_name(step.op))]
    return max((DTYPE_BYTES[plan.meta_of(name).dtype] for name in names), default=4)


def _library_operations(plan: Plan, step: Library, contract: Contract) -> float:
    """Operations of float32 that take as long as the call does."""
    inputs = [plan.meta_of(name).shape for name in _buffers(step.args)]
    if not inputs:
        return 0.0
    output, width = step.metas[0].shape, _factor_bytes(plan, step)
    return library_operations(base_name(step.op), inputs, output, step.args, contract, width)


def _library_flops(plan: Plan, step: Library) -> float:
    inputs = [plan.meta_of(name).shape for name in _buffers(step.args)]
    return flops(base_name(step.op), inputs, step.metas[0].shape, step.args) if inputs else 0.0
