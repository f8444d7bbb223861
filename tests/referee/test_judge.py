"""One small problem, one right kernel, and every wrong way to write it."""

from __future__ import annotations

from typing import Any

import pytest
from softmax_problem import PROBLEM, RIGHT, STORE, case, changed, storing

from workbench.emulator.patience import FIRST_CPU_S
from workbench.errors import DeviceError
from workbench.model import (
    H100,
    CompileFailed,
    Crashed,
    Evaluation,
    Hazard,
    Kernel,
    LaunchFailed,
    Mismatch,
    Passed,
    Problem,
    Stage,
    Suspect,
    TimedOut,
)
from workbench.referee import judge as judging
from workbench.referee.judge import judge
from workbench.referee.options import JudgeOptions
from workbench.referee.protocol import LEAST_ROOM
from workbench.workers import Raised, Result, torch_ready

QUICK = JudgeOptions()
LABELS = {p.label for p in PROBLEM.proofs} | {"4x128 unaligned"}


def judged(kernel: Kernel, options: JudgeOptions = QUICK, problem: Problem = PROBLEM) -> Evaluation:
    return judge(problem, kernel, H100, options, lambda stage: None)


@pytest.fixture(scope="module")
def right() -> Evaluation:
    stages: list[Stage] = []
    evaluation = judge(PROBLEM, Kernel(source=RIGHT), H100, QUICK, stages.append)
    assert stages == ["compiling", "running"]
    return evaluation


def test_the_right_kernel_passes(right: Evaluation) -> None:
    assert right.outcome == Passed()
    assert right.kernel == Kernel(source=RIGHT).digest
    assert right.compiled is not None
    assert right.compiled.kernels[0].registers > 0
    assert right.worst_ratio is not None
    assert right.worst_ratio < 1


def test_every_proof_and_kind_is_checked_on_its_own_seed(right: Evaluation) -> None:
    assert {c.case for c in right.checks} == LABELS
    assert {c.inputs for c in right.checks} == set(QUICK.kinds)
    assert len({c.seed for c in right.checks}) == len(right.checks) >= 5


def test_facts_counts_and_times_are_those_of_the_declared_cases(right: Evaluation) -> None:
    labels = [c.label for c in PROBLEM.cases]
    assert [f.case for f in right.facts] == labels
    assert right.facts[0].bytes_min == 2 * 4096 * 32768 * 4
    assert {c.case for c in right.counts} == LABELS
    assert [t.case for t in right.times] == labels
    for time in right.times:
        assert time.source == "model"
        assert {name for name, _ in time.baselines} == {"eager (model)", "compile (model)"}
        assert 0 < time.roofline_share <= 1


def test_the_same_kernel_gets_the_same_verdict(right: Evaluation) -> None:
    again = judged(Kernel(source=RIGHT))
    unlike = {"seconds", "compiled"}
    assert again.model_dump(exclude=unlike) == right.model_dump(exclude=unlike)


