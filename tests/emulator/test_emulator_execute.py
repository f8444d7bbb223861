"""Whole plans: several steps, views, strides, alignment, library calls, refused launches."""

from typing import Any

import pytest
import torch
from launching import Out, Shape, meta_of, plan_of, run

from workbench.emulator import buffers
from workbench.emulator.build import build
from workbench.emulator.counts import merge_sites
from workbench.emulator.execute import Execution, _operation, execute
from workbench.emulator.findings import array_name, element
from workbench.emulator.hosts import IN_PROCESS
from workbench.emulator.module import encode_scalar
from workbench.emulator.values import Options, RunReport
from workbench.errors import EmulatorLaunchError
from workbench.model import AccessSite, TensorMeta
from workbench.plan.steps import Allocate, BufferArg, Launch, Library, Plan, ScalarArg, View

SOURCE = """
__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.f * x[i];
}
__global__ void add_into(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += x[i];
}
__global__ void rows(const float* x, float* y, int stride, int cols) {
  y[blockIdx.x * cols + threadIdx.x] = x[blockIdx.x * stride + threadIdx.x];
}
__global__ void addresses(const float* a, const float* b, unsigned long long* y) {
  y[0] = (unsigned long long)a; y[1] = (unsigned long long)b; y[2] = (unsigned long long)y;
}
"""


def launch(kernel: str, args: list[str | int], threads: int = 64, line: int = 3) -> Launch:
    return Launch(
        kernel=kernel,
        grid=(1, 1, 1),
        block=(threads, 1, 1),
        args=tuple(
            BufferArg(buffer=a) if isinstance(a, str) else ScalarArg(value=a, ctype="int") for a in args
        ),
        line=line,
    )


def allocate(name: str, *shape: int, zero: bool = False) -> Allocate:
    return Allocate(buffer=name, meta=meta_of(torch.empty(shape)), zero=zero, line=2)


def carry_out(
    plan: Plan, tensors: dict[str, torch.Tensor], mode: Any = "checked", **options: Any
) -> Execution:
    return execute(plan, build(SOURCE, plan.instances, mode), tensors, Options(case="test", **options))


def plan(tensors: dict[str, torch.Tensor], steps: list[Any], *outputs: str) -> Plan:
    arguments = tuple((name, meta_of(tensor)) for name, tensor in tensors.items())
    return Plan(arguments=arguments, steps=tuple(steps), outputs=outputs)


def test_launches_in_order_share_a_workspace() -> None:
    tensors = {"x": torch.randn(50)}
    steps = [
        allocate("%0", 50),
        allocate("%1", 50),
        launch("twice", ["x", "%0", 50]),
        launch("twice", ["%0", "%1", 50]),
        launch("add_into", ["%0", "%1", 50]),
    ]
    execution = carry_out(plan(tensors, steps, "%1", "%0"), tensors)
    torch.testing.assert_close(execution.outputs[0], 6 * tensors["x"])
    torch.testing.assert_close(execution.outputs[1], 2 * tensors["x"])
    report = execution.report
    assert report.hazards == ()
    assert [found.kernel for found in report.launches] == ["twice", "twice", "add_into"]
    assert report.counts is not None
    assert report.counts.launches == 3
    assert report.counts.load_bytes == 4 * (50 + 50 + 100)
    assert RunReport.model_validate_json(report.model_dump_json()) == report


def test_reading_a_workspace_that_nothing_wrote() -> None:
    tensors = {"x": torch.randn(50)}
    steps = [allocate("%0", 50), allocate("%1", 50), launch("add_into", ["x", "%1", 50])]
    (hazard,) = carry_out(plan(tensors, steps, "%0"), tensors).report.hazards
    assert (hazard.hazard, "workspace %1[0]" in hazard.message) == ("uninitialised", True)
    steps[1] = allocate("%1", 50, zero=True)
    execution = carry_out(plan(tensors, steps, "%1"), tensors)
    assert execution.report.hazards == ()
    assert torch.equal(execution.outputs[0], tensors["x"])


def test_undefined_memory_is_poisoned() -> None:
    for dtype, fits in (
        ("f32", lambda t: t.isnan().all()),
        ("bf16", lambda t: t.isnan().all()),
        ("i32", lambda t: (t == 0x7F7F7F7F).all()),
    ):
        step = Allocate(buffer="%0", meta=TensorMeta(dtype=dtype, shape=(3,), strides=(1,)), line=1)
        execution = execute(plan({}, [step], "%0"), build(SOURCE, [], "plain"), {})
        assert fits(execution.outputs[0])


