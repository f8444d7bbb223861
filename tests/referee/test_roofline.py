"""Times of whole plans, their baselines and floors."""

from __future__ import annotations

import math

import pytest
from softmax_problem import PROBLEM, RIGHT, case

from workbench.emulator.values import LaunchCounts
from workbench.model import (
    DTYPE_BYTES,
    H100,
    AccessSite,
    Case,
    CompileReport,
    DType,
    Graph,
    OpNode,
    OutputSpec,
    Problem,
    Ref,
    Resources,
)
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse
from workbench.plan.steps import Plan
from workbench.referee.baselines import START_US, EagerOp, compile_us, eager_us
from workbench.referee.least_operations import least_flops
from workbench.referee.roofline import COMPILE, EAGER, case_time, floor_us
from workbench.referee.traffic import Observation, traffic_of

COMPILED = CompileReport(
    arch="sm_90a",
    kernels=(
        Resources(
            kernel="softmax_rows<128>",
            registers=32,
            shared_bytes=512,
            spill_store_bytes=0,
            spill_load_bytes=0,
            stack_bytes=0,
        ),
    ),
    seconds=0.0,
    cached=False,
    nvrtc="13.0",
)


def plan_at(at: Case, source: str = RIGHT) -> Plan:
    return interpret(parse(source), PROBLEM.metas(at), H100)


def observed(at: Case, requests_a_byte: float, width: int = 4) -> Observation:
    """A counted run that asked for its bytes so many times over."""
    plan = plan_at(at)
    moved = 2 * at.size_map["s0"] * at.size_map["s1"] * 4
    counts = LaunchCounts(
        kernel="softmax_rows<128>",
        line=6,
        blocks=at.size_map["s0"],
        traced_blocks=at.size_map["s0"],
        sectors=int(moved * requests_a_byte / 32),
        ideal_sectors=moved // 32,
        load_bytes=moved,
        store_bytes=moved // 2,
        barriers=4 * at.size_map["s0"],
        warp_operations=0,
    )
    site = AccessSite(
        line=9,
        space="global",
        kind="load",
        width_bytes=width,
        requests=1000,
        transactions=4000,
        ideal_transactions=4000,
    )
    return Observation(plan, (counts,), (site,))


def softmax_op(rows: int, columns: int) -> tuple[EagerOp, ...]:
    moved = rows * columns * 4
    op = EagerOp(
        op="aten._softmax.default",
        read_bytes=moved,
        written_bytes=moved,
        elements=rows * columns,
        row=columns,
    )
    return (op,)


MEASURED = [
    # rows, columns, eager, compile: H100 80GB HBM3, torch 2.11+cu130, L2 flushed, microseconds
    (4096, 1024, 15.8, 14.2),
    (4096, 4096, 62.9, 49.5),
    (4096, 32768, 668.0, 412.0),
    (64, 131072, 68.0, 61.0),
    (4096, 393216, 8651.0, 6657.0),
]


@pytest.mark.parametrize(("rows", "columns", "eager", "compiled"), MEASURED)
def test_baselines_lie_near_what_was_measured(rows: int, columns: int, eager: float, compiled: float) -> None:
    assert 0.55 < eager_us(H100, softmax_op(rows, columns)) / eager < 1.3
    assert 0.55 < compile_us(H100, PROBLEM, case(rows, columns)) / compiled < 1.3


def test_blocks_that_wait_for_one_another_cost_a_barrier() -> None:
    declared = PROBLEM.cases[0]
    plan = plan_at(declared)
    steps = [s.model_copy(update={"cooperative": True}) if s.kind == "launch" else s for s in plan.steps]
    waiting = plan.model_copy(update={"steps": tuple(steps)})
    alone, met = (case_time(H100, PROBLEM, declared, one, COMPILED, []) for one in (plan, waiting))
    (launch,) = plan.launches
    assert met.time_us - alone.time_us == pytest.approx(H100.meeting_of(math.prod(launch.grid)))


def test_a_plan_s_time_comes_from_its_launches() -> None:
    declared = PROBLEM.cases[0]
    rereading, keeping = (
        case_time(H100, PROBLEM, declared, plan_at(declared), COMPILED, [observed(case(4, 32768), again)])
        for again in (2.0, 1.0)
    )
    assert keeping.time_us < rereading.time_us
    assert keeping.floor_us == rereading.floor_us <= keeping.time_us
    assert "asks for each 2 times" in rereading.note
    assert rereading.bound == "memory"
    assert dict(keeping.baselines).keys() == {COMPILE}


def test_narrow_requests_cost_time() -> None:
    declared = PROBLEM.cases[0]
    narrow, wide = (
        case_time(
            H100, PROBLEM, declared, plan_at(declared), COMPILED, [observed(case(4, 32768), 1.0, width)]
        )
        for width in (4, 16)
    )
    assert wide.time_us < narrow.time_us