WRONG_NUMBERS = {
    "missing tail": (
        storing("for (int i = threadIdx.x; i < cols / 2 * 2; i += BLOCK) out[i] = expf(row[i] - top) / sum;"),
        "never written",
    ),
    "last row skipped": (
        storing(f"if (blockIdx.x == gridDim.x - 1 && gridDim.x > 1) return;\n    {STORE}"),
        "never written",
    ),
    "zeros": (
        storing("for (int i = threadIdx.x; i < cols; i += BLOCK) out[i] = 0.0f;"),
        "zeros",
    ),
    "nothing written": (storing("if (cols < 0) out[0] = top + sum;"), "never written"),
    "shifted": (
        storing(
            "for (int i = threadIdx.x; i < cols; i += BLOCK) out[i] = expf(row[(i + 1) % cols] - top) / sum;"
        ),
        "shifted by one element",
    ),
    "not normalised": (storing(STORE.replace(" / sum", " / (2.0f * sum)")), "0.5 times the right value"),
    "first row everywhere": (
        changed("x + (size_t)blockIdx.x * cols", "x"),
        "the first row, repeated",
    ),
    "half precision": (
        changed(
            "template <int BLOCK>\n__device__ float block_max",
            "#include <cuda_fp16.h>\ntemplate <int BLOCK>\n__device__ float block_max",
            RIGHT.replace(STORE, STORE.replace("row[i] - top", "__half2float(__float2half(row[i] - top))")),
        ),
        "times the error allowed",
    ),
    "no maximum": (
        changed("top = block_max<BLOCK>(top, scratch);", "top = 0.0f;"),
        "wrong on",
    ),
    "right for small values only": (
        storing(
            STORE.replace(
                "expf(row[i] - top) / sum", "(fabsf(row[i]) > 20.0f ? 0.0f : expf(row[i] - top) / sum)"
            )
        ),
        "wrong on",
    ),
    "NaN ignored": (
        storing(STORE.replace("expf(row[i] - top) / sum", "(sum == sum ? expf(row[i] - top) / sum : 0.0f)")),
        "special values inputs",
    ),
}


@pytest.mark.parametrize("name", WRONG_NUMBERS)
def test_wrong_numbers_are_a_mismatch_that_says_where(name: str) -> None:
    kernel, words = WRONG_NUMBERS[name]
    evaluation = judged(kernel)
    assert isinstance(evaluation.outcome, Mismatch), evaluation.outcome
    assert words in evaluation.outcome.message, evaluation.outcome.message
    assert evaluation.times == ()
    assert evaluation.score == 0
    assert evaluation.checks[-1].case == evaluation.outcome.case


def test_a_transposed_result_is_recognised() -> None:
    square = PROBLEM.model_copy(update={"proofs": (case(33, 33),)})
    kernel = storing(
        "for (int i = threadIdx.x; i < cols; i += BLOCK) y[(size_t)i * gridDim.x + blockIdx.x] = "
        "expf(row[i] - top) / sum;"
    )
    evaluation = judged(kernel, problem=square)
    assert isinstance(evaluation.outcome, Mismatch)
    assert "transposed" in evaluation.outcome.message


HAZARDS = {
    "out_of_bounds": (
        storing("for (int i = threadIdx.x; i <= cols; i += BLOCK) out[i] = expf(row[i] - top) / sum;")
    ),
    "input_written": storing(STORE + "\n    if (threadIdx.x == 0) ((float*)row)[0] = 1.0f;"),
    "uninitialised": storing(STORE.replace("out[i] =", "out[i] = (out[i] == 12345.0f ? 1.0f : 0.0f) +")),
    "race": changed(
        "        __syncthreads();\n    }\n    value = scratch[0];", "    }\n    value = scratch[0];"
    ),
}


@pytest.mark.parametrize("name", HAZARDS)
def test_undefined_behaviour_is_a_hazard_at_its_line(name: str) -> None:
    evaluation = judged(HAZARDS[name])
    assert isinstance(evaluation.outcome, Hazard), evaluation.outcome
    assert evaluation.outcome.hazard == name
    assert evaluation.outcome.line is not None


COPY4 = """/* plan
def plan(x):
    rows, cols = x.shape
    require(x.is_contiguous, "contiguous only")
    require(cols % 4 == 0, "rows of whole vectors only")
    y = empty_like(x)
    launch("softmax4", grid=rows, block=32, args=[x, y, cols])
    return y
*/
__global__ void softmax4(const float* x, float* y, int cols) {
    const float4* row = reinterpret_cast<const float4*>(x + (size_t)blockIdx.x * cols);
    float sum = 0.0f;
    for (int i = 0; i < cols / 4; i++) {
        float4 v = row[i];
        sum += expf(v.x) + expf(v.y) + expf(v.z) + expf(v.w);
    }
    for (int i = threadIdx.x; i < cols; i += 32)
        y[(size_t)blockIdx.x * cols + i] = expf(x[(size_t)blockIdx.x * cols + i]) / sum;
}
"""


