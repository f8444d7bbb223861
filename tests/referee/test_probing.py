"""Sizes that a plan's own conditions ask for, and what the two lanes make of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from cheat_files import HERE, all_files, read
from cheat_problems import PROBLEMS
from problem.cells import opened
from test_gpu_trial import Cpu
from torch import Tensor

from workbench.model import H100, Case, Kernel, Mismatch, Outcome, Passed, Problem, TensorMeta
from workbench.numerics.inputs import draw
from workbench.plan.interpret import interpret, interpret_path
from workbench.plan.parse import parse
from workbench.problem.reference import Reference
from workbench.referee.comparisons import compared
from workbench.referee.expectation import held_against
from workbench.referee.gpu_judge import GpuJudgement
from workbench.referee.gpu_protocol import CheckRequest
from workbench.referee.gpu_trial import checked
from workbench.referee.judge import Judgement
from workbench.referee.options import JudgeOptions
from workbench.referee.planning import UNALIGNED, unlike_layout
from workbench.referee.probing import (
    EMULATED,
    ON_GPU,
    Taken,
    beside,
    candidates,
    chosen,
    numbers_of,
    spread,
)
from workbench.referee.protocol import Trial

SOFTMAX = PROBLEMS["softmax"]
KERNEL = "__global__ void {name}(const float* x, float* y, int cols) {{ }}\n"


def text(*lines: str, device: str = "") -> Kernel:
    """A plan of these lines, of which each may launch ``short`` or ``long_row``."""
    body = "".join(f"    {line}\n" for line in lines)
    head = f"/* plan\ndef plan(x):\n    rows, cols = x.shape\n    y = empty_like(x)\n{body}    return y\n*/\n"
    return Kernel(source=head + KERNEL.format(name="short") + KERNEL.format(name="long_row") + device)


def launching(name: str) -> str:
    return f'    launch("{name}", grid=rows, block=32, args=[x, y, cols])'


TWO = text("if cols <= 3000:", launching("short"), "else:", launching("long_row"))


def probed(kernel: Kernel, kind: type[Judgement] = Judgement, problem: Problem = SOFTMAX) -> list[Case]:
    judgement = kind(problem, kernel, H100, JudgeOptions(), lambda stage: None)
    assert judgement._planned() is None
    judgement._probe()
    return judgement.probes


def columns(cases: list[Case]) -> list[int]:
    return [case.size_map["s1"] for case in cases]


def test_a_class_of_long_rows_gets_an_odd_one() -> None:
    assert any(cols > 3000 and cols % 2 for cols in columns(probed(TWO)))


def test_on_a_gpu_the_declared_shape_is_no_odd_one_either() -> None:
    found = columns(probed(TWO, GpuJudgement))
    assert any(cols > 3000 and cols % 2 for cols in found)
    assert len(found) <= ON_GPU.most


PLAIN = text(launching("short").strip(), launching("long_row").strip())


def test_a_plan_without_conditions_asks_for_nothing_on_the_emulator() -> None:
    assert probed(PLAIN) == []


def test_on_a_gpu_a_declared_length_less_one_is_tried_whatever_the_plan_says() -> None:
    assert columns(probed(PLAIN, GpuJudgement)) == [4095]


def test_a_plan_that_asks_for_alignment_meets_long_rows_at_odd_addresses() -> None:
    kernel = text("if x.alignment >= 16 or cols <= 3000:", launching("short"), "else:", launching("long_row"))
    found = [case for case in probed(kernel) if case.label.endswith(UNALIGNED)]
    assert any(cols > 3000 for cols in columns(found))


@pytest.mark.parametrize(
    "condition",
    [
        "cols > 2 * 1500",
        "cols * 2 > 6000",
        "not (rows < 9 and cols > 3000)",
        "x.numel > 6001 and cols > 3000",
    ],
)
def test_however_the_boundary_is_written(condition: str) -> None:
    kernel = text(f"if {condition}:", launching("long_row"), "else:", launching("short"))
    assert any(cols > 3000 and cols % 2 for cols in columns(probed(kernel)))


@pytest.mark.parametrize(
    "choice",
    [
        'launch("short", grid=rows, block=(32, 64)[cols > 3000], args=[x, y, cols])',
        'launch("short", grid=rows, block=32, args=[x, y, cols], const={"LONG": cols > 3000})',
        'launch("short", grid=rows, block=64 if cols > 3000 else 32, args=[x, y, cols])',
    ],
)
def test_a_comparison_counts_wherever_it_stands(choice: str) -> None:
    assert any(cols > 3000 and cols % 2 for cols in columns(probed(text(choice))))


def test_a_comparison_in_the_cuda_text_counts() -> None:
    device = "__device__ bool is_long(int n) { return n >= 3100; } // not < 3333\n"
    assert compared(device) == (3100,)
    kernel = text(launching("short").strip(), device=device)
    assert any(cols > 3100 and cols % 2 for cols in columns(probed(kernel)))


@pytest.mark.parametrize(
    "written",
    [
        "n > 2500", "2500 < n", "n <= 2500u", "n != 0x9c4UL", "n > 2'500", "n >= 4 * 625", "2000 + 500 == n",
        "const int most = 2500; if (n > most)", "#define MOST (2500)\nif (MOST > n)",
        "enum { most = 2500 }; n<most",
    ],
)  # fmt: skip
def test_however_a_comparison_in_the_cuda_text_is_written(written: str) -> None:
    assert compared(written) == (2500,)


@pytest.mark.parametrize(
    "written",
    ["x > 2500.0f", "x >> 2500", "x < 1.2500", "n2500 < 3", '"n > 2500"', "n > 9'999'999'999'999", "#if"],
)
def test_what_is_no_number_of_a_comparison(written: str) -> None:
    assert compared(written) == ()


@pytest.mark.parametrize(
    "given",
    [
        'launch("given", grid=rows, block=32, args=[x, y, cols, 3000])',
        'launch("given", grid=rows, block=32, args=[x, y, cols, 0], const={"LONG": 3000})',
        'launch("at<3000>", grid=rows, block=32, args=[x, y, cols, 0])',
        'launch("given", grid=rows, block=32, args=[x, y, cols, (cols // cols + 5) * 500])',
    ],
)
def test_a_number_that_the_plan_hands_to_its_kernel_counts(given: str) -> None:
    device = (
        "template <int N> __global__ void at(const float* x, float* y, int cols, int n) {}\n"
        "__global__ void given(const float* x, float* y, int cols, int n) {}\n"
    )
    assert any(cols > 3000 and cols % 2 for cols in columns(probed(text(given, device=device))))
    few = given.replace("3000", "30").replace("500", "5")
    assert not probed(text(few, device=device))


def test_numbers_are_folded_and_bounded() -> None:
    program = parse(text("if cols > 3 * 2 ** 10 + 1 or cols > 10 ** 9:", launching("short")).source)
    found = numbers_of(program, (5000,), 4096, EMULATED)
    assert 3073 in found and 5000 in found and 10**9 not in found


@pytest.mark.parametrize("kind", [Judgement, GpuJudgement])
def test_a_branch_far_beyond_the_declared_sizes_is_tried(kind: type[Judgement]) -> None:
    far = text("if cols > 20000:", launching("long_row"), "else:", launching("short"))
    assert any(cols > 20000 and cols % 2 for cols in columns(probed(far, kind)))
    given = text("require(cols <= 20000, 'rows are short')", launching("short").strip())
    assert not any(cols > 8192 for cols in columns(probed(given, kind)))


@pytest.mark.parametrize(
    "condition",
    [
        "4 * cols > target.shared_bytes_per_block",
        "cols // 7 > 300 and cols // 7 < 500",
        "(cols >> 9) in (5, 6)",
    ],
)
@pytest.mark.parametrize("kind", [Judgement, GpuJudgement])
def test_a_branch_at_a_size_that_the_plan_computes_is_tried(condition: str, kind: type[Judgement]) -> None:
    kernel = text(f"if {condition}:", launching("long_row"), "else:", launching("short"))
    judgement = kind(SOFTMAX, kernel, H100, JudgeOptions(), lambda stage: None)
    assert judgement._planned() is None
    judgement._probe()
    plans = [judgement.plans[case] for case in judgement.probes]
    assert {launched for plan in plans for launched, _ in plan.instances} >= {"long_row"}
    assert len(plans) <= judgement.reach.most


def test_sizes_all_over_the_reach_leave_ways_that_others_take_to_them() -> None:
    assert all(cols <= 4097 for cols in columns(probed(TWO)))


def test_sizes_stay_within_reach_and_are_new() -> None:
    program = parse(TWO.source)
    found = candidates(SOFTMAX, program, (), EMULATED)
    known = {case.sizes for case in (*SOFTMAX.proofs, *SOFTMAX.cases)}
    assert found and not known & {case.sizes for case in found}
    assert all(2 * case.size_map["s0"] * case.size_map["s1"] <= EMULATED.elements for case in found)


def test_sizes_keep_to_what_all_known_ones_are_multiples_of() -> None:
    def by_eight(case: Case) -> Case:
        rows, cols = (n for _, n in case.sizes)
        return case.model_copy(update={"sizes": (("s0", rows), ("s1", 8 * cols))})

    proofs, cases = (tuple(map(by_eight, some)) for some in (SOFTMAX.proofs, SOFTMAX.cases))
    problem = SOFTMAX.model_copy(update={"proofs": proofs, "cases": cases})
    assert all(cols % 8 == 0 for cols in columns(probed(TWO, problem=problem)))


def test_no_size_is_less_than_the_reference_is_known_to_take() -> None:
    """Of a table that data looks into, a reference may refuse less: then it cannot say what is right."""
    few = tuple(case for case in SOFTMAX.proofs if case.size_map["s1"] >= 33)
    problem = SOFTMAX.model_copy(update={"proofs": few})
    least = min(case.size_map["s1"] for case in (*few, *SOFTMAX.cases))
    program = parse(TWO.source)
    found = [*candidates(problem, program, (), ON_GPU), *spread(problem, ON_GPU)]
    assert least >= 33 and found and all(case.size_map["s1"] >= least for case in found)
    assert any(case.size_map["s1"] < 33 for case in candidates(SOFTMAX, program, (), ON_GPU))


def test_sizes_that_only_the_data_shows_to_be_one_stay_equal() -> None:
    problem = opened(
        "def f(x, table): return x + table[torch.arange(x.shape[0])]\n"
        "inputs = [torch.randn(4000, 8), torch.randn(4000, 8)]"
    )
    rows, others = (str(spec.dims[0]) for spec in problem.tensors)
    assert rows != others and any(note.startswith("sizes that are equal") for note in problem.notes)
    found = [case.size_map for case in candidates(problem, parse(TWO.source), (), ON_GPU)]
    assert len({sizes[rows] for sizes in found}) > 3
    assert all(sizes[rows] == sizes[others] for sizes in found)


def test_paths_that_nothing_comes_by_go_first() -> None:
    def of(cols: int, path: int) -> Taken:
        case = Case(label=f"3x{cols}", sizes=(("s0", 3), ("s1", cols)), origin="proof")
        return Taken(case, ((path, 0, True),))

    offered = [of(101, 1), of(102, 2), of(103, 2), of(105, 3)]
    declared = {((n, 0, True),) for n in (1, 2)}
    found = chosen([of(8, 1)], offered, declared, (SOFTMAX, EMULATED))
    assert columns(list(found)) == [103, 105, 101]


def test_sides_of_a_number() -> None:
    assert beside({"s0": 3, "s1": 4096}, (4096,)) == ((-1, 4096, False), (-2, 4096, True))


def test_the_ways_of_a_plan() -> None:
    program = parse(TWO.source)
    ways = [
        interpret_path(program, SOFTMAX.metas(case), H100)[1] for case in (*SOFTMAX.proofs, *SOFTMAX.cases)
    ]
    assert len(set(ways)) == 2 and ways[-1] == ways[SOFTMAX.proofs.index(SOFTMAX.proofs[-1])]


# ------------------------------------------------------------------------------------ the GPU's lane


class Small(GpuJudgement):
    """The GPU's lane at sizes that a CPU runs in moments."""

    reach = EMULATED