def test_views_share_memory() -> None:
    tensors = {"x": torch.randn(4, 6)}
    row = TensorMeta(dtype="f32", shape=(6,), strides=(1,), alignment=8)
    steps = [
        allocate("%0", 4, 6),
        View(buffer="%1", of="x", meta=row, offset=6, line=2),
        View(buffer="%2", of="%0", meta=row, offset=18, line=2),
        launch("twice", ["%1", "%2", 6]),
        View(
            buffer="%3", of="%0", meta=TensorMeta(dtype="f32", shape=(6, 4), strides=(1, 6)), offset=0, line=2
        ),
    ]
    execution = carry_out(plan(tensors, steps, "%0", "%3"), tensors)
    assert torch.equal(execution.outputs[0][3], 2 * tensors["x"][1])
    assert execution.outputs[0][:3].isnan().all()
    assert torch.equal(execution.outputs[1].nan_to_num(), execution.outputs[0].T.nan_to_num())
    missing = {(u.output, u.elements, u.first) for u in execution.report.unwritten}
    assert missing == {(0, 18, (0, 0)), (1, 18, (0, 0))}


def test_strided_inputs_keep_their_strides() -> None:
    tensors = {"x": torch.randn(5, 9)[:, :7]}
    steps = [allocate("%0", 5, 7), launch("rows", ["x", "%0", 9, 7], threads=7)]
    steps[1] = steps[1].model_copy(update={"grid": (5, 1, 1)})
    (y,) = carry_out(plan(tensors, steps, "%0"), tensors).outputs
    assert torch.equal(y, tensors["x"])
    # The plan's strides count, not those of the tensor at hand.
    made = plan(tensors, steps, "%0")
    (y,) = carry_out(made, {"x": tensors["x"].contiguous()}).outputs
    assert torch.equal(y, tensors["x"])


def test_addresses_have_the_declared_alignment_and_no_more() -> None:
    tensors = {"a": torch.ones(8), "b": torch.ones(8)}
    metas = (("a", meta_of(tensors["a"])), ("b", meta_of(tensors["b"]).model_copy(update={"alignment": 4})))
    out = Allocate(buffer="%0", meta=TensorMeta(dtype="i64", shape=(3,), strides=(1,)), line=1)
    made = Plan(arguments=metas, steps=(out, launch("addresses", ["a", "b", "%0"], 1)), outputs=("%0",))
    a, b, y = carry_out(made, tensors).outputs[0].tolist()
    assert (a % 256, b % 8, y % 256) == (0, 4, 0)


def test_empty_tensors() -> None:
    tensors = {"x": torch.empty(0, 3)}
    execution = carry_out(
        plan(tensors, [allocate("%0", 0, 3), launch("twice", ["x", "%0", 0])], "%0"), tensors
    )
    assert (execution.outputs[0].shape, execution.report.hazards) == ((0, 3), ())
    hazards = carry_out(
        plan(tensors, [allocate("%0", 2), launch("twice", ["x", "%0", 2])], "%0"), tensors
    ).report.hazards
    assert [h.hazard for h in hazards] == ["out_of_bounds"]


def test_library_steps() -> None:
    tensors = {"x": torch.randn(3, 4), "w": torch.randn(4, 5)}
    product = Library(
        op="aten.mm", args=(BufferArg(buffer="x"), BufferArg(buffer="w")), results=("%0",),
        metas=(meta_of(torch.empty(3, 5)),), line=1,
    )  # fmt: skip
    largest = Library(
        op="aten.max.dim", args=(BufferArg(buffer="%0"), 1), kwargs=(("keepdim", True),),
        results=("%1", "%2"),
        metas=(meta_of(torch.empty(3, 1)), meta_of(torch.empty(3, 1, dtype=torch.int64))), line=1,
    )  # fmt: skip
    total = Library(
        op="aten.sum.dim_IntList", args=(BufferArg(buffer="%0"), (0, 1)), kwargs=(("dtype", "f64"),),
        results=("%3",),
        metas=(meta_of(torch.empty((), dtype=torch.float64)),), line=1,
    )  # fmt: skip
    steps = [product, largest, total, allocate("%4", 15), launch("twice", ["%0", "%4", 15])]
    outputs = carry_out(plan(tensors, steps, "%1", "%2", "%3", "%4"), tensors).outputs
    expected = tensors["x"] @ tensors["w"]
    assert torch.equal(outputs[0], expected.max(1, keepdim=True).values)
    assert torch.equal(outputs[1], expected.max(1, keepdim=True).indices)
    assert outputs[2].dtype == torch.float64
    assert torch.equal(outputs[3], 2 * expected.flatten())


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (launch("twice", ["x", "%0"]), "twice takes 3 arguments, 2 given"),
        (launch("twice", ["x", 3, 3]), "argument 2 of twice: a number was given"),
        (launch("twice", ["x", "%0", "x"]), "argument 3 of twice: a tensor was given"),
        (launch("twice", ["x", "%0", 2**31]), "argument 3 of twice: 2147483648 does not fit"),
        (launch("twice", ["x", "%0", 3], threads=1025), "1025 threads a block"),
        (launch("twice", ["x", "%0", 3]).model_copy(update={"grid": (0, 1, 1)}), "empty grid"),
        (
            launch("twice", ["x", "%0", 3]).model_copy(update={"shared_bytes": 1 << 20}),
            "1048576 bytes of shared",
        ),
    ],
)
def test_launches_that_a_gpu_refuses(step: Launch, message: str) -> None:
    tensors = {"x": torch.ones(3)}
    with pytest.raises(EmulatorLaunchError, match=message) as caught:
        carry_out(plan(tensors, [allocate("%0", 3), step], "%0"), tensors)
    assert caught.value.diagnostics[0].line == 3