def test_vectors_at_addresses_nobody_promised_are_a_hazard() -> None:
    narrow = JudgeOptions(kinds=("normal",))
    outcome = judged(Kernel(source=COPY4), narrow).outcome
    assert isinstance(outcome, Hazard), outcome
    assert outcome.hazard == "misaligned"
    assert outcome.case == "4x128 unaligned"
    asked = COPY4.replace("cols % 4 == 0,", "cols % 4 == 0 and x.alignment >= 16,")
    passed = judged(Kernel(source=asked), narrow).outcome
    assert isinstance(passed, Passed), passed
    assert "4x128 unaligned" in passed.not_covered


ONE_ROUND = """/* plan
def plan(x):
    rows, cols = x.shape
    require(x.is_contiguous, "contiguous only")
    y = empty_like(x)
    launch("softmax", grid=min(rows, target.sm_count * 8), block=32, args=[x, y, rows, cols])
    return y
*/
__global__ void softmax(const float* x, float* y, int rows, int cols) {
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        float top = -INFINITY, sum = 0.0f;
        for (int i = 0; i < cols; ++i) top = fmaxf(top, x[(size_t)row * cols + i]);
        for (int i = 0; i < cols; ++i) sum += expf(x[(size_t)row * cols + i] - top);
        for (int i = threadIdx.x; i < cols; i += 32)
            y[(size_t)row * cols + i] = expf(x[(size_t)row * cols + i] - top) / sum;
    }
}
"""


def test_a_grid_that_fits_the_card_must_go_round_again() -> None:
    narrow = JudgeOptions(kinds=("normal",))
    passed = judged(Kernel(source=ONE_ROUND), narrow)
    assert isinstance(passed.outcome, Passed), passed.outcome
    assert "33x33 on one multiprocessor" in {check.case for check in passed.checks}
    wrong = judged(Kernel(source=ONE_ROUND.replace("row += gridDim.x", "row += rows")), narrow).outcome
    assert isinstance(wrong, Mismatch), wrong
    assert wrong.case == "33x33 on one multiprocessor"


@pytest.mark.parametrize(
    ("source", "room"), [(RIGHT, LEAST_ROOM), (ONE_ROUND, H100.sm_count)], ids=["any", "asks"]
)
def test_blocks_may_count_on_the_room_of_the_card_that_the_plan_is_for(source: str, room: int) -> None:
    """A plan that is the same for a card with one multiprocessor has to do with room for two blocks."""
    judgement = judging.Judgement(PROBLEM, Kernel(source=source), H100, QUICK, lambda stage: None)
    assert judgement._planned() is None
    trials, _ = judgement._trials()
    rooms = {trial.case.label: trial.room for trial in trials}
    assert rooms["33x33"] == room
    assert {trial.room for trial in trials if trial.case.label.endswith("one multiprocessor")} <= {LEAST_ROOM}


def test_a_race_is_told_as_the_cause_of_wrong_numbers_where_none_was_looked_for() -> None:
    """The typical case is traced in part only; it or a smaller one shows why its numbers are wrong."""
    source = RIGHT.replace("__syncthreads();", "")
    options = JudgeOptions(seed=0, kinds=("normal",), traced_threads=200)
    typical = judged(Kernel(source=source), options.model_copy(update={"races": False})).outcome
    assert isinstance(typical, Mismatch), typical
    outcome = judged(Kernel(source=source), options).outcome
    assert isinstance(outcome, Hazard) and outcome.hazard == "race", outcome


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("lost", "value"),
    [("sum == sum", "NaN"), ("isinf(row[i]) == 0 || row[i] < 0", "inf")],
    ids=["NaN", "inf"],
)
def test_special_values_are_met_whatever_the_seed(lost: str, value: str, seed: int) -> None:
    kernel = storing(STORE.replace("expf(row[i] - top) / sum", f"({lost} ? expf(row[i] - top) / sum : 0.0f)"))
    outcome = judged(kernel, JudgeOptions(seed=seed, kinds=("special values",))).outcome
    assert isinstance(outcome, Mismatch), (value, outcome)