def on_stand_in(kernel: Kernel, body: Callable[[Tensor], Tensor], problem: Problem = SOFTMAX) -> Outcome:
    """The checks of the GPU's lane at its probes, on the CPU."""
    judgement = Small(problem, kernel, H100, JudgeOptions(), lambda stage: None)
    assert judgement._planned() is None
    judgement._probe()
    trials = tuple(
        Trial(case=case, plan=judgement.plans[case], once=True, probe=True) for case in judgement.probes
    )
    trials += tuple(Trial(case=case, plan=judgement.plans[case]) for case in problem.proofs[:3])
    request = CheckRequest(problem=problem, trials=trials, images=(), options=JudgeOptions())
    return checked(request, lambda message: None, Cpu(body)).outcome


def wrong_where_long_and_odd(x: Tensor) -> Tensor:
    result = torch.softmax(x, dim=1)
    return result * 1.001 if x.shape[1] > 3000 and x.shape[1] % 2 else result


def test_the_gpus_lane_finds_a_kernel_that_is_wrong_for_long_odd_rows() -> None:
    found = on_stand_in(TWO, wrong_where_long_and_odd)
    assert isinstance(found, Mismatch)
    assert int(found.case.partition("x")[2]) > 3000 and int(found.case.partition("x")[2]) % 2
    assert on_stand_in(TWO, lambda x: torch.softmax(x, dim=1)) == Passed()