def test_eager_is_a_baseline_where_its_operations_are_known() -> None:
    declared = PROBLEM.cases[0]
    time = case_time(H100, PROBLEM, declared, plan_at(declared), COMPILED, [], softmax_op(4096, 32768))
    assert dict(time.baselines).keys() == {EAGER, COMPILE}
    assert "assumed ideal" in time.note


def test_traffic_is_scaled_from_the_most_alike_case() -> None:
    declared = PROBLEM.cases[0]
    plan = plan_at(declared)
    seen = [observed(case(2, 33), 3.0), observed(case(4, 32768), 1.5)]
    traffic, counted = traffic_of(plan, plan.launches[0], seen)
    assert counted
    assert traffic.unique == 2 * 4096 * 32768 * 4
    assert traffic.requested == pytest.approx(1.5 * traffic.unique, rel=1e-3)
    assert traffic.barriers == 4
    assert traffic.touched == 4.0  # four sectors a request of 32 lanes


def test_small_work_is_bound_by_its_launch() -> None:
    tiny = case(2, 33)
    time = case_time(H100, PROBLEM, tiny, plan_at(tiny), COMPILED, [observed(tiny, 1.0)])
    assert time.bound == "launch"
    assert time.floor_us == pytest.approx(H100.launch_us + START_US, rel=1e-3)


@pytest.mark.parametrize(("rows", "cols"), [(1, 32), (512, 1000), (2048, 1000), (8192, 1024), (64, 4096)])
def test_no_baseline_is_faster_than_light(rows: int, cols: int) -> None:
    one = case(rows, cols)
    light = floor_us(H100, 2 * rows * cols * 4, 0.0)
    assert compile_us(H100, PROBLEM, one) >= light
    pointwise = EagerOp(
        op="aten.exp", read_bytes=rows * cols * 4, written_bytes=rows * cols * 4, elements=rows * cols
    )
    assert eager_us(H100, (pointwise,)) >= light
    time = case_time(H100, PROBLEM, one, plan_at(one), COMPILED, [observed(one, 1.0)])
    assert min(us for _, us in time.baselines) >= time.floor_us == pytest.approx(light)


# ------------------------------------------------------------------------------------ matrix products

SIZE = 4096


def product(*tail: tuple[str, tuple[object, ...], tuple[int, ...]]) -> Problem:
    """x @ w followed by operations given as (name, arguments, shape)."""

    def spec(shape: tuple[int, ...], dtype: DType = "f32") -> tuple[OutputSpec, ...]:
        assert DTYPE_BYTES[dtype]
        return (OutputSpec(dtype=dtype, dims=shape),)

    nodes = [
        OpNode(name="m", op="aten.mm.default", args=(Ref(ref="x"), Ref(ref="w")), outs=spec((SIZE, SIZE)))
    ]
    for name, args, shape in tail:
        nodes.append(
            OpNode.model_validate(
                {"name": name, "op": f"aten.{name}.default", "args": args, "outs": spec(shape)}
            )
        )
    x = PROBLEM.tensors[0].model_copy(update={"dims": (SIZE, SIZE)})
    return PROBLEM.model_copy(
        update={
            "tensors": (x, x.model_copy(update={"name": "w"})),
            "graph": Graph(nodes=tuple(nodes), outputs=(Ref(ref=nodes[-1].name),)),
            "symbols": (),
            "cases": (Case(label="one", sizes=()),),
        }
    )


def test_a_product_has_its_arithmetic_as_floor() -> None:
    problem = product(("exp", (Ref(ref="m"),), (SIZE, SIZE)))
    assert least_flops(problem, problem.cases[0]) == 2.0 * SIZE**3
    assert compile_us(H100, problem, problem.cases[0]) > 2.0 * SIZE**3 / H100.fp32_flops_per_s * 1e6


def test_a_product_that_is_only_summed_may_be_rewritten_away() -> None:
    summed = product(("sum", (Ref(ref="m"), (1,)), (SIZE,)))
    assert least_flops(summed, summed.cases[0]) == 0
    scaled = product(("mul", (Ref(ref="m"), 2.0), (SIZE, SIZE)), ("sum", (Ref(ref="mul"), (1,)), (SIZE,)))
    assert least_flops(scaled, scaled.cases[0]) == 0
    curved = product(("exp", (Ref(ref="m"),), (SIZE, SIZE)), ("sum", (Ref(ref="exp"), (1,)), (SIZE,)))
    assert least_flops(curved, curved.cases[0]) > 0


def test_distances_that_torch_gives_a_block_each_take_as_long_as_their_blocks() -> None:
    """4800 boxes and 256 others: 1565 us on an H100, all but some 20 us of them for the distances."""
    read, results = 4 * (4800 * 4 + 256 * 4), 4800 * 256
    op = EagerOp(
        op="aten._cdist_forward.default",
        read_bytes=read,
        written_bytes=4 * results,
        elements=results,
        tensors_read=2,
    )
    assert 1400 < eager_us(H100, (op,)) < 1600