def test_the_person_s_own_tensors_are_one_of_the_inputs() -> None:
    own = PROBLEM.model_copy(
        update={
            "source": PROBLEM.source + "\ninputs = [torch.linspace(12000, 12345, 24).reshape(3, 8)]\n",
            "cases": (case(3, 8, declared=True),),
            "proofs": PROBLEM.proofs[:2],
            "own_inputs": True,
        }
    )
    passed = judged(Kernel(source=RIGHT), problem=own)
    assert isinstance(passed.outcome, Passed), passed.outcome
    assert "yours" in {c.inputs for c in passed.checks}
    theirs = "row[i] > 9999.0f && row[i] < 13000.0f"  # and not an infinity among the special values
    kernel = storing(
        STORE.replace("expf(row[i] - top) / sum", f"({theirs} ? 0.0f : expf(row[i] - top) / sum)")
    )
    outcome = judged(kernel, problem=own).outcome
    assert isinstance(outcome, Mismatch)
    assert "yours inputs" in outcome.message
    small = judged(kernel, JudgeOptions(seed=0, most_elements=23), problem=own)
    assert isinstance(small.outcome, Passed), "24 results are more than this emulator computes"
    (left,) = (check for check in small.checks if not check.covered)
    assert left.inputs == "yours" and left.note.startswith("24 elements are too many")


def test_own_tensors_without_a_number_are_told() -> None:
    def notes(value: str) -> tuple[str, ...]:
        inputs = f"\ninputs = [torch.full((3, 8), {value})]\n"
        changes = {
            "source": PROBLEM.source + inputs,
            "cases": (case(3, 8, declared=True),),
            "own_inputs": True,
        }
        evaluation = judged(Kernel(source=RIGHT), problem=PROBLEM.model_copy(update=changes))
        assert isinstance(evaluation.outcome, Passed)
        return evaluation.notes

    assert any("x: nothing but NaN or infinity" in note for note in notes("torch.nan"))
    assert notes("1.0") == ()


def test_a_reference_that_no_longer_runs_is_the_machine_s_fault_not_the_kernel_s() -> None:
    broken = PROBLEM.model_copy(update={"source": "def softmax(x):\n    return nonsense(x)\n"})
    with pytest.raises(DeviceError, match="nonsense"):
        judged(Kernel(source=RIGHT), problem=broken)


def test_values_that_the_reference_refuses_are_held_against_nobody() -> None:
    """One that indexes with what it computes from a NaN may leave its table."""
    source = "def softmax(x):\n    assert x.isfinite().all()\n    return torch.softmax(x, 1)\n"
    evaluation = judged(Kernel(source=RIGHT), problem=PROBLEM.model_copy(update={"source": source}))
    assert evaluation.outcome == Passed()
    assert {check.inputs for check in evaluation.checks} == set(QUICK.kinds) - {"special values"}


def test_an_endless_loop_costs_its_time_limit() -> None:
    judged(Kernel(source=RIGHT))  # the emulator's own parts are built by now
    kernel = storing(
        'if (threadIdx.x == 0) printf("begun\\n");\n    while (true) { out[0] = sum; sum += 1.0f; }'
    )
    found = judged(kernel)
    outcome = found.outcome
    assert isinstance(outcome, TimedOut), outcome
    assert outcome.limit_s < FIRST_CPU_S / 2
    line = kernel.source[: kernel.source.index("while (true)")].count("\n") + 1
    assert outcome.line == line and outcome.message.startswith(f"line {line}: a thread was still here after")
    assert "normal inputs" in outcome.message
    assert found.printed is not None and found.printed.text == "begun\n" * found.printed.calls


LANES = "float part = threadIdx.x < 24 ? __shfl_down_sync(0x00ffffff, top, 16) : top;\n    "