REFUSING = (
    "import torch\n\n\ndef softmax(x):\n    if x.shape[1] > 3000 and x.shape[1] % 2:\n"
    "        raise ValueError('even rows only')\n    return torch.softmax(x, dim=1)\n"
)


def test_sizes_the_reference_refuses_are_held_against_nobody() -> None:
    problem = SOFTMAX.model_copy(update={"source": REFUSING})
    assert on_stand_in(TWO, wrong_where_long_and_odd, problem) == Passed()


# ------------------------------------------------------------------------------------ the emulator's lane


def test_the_emulator_drops_what_the_reference_refuses() -> None:
    file = next(file for file in all_files() if file.label == "cheats/long_odd_rows")
    problem = SOFTMAX.model_copy(update={"source": REFUSING})
    options = JudgeOptions(kinds=("normal",), races=False)
    judgement = Judgement(problem, file.kernel, H100, options, lambda stage: None)
    evaluation = judgement.evaluation()
    probes = {case.label for case in judgement.probes}
    assert evaluation.outcome == Passed()
    assert probes and not probes & {check.case for check in evaluation.checks}


def test_a_branch_that_only_large_sizes_reach_is_told_as_not_run() -> None:
    source = read(HERE / "honest" / "two_pass_variance.cu").kernel.source
    problem = PROBLEMS["variance"]
    marked = source.replace("    rows, cols = x.shape\n", "    rows, cols = x.shape\n" + ONLY_LARGE, 1)
    assert marked != source
    options = JudgeOptions(kinds=("normal",), races=False)
    told = Judgement(problem, Kernel(source=marked), H100, options, lambda stage: None).evaluation().notes
    assert told == (
        "at 4096x4096 the plan takes a way that nothing small enough for the emulator takes: not run",
    )