def test_a_grid_that_is_no_multiple_of_its_cluster_is_refused() -> None:
    step = launch("twice", ["x", "%0", 3]).model_copy(update={"cluster": (2, 1, 1)})
    tensors = {"x": torch.ones(3)}
    with pytest.raises(EmulatorLaunchError, match="no multiple of cluster"):
        carry_out(plan(tensors, [allocate("%0", 3), step], "%0"), tensors)


def test_tensors_must_fit_the_plan() -> None:
    made = plan_of("twice", Shape(1, 1), {"x": torch.ones(3), "y": Out((3,)), "n": 3})
    with pytest.raises(ValueError, match="the plan was made for"):
        execute(made, build(SOURCE, made.instances, "plain"), {"x": torch.ones(4)})


def test_device_variables_live_as_long_as_the_process() -> None:
    consts = (("N", "1"), ("SCALE", "1.0f"))
    counts = [
        run("language.cu:counts_threads", Shape(1, 32), {"y": Out((32,), "i32")}, "plain", consts)
        .outputs[0][0]
        .item()
        for _ in range(2)
    ]
    assert counts[1] - counts[0] == 32


def test_guard_zones_tell_which_side() -> None:
    buffer = buffers.allocate("b", TensorMeta(dtype="f32", shape=(5,), strides=(1,)), IN_PROCESS.storage)
    assert buffer.broken_guard() is None
    buffer.raw[buffer.start + 5 * 4 + 9] = 0
    assert buffer.broken_guard() == "3 elements past the end"
    buffer = buffers.allocate("b", TensorMeta(dtype="i16", shape=(5,), strides=(1,)), IN_PROCESS.storage)
    buffer.raw[buffer.start - 1] = 0
    assert buffer.broken_guard() == "1 element before the start"


def test_elements_are_named_by_index() -> None:
    meta = TensorMeta(dtype="f32", shape=(3, 4), strides=(4, 1))
    assert element(meta, 4 * 7) == "[1, 3]"
    assert element(meta, 4 * 14) == "[14], 3 elements past its end (shape 3x4)"
    assert element(meta, -4) == "[-1], 1 element before its start (shape 3x4)"
    assert (
        element(meta.model_copy(update={"strides": (1, 3)}), 20) == " at element 5 of its storage (shape 3x4)"
    )


@pytest.mark.parametrize(
    ("symbol", "name"),
    [("_ZZ7softmaxILi256EEvPKfPfiE3red", "red"), ("_ZZ1kPfE4tile", "tile"), ("_ZZ1kPfE4tile_0", "tile"),
     ("_ZZN2ns1kEPfE12accumulators", "accumulators"), ("odd", "odd")],
)  # fmt: skip
def test_shared_arrays_are_named_as_in_the_source(symbol: str, name: str) -> None:
    assert array_name(symbol) == name


def test_scalars_are_encoded_as_the_parameter_wants() -> None:
    assert encode_scalar(True, "i") == b"\1\0\0\0"
    assert encode_scalar(3, "f") == b"\0\0\x40\x40"
    assert encode_scalar(1.0, "bf16") == b"\x80\x3f"
    assert encode_scalar(2.0, "q") == (2).to_bytes(8, "little")
    for value, code in ((1.5, "i"), (1, "s24")):
        with pytest.raises(ValueError, match=r"whole number|structure"):
            encode_scalar(value, code)
    with pytest.raises(OverflowError):
        encode_scalar(-1, "I")


def test_sites_of_one_line_are_added_up() -> None:
    def site(line: int, requests: int) -> AccessSite:
        return AccessSite(
            line=line, space="global", kind="load", width_bytes=4, requests=requests,
            transactions=4 * requests, ideal_transactions=4 * requests,
        )  # fmt: skip

    assert merge_sites([site(3, 1), site(2, 5), site(3, 2)]) == (site(2, 5), site(3, 3))


def test_a_bias_is_added_to_a_finished_product() -> None:
    """As a GPU's library does; products of 1e-9 added to 1e-3 one by one round each time."""
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(*shape, generator=generator) for shape in ((129, 128), (128, 6)))
    left, right, bias = left * 1e-3, right * 1e-6, torch.randn(6, generator=generator) * 1e-3
    found = _operation("aten.addmm.default")(bias, left, right)
    assert isinstance(found, torch.Tensor)
    wanted = left.double() @ right.double() + bias.double()
    assert bool(((found - wanted).abs() <= 2**-23 * wanted.abs()).all())
    assert torch.equal(_operation("aten.addmm")(bias, left, right, beta=0, alpha=2), 2 * (left @ right))