@pytest.mark.parametrize(
    ("stored", "used"),
    [
        (STORE, False),  # nobody looks at what came
        (
            STORE.replace("row[i] - top", "row[i] - (threadIdx.x < 8 ? part : top)"),
            False,
        ),  # from lanes 16 to 23
        (STORE.replace("row[i] - top", "row[i] - (threadIdx.x < 16 ? part : top)"), True),
        # A NaN that fmaxf drops: the numbers are right by luck.
        (STORE.replace("row[i] - top", "row[i] - (threadIdx.x < 16 ? fmaxf(part, top) : top)"), True),
    ],
    ids=["unused", "honest", "wrong", "lucky"],
)
def test_a_lane_that_takes_no_part_is_a_hazard_where_its_value_is_used(stored: str, used: bool) -> None:
    kernel = storing(LANES + stored)
    outcome = judged(kernel).outcome
    if not used:
        assert isinstance(outcome, Passed), outcome
        return
    assert isinstance(outcome, Hazard), outcome
    line = kernel.source[: kernel.source.index("float part")].count("\n") + 1
    assert (outcome.hazard, outcome.line) == ("warp_sync", line)
    assert "reads lane 24, which is not in the mask 0x00ffffff" in outcome.message
    assert "the output depends on it" in outcome.message


def test_what_a_kernel_prints_is_kept_with_the_check_it_was_printed_in() -> None:
    told = 'if (threadIdx.x == 5) printf("row %d: %s %.1f\\n", blockIdx.x, "of", float(cols));\n    '
    right = judged(storing(told + STORE)).printed
    assert right is not None and (right.case, right.inputs, right.calls) == ("2x1025", "normal", 2)
    assert right.text == "row 0: of 1025.0\nrow 1: of 1025.0\n"
    only = told.replace("threadIdx.x == 5", "threadIdx.x == 5 && cols == 127")
    wrong = judged(storing(only + STORE.replace("/ sum", "/ (cols == 127 ? 2.0f * sum : sum)"))).printed
    assert wrong is not None and (wrong.case, wrong.calls, wrong.text) == (
        "5x127",
        5,
        "".join(f"row {row}: of 127.0\n" for row in range(5)),
    )
    assert judged(Kernel(source=RIGHT)).printed is None


def test_a_variable_without_a_value_is_doubted_where_the_kernel_is_wrong() -> None:
    kernel = changed("float sum = 0.0f;", "float sum;")
    found = judged(kernel)
    assert not found.passed and found.compiled is not None
    line = kernel.source[: kernel.source.index("float sum;")].count("\n") + 1
    told = [(one.severity, one.line, one.message) for one in found.compiled.warnings]
    assert told == [("warning", line, "sum may be used before it has a value")]
    other = judged(storing(STORE.replace(" / sum", " / (2.0f * sum)"))).compiled
    assert other is not None and other.warnings == ()


def test_a_crash_is_an_outcome_with_the_check_it_died_in() -> None:
    outcome = judged(storing("*(volatile float*)16 = sum;" + STORE)).outcome
    assert isinstance(outcome, Crashed | Hazard), outcome
    trapped = judged(storing("__trap();" + STORE)).outcome
    assert isinstance(trapped, Crashed), trapped


def test_what_does_not_compile_is_told_by_line() -> None:
    outcome = judged(storing("int y = nonsense;" + STORE)).outcome
    assert isinstance(outcome, CompileFailed)
    assert outcome.stage == "nvrtc"
    line = RIGHT[: RIGHT.index(STORE)].count("\n") + 1
    assert outcome.diagnostics[0].line == line


def test_a_malformed_plan_is_a_compile_failure_of_the_plan() -> None:
    outcome = judged(changed("rows, cols = x.shape", "import os")).outcome
    assert isinstance(outcome, CompileFailed)
    assert outcome.stage == "plan"
    assert outcome.diagnostics[0].line == 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("args=[x, y, cols]", "args=[x, y]"),
        ("args=[x, y, cols]", "args=[cols, y, x]"),
        ('launch("softmax_rows<128>"', 'launch("softmax_row<128>"'),
        ("block=128", "block=2048"),
    ],
)
def test_a_launch_a_gpu_would_refuse(old: str, new: str) -> None:
    outcome = judged(changed(old, new)).outcome
    assert isinstance(outcome, LaunchFailed), outcome
    assert outcome.diagnostics[0].line == 6


