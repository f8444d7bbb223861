"""Elements of a table that is computed of places: what is looked up is computed, the table is not written."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate
from workbench.playbook.ir.expr import MOST_CHOSEN, loads_below
from workbench.playbook.ir.program import Kernel
from workbench.playbook.lowering.movement import MOST_PLACES
from workbench.playbook.techniques.traits import program_of

Tensors = dict[str, Tensor]


def margin(t: Tensors) -> Tensor:
    """A loss whose right class is treated in another way."""
    right = torch.zeros_like(t["x"]).scatter(1, t["label"][:, None], 1)
    return F.cross_entropy(right * (t["x"] - 0.3) + (1 - right) * t["x"], t["label"])


def slopes(t: Tensors) -> Tensor:
    """Every third number of a line, backwards too."""
    line = torch.arange(5, 5 + 3 * t["x"].shape[1], 3)
    return (t["x"] * (line + line.flip(0) // 2)).gather(1, t["label"][:, None])


def diagonal(t: Tensors) -> Tensor:
    """Rows and columns of a mask are looked up, one after the other."""
    size = t["x"].shape[1]
    mask = torch.arange(size)[:, None] <= torch.arange(size)
    return torch.where(mask[t["label"]], t["x"], 0.0)


def knots(t: Tensors) -> Tensor:
    """A spline's: the end of a bin and its width, of sums that begin with a zero."""
    edges = F.pad(torch.exp(t["x"] / 4).cumsum(1), (1, 0))
    width = edges[:, 1:] - edges[:, :-1]
    return edges.gather(1, t["label"][:, None]) + 2 * width.gather(1, t["label"][:, None])


@pytest.mark.many(8)
@pytest.mark.parametrize(("rows", "columns"), [(1, 7), (5, 129)])
@pytest.mark.parametrize("call", [margin, slopes, diagonal, knots])
def test_what_is_looked_up_is_computed_where_it_is_wanted(call: Call, rows: int, columns: int) -> None:
    tensors = {"x": torch.randn(rows, columns), "label": torch.randint(0, columns, (rows,))}
    source = generate(problem_of(call, tensors), ()).kernel.source
    assert "table" not in source
    check(call, source, tensors, "checked")


@pytest.mark.many(4)
@pytest.mark.parametrize("columns", [7, 129])
@pytest.mark.parametrize("pieces", [2, 6])
def test_a_choice_of_many_pieces_is_looked_up_in_memory(columns: int, pieces: int) -> None:
    """Branches that are chosen by computed places would be spelled inside one another."""

    def call(t: Tensors) -> Tensor:
        ends = [t["x"][:, :3] - number for number in range(1, pieces)]
        joined = torch.cat((t["x"][:, 1:] * 2, *ends), 1)
        return joined[torch.arange(t["x"].shape[0]), t["label"]]

    tensors = {"x": torch.randn(5, columns), "label": torch.randint(0, columns, (5,))}
    source = generate(problem_of(call, tensors), ()).kernel.source
    assert ("table" in source) == (pieces - 1 > MOST_CHOSEN)
    check(call, source, tensors, "checked")


def smoothed(t: Tensors) -> Tensor:
    """Every step looks three times at what the step before has made, at other places."""
    x = t["x"]
    for _ in range(12):
        x = (torch.roll(x, 1, 1) + 2 * x + torch.roll(x, -1, 1)) / 4
    return x


@pytest.mark.slow
def test_what_is_turned_about_again_and_again_is_written_on_the_way() -> None:
    """Where rows do not stay on the chip: without a limit the last step would read 3 ** 12 places."""
    tensors = {"x": torch.randn(3, 33)}
    problem = problem_of(smoothed, tensors)
    program = program_of(problem, True, frozenset({"row_steps"}))
    kernels = [step for step in program.steps if isinstance(step, Kernel)]
    assert 1 < len(kernels) == len(program.steps)
    for kernel in kernels:
        assert len(loads_below(store.value for store in kernel.stores)) < 4 * MOST_PLACES
    check(smoothed, generate(problem, (("fusion", "all"), ("row_steps", "off"))).kernel.source, tensors)