ONLY_LARGE = "    both = rows > 2000 and cols > 2000\n"


# ------------------------------------------------------------------------------------ other shapes

POOLED = """
import torch

def pooled(x):
    return torch.nn.functional.max_pool2d(x, 4, stride=3, padding=2, ceil_mode=True)

inputs = [torch.randn(2, 3, 4, 3)]
"""


def test_where_the_graph_foretells_another_shape_than_the_reference_has_nothing_is_compared() -> None:
    """torch drops a last window that would begin beyond the input: for some sizes and not for others."""
    problem = opened(POOLED)
    symbol = str(problem.tensors[0].dims[2])
    reference = Reference(problem)
    doubtful = {}
    for size in (4, 5, 6):
        case = Case(label="", sizes=tuple({**problem.cases[0].size_map, symbol: size}.items()))
        tensors = draw(problem, case, "normal", 1)
        doubtful[size] = held_against(problem, reference, case.size_map, tensors).doubtful
    assert doubtful[4] is False and any(doubtful.values())


SUMMED = """
import torch

def summed(k, x):
    return torch.einsum("dts,bsd->btd", k, x)

inputs = [torch.randn(5, 6, 6), torch.randn(2, 6, 5)]
"""
TURNED = """/* plan
def plan(k, x):
    batch, steps, width = x.shape
    y = empty((width, steps, batch), f32)
    launch("turned", grid=1, block=32, args=[k, x, y])
    return view(y, (batch, steps, width), (1, batch, steps * batch))
*/
__global__ void turned(const float* k, const float* x, float* y) { }
"""


def test_a_layout_of_the_traced_sizes_is_right_where_the_reference_has_another() -> None:
    """An ``einsum`` over a single step is a product of elements, and its result then row-major."""
    problem = opened(SUMMED)
    metas = {
        "k": TensorMeta(dtype="f32", shape=(5, 1, 1), strides=(1, 1, 1)),
        "x": TensorMeta(dtype="f32", shape=(7, 1, 5), strides=(5, 5, 1)),
    }
    plan = interpret(parse(TURNED), metas, H100)
    single = torch.einsum("dts,bsd->btd", torch.randn(5, 1, 1), torch.randn(7, 1, 5))
    assert not unlike_layout(problem, plan, (single.stride(),))
    unknown = problem.outputs[0].model_copy(update={"order": None})
    assert unlike_layout(problem.model_copy(update={"outputs": (unknown,)}), plan, (single.stride(),))