def test_a_shape_that_the_referee_adds_is_named_as_such() -> None:
    outcome = judged(changed("block=128", "block=131072 // cols")).outcome
    assert isinstance(outcome, LaunchFailed) and outcome.case in LABELS
    message = outcome.diagnostics[0].message
    assert message.startswith(f"at {outcome.case}, a shape the referee adds: block x is ")
    assert message.endswith("say so with require(...) in the plan")
    declared = judged(changed("block=128", "block=cols")).outcome
    assert isinstance(declared, LaunchFailed) and "referee adds" not in declared.diagnostics[0].message


def test_wrong_shape_or_type_of_the_output() -> None:
    outcome = judged(changed("y = empty_like(x)", "y = empty((rows, cols + 1), f32)")).outcome
    assert isinstance(outcome, Mismatch)
    assert "shape" in outcome.message
    half = changed("y = empty_like(x)", "y = empty_like(x, f16)")
    outcome = judged(changed("float* __restrict__ y", "void* __restrict__ y", half.source)).outcome
    assert isinstance(outcome, Mismatch | LaunchFailed)


def test_what_require_turns_away_is_coverage_not_failure() -> None:
    evaluation = judged(
        changed("    y = empty_like", '    require(cols % 2 == 0, "even rows only")\n    y = empty_like')
    )
    assert isinstance(evaluation.outcome, Passed)
    odd = {p.label for p in PROBLEM.proofs if p.size_map["s1"] % 2}
    assert set(evaluation.outcome.not_covered) == odd
    refused = [c for c in evaluation.checks if not c.covered]
    assert {c.case for c in refused} == odd
    assert "even rows only" in refused[0].note


def test_a_kernel_that_covers_nothing_says_why() -> None:
    outcome = judged(
        changed("    y = empty_like", '    require(cols < 0, "no rows at all")\n    y = empty_like')
    ).outcome
    assert isinstance(outcome, Suspect)
    assert "covers none of the declared shapes (no rows at all)" in outcome.message


def test_a_kernel_for_the_declared_size_alone_is_unproven() -> None:
    outcome = judged(
        changed("    y = empty_like", '    require(cols >= 32768, "long rows")\n    y = empty_like')
    ).outcome
    assert isinstance(outcome, Suspect)
    assert "nothing was checked" in outcome.message


@pytest.mark.parametrize("least", [100, 10**6])
def test_sizes_that_the_reference_does_not_take_are_held_against_nobody(least: int) -> None:
    """What it looks up may be behind the end of a table that is shorter than the declared one."""
    head, _, body = PROBLEM.source.partition(":\n")
    given = head.partition("(")[2].rstrip(")")
    refuses = f"    if {given}.shape[1] < {least}:\n        raise IndexError('out of range')\n"
    problem = PROBLEM.model_copy(update={"source": f"{head}:\n{refuses}{body}"})
    if least == 100:
        evaluation = judged(Kernel(source=RIGHT), problem=problem)
        assert evaluation.passed and {c.case for c in evaluation.checks} < LABELS
        return
    with pytest.raises(DeviceError, match="out of range"):
        judged(Kernel(source=RIGHT), problem=problem)


def test_a_kernel_cannot_show_the_emulator_another_face() -> None:
    source = RIGHT.replace(STORE, STORE + "\n    stop();").replace(
        "*/\n",
        '*/\n#ifdef __CUDACC_RTC__\n__device__ void stop() {}\n#else\nextern "C" void _exit(int);\n'
        "__device__ void stop() { _exit(0); }\n#endif\n",
        1,
    )
    assert judged(Kernel(source=source)).passed


