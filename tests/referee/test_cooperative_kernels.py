"""Kernels whose blocks wait for one another, judged: a right one, and what goes wrong with barriers."""

import pytest
from softmax_problem import PROBLEM, case

from workbench.model import H100, Evaluation, Hazard, Kernel, LaunchFailed, Outcome, Passed
from workbench.referee.judge import judge
from workbench.referee.options import JudgeOptions

RIGHT = """/* plan
def plan(x):
    rows, cols = x.shape
    require(x.dtype == f32 and x.is_contiguous, "contiguous float32 only")
    y = empty_like(x)
    parts = empty((rows, 4, 2), f32)
    each = cdiv(cols, 4)
    for first in range(0, rows, 16):
        given = [x, parts, y, first, rows, cols, each]
        launch("pieces", grid=(4, 16), block=32, args=given, cooperative=True)
    return y
*/
#define _CG_LIMIT_INCLUDED_DEPENDENCIES
#include <cooperative_groups.h>

// Four blocks a row, sixteen rows a launch: each leaves the largest value of its piece and its sum, waits for
// all the others and writes its piece.
__global__ void pieces(const float* x, float* parts, float* y, int first, int rows, int cols, int each) {
    const int row = first + blockIdx.y, begin = blockIdx.x * each;
    const int end = min(begin + each, cols);
    const bool here = row < rows;
    float top = -FLT_MAX, sum = 0.0f;
    if (here && threadIdx.x == 0) {
        for (int i = begin; i < end; ++i) {
            const float value = x[size_t(row) * cols + i];
            top = value > top || value != value ? value : top;
        }
        for (int i = begin; i < end; ++i) sum += expf(x[size_t(row) * cols + i] - top);
        parts[(row * 4 + blockIdx.x) * 2] = top;
        parts[(row * 4 + blockIdx.x) * 2 + 1] = sum;
    }
    cooperative_groups::this_grid().sync();  // all parts are there
    if (!here || threadIdx.x != 0) return;
    float largest = -FLT_MAX, total = 0.0f;
    for (int i = 0; i < 4; ++i) {
        const float value = parts[(row * 4 + i) * 2];
        largest = value > largest || value != value ? value : largest;
    }
    for (int i = 0; i < 4; ++i) {
        const float* part = parts + (row * 4 + i) * 2;
        total += part[1] * expf(part[0] - largest);
    }
    for (size_t i = begin; i < end; ++i) {
        y[size_t(row) * cols + i] = expf(x[size_t(row) * cols + i] - largest) / total;
    }
}
"""


# Of 4096 rows, as there, a plan makes 256 launches, which are read for each size that is looked at.
FEWER_ROWS = PROBLEM.model_copy(update={"cases": (case(512, 32768, declared=True), *PROBLEM.cases[1:])})


def judged(old: str = "", new: str = "") -> Evaluation:
    assert old in RIGHT
    kernel = Kernel(source=RIGHT.replace(old, new) if old else RIGHT)
    return judge(FEWER_ROWS, kernel, H100, JudgeOptions(kinds=("normal",)), lambda stage: None)


def test_blocks_that_wait_for_one_another_may_be_right() -> None:
    evaluation = judged()
    assert isinstance(evaluation.outcome, Passed), evaluation.outcome


SYNC = "    cooperative_groups::this_grid().sync();  // all parts are there"


@pytest.mark.parametrize(
    ("old", "new", "kind", "words"),
    [
        (", cooperative=True", "", Hazard, "whose launch is not cooperative: write cooperative=True"),
        (SYNC, "", Hazard, "which thread 0 of block 0 read in line"),
        (
            SYNC,
            f"    if (blockIdx.x == 3) return;\n{SYNC}",
            Hazard,
            "blocks never come, block (3, 0, 0) among",
        ),
        ("grid=(4, 16), block=32", "grid=(4, 67), block=1024", LaunchFailed, "at most 264 are on this card"),
    ],
)
def test_what_goes_wrong_with_barriers_is_told(old: str, new: str, kind: type[Outcome], words: str) -> None:
    outcome = judged(old, new).outcome
    assert isinstance(outcome, kind), outcome
    assert words in str(outcome)