def test_a_library_plan_is_interpreted_in_a_worker_and_counted() -> None:
    source = '/* plan\ndef plan(x):\n    return library("aten._softmax", x, 1, False)\n*/\n'
    evaluation = judged(Kernel(source=source))
    assert isinstance(evaluation.outcome, Passed), evaluation.outcome
    assert evaluation.facts[0].library_share == 1.0
    assert evaluation.times[0].bound == "library"
    unknown = judged(Kernel(source=source.replace("_softmax", "_softmaxx"))).outcome
    assert isinstance(unknown, LaunchFailed)
    assert "_softmaxx. Did you mean 'aten._softmax'?" in unknown.diagnostics[0].message


class Stumbling:
    """A worker server whose calls raise the first few times."""

    def __init__(self, *raised: Raised) -> None:
        self.raised = list(raised)

    def call(self, *args: Any) -> Result:
        return self.raised.pop(0) if self.raised else torch_ready().call(*args)


BROKEN = Raised(type="OSError", message="disk full", traceback="")


def test_a_fault_of_the_machine_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stumbling = Stumbling(BROKEN)
    monkeypatch.setattr(judging, "torch_ready", lambda: stumbling)
    assert judged(Kernel(source=RIGHT)).passed


def test_a_fault_of_the_machine_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    stumbling = Stumbling(BROKEN, BROKEN)
    monkeypatch.setattr(judging, "torch_ready", lambda: stumbling)
    with pytest.raises(DeviceError, match="judging failed before the first check: OSError: disk full"):
        judged(Kernel(source=RIGHT))


def test_a_library_call_that_fails_is_the_kernels_fault() -> None:
    # The metadata kernel cannot see that an index is out of range.
    call = 'library("aten.index_select", x, 1, library("aten.full", [x.shape[1]], 10 ** 6, dtype=i64))'
    outcome = judged(Kernel(source=f"/* plan\ndef plan(x):\n    return {call}\n*/\n")).outcome
    assert isinstance(outcome, LaunchFailed) and "out of DATA bounds" in outcome.diagnostics[0].message


def test_order_dependent_sums_are_labelled_and_pass() -> None:
    source = """/* plan
def plan(x):
    rows, cols = x.shape
    require(x.is_contiguous, "contiguous only")
    s = zeros((rows,), f32)
    y = empty_like(x)
    launch("sums", grid=rows, block=64, args=[x, s, cols])
    launch("divide", grid=rows, block=64, args=[x, s, y, cols])
    return y
*/
__global__ void sums(const float* x, float* s, int cols) {
    const float* row = x + blockIdx.x * (size_t)cols;
    for (int i = threadIdx.x; i < cols; i += 64) atomicAdd(&s[blockIdx.x], expf(row[i]));
}
__global__ void divide(const float* x, const float* s, float* y, int cols) {
    for (int i = threadIdx.x; i < cols; i += 64) {
        size_t at = blockIdx.x * (size_t)cols + i;
        y[at] = expf(x[at]) / s[blockIdx.x];
    }
}
"""
    narrow = JudgeOptions(kinds=("normal", "scale 1e-3"))
    evaluation = judged(Kernel(source=source), narrow)
    assert evaluation.outcome == Passed(deterministic=False)
    assert any("reverse order" in c.note for c in evaluation.checks)


def test_one_of_two_values_is_told_at_its_line_where_it_matters() -> None:
    """Lanes of a warp that write to one place at once: the hardware keeps any of the values."""
    reduction = "    for (int half = BLOCK / 2; half > 0; half /= 2) {\n        if (threadIdx"
    pairs = "    scratch[threadIdx.x] = 0.0f;\n    __syncthreads();\n    scratch[threadIdx.x / 2] = value;\n"
    kernel = changed(reduction, f"{pairs}    __syncthreads();\n{reduction}")
    outcome = judged(kernel).outcome
    assert isinstance(outcome, Hazard) and outcome.hazard == "race"
    assert "writes another value there with nothing in between" in outcome.message
