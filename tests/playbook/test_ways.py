"""Every convolution of a plan in the way that suits it."""

from __future__ import annotations

import pytest
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.convolving import have_chosen
from tests.playbook.problems import problem_of
from tests.playbook.references import of
from tests.playbook.running import check
from workbench.model import H100, Problem, Vector
from workbench.playbook.estimates import ways as choosing
from workbench.playbook.generate import generate
from workbench.playbook.ir.program import Convolution, LibraryCall
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.rules.seeds import mean_us
from workbench.playbook.schedules.schedule import schedule_of
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import program_of

EACH: Vector = (("convolution", "each"), ("split_k", "each"))


def network(t: dict[str, Tensor]) -> Tensor:
    """Few channels and large planes, many channels and small planes, four results a place."""
    x = F.relu(F.conv2d(t["x"], t["a"], padding=1))
    x = F.max_pool2d(F.relu(F.conv2d(x, t["b"], stride=4, padding=1)), 2)
    return F.conv2d(x, t["c"], t["d"]).tanh()


def drawn(*sides: int, channels: int = 72) -> dict[str, Tensor]:
    drawn = of(x=sides, a=(32, 8, 3, 3), b=(channels, 32, 3, 3), c=(4, channels, 1, 1), d=(4,))()
    return drawn | {"a": 0.2 * drawn["a"], "b": 0.1 * drawn["b"], "c": 0.1 * drawn["c"]}


def ways(problem: Problem, vector: Vector) -> list[str]:
    """Of its convolutions, in order."""
    schedule = schedule_of(settled(problem, vector))
    program = program_of(problem, True, schedule.without)
    steps = choosing.with_kernels(program, program.steps, schedule, [case.size_map for case in problem.cases])
    made = [step for step in steps if isinstance(step, Convolution | LibraryCall)]
    return [step.way if isinstance(step, Convolution) else "library" for step in made]


def test_the_model_chooses_a_way_for_each_convolution() -> None:
    problem = problem_of(network, drawn(16, 8, 128, 128, channels=512), "network", varying=False)
    assert ways(problem, EACH) == ["patches", "product", "library"]
    each = mean_us(problem, settled(problem, EACH), H100)
    for way in ("library", "three_tf32", "patches"):
        vector = settled(problem, (("block_size", "256"), ("convolution", way)))
        assert each < mean_us(problem, vector, H100)
    assert any(("convolution", "each") in card.vector for card in seed_vectors(problem, H100, 4))


@pytest.mark.slow
def test_a_way_goes_by_the_declared_sizes() -> None:
    tensors = drawn(1, 8, 16, 16, channels=512)
    small = problem_of(network, tensors, "network")
    batch, _, height, width = map(str, next(spec for spec in small.tensors if spec.name == "x").dims)
    large = {**small.cases[0].size_map, batch: 16, height: 128, width: 128}
    both = problem_of(network, tensors, "network", cases=(large,))
    assert ways(small, EACH) == ["library"] * 3
    assert ways(both.model_copy(update={"cases": both.cases[1:]}), EACH) == ["library", "product", "library"]


@pytest.mark.many(3)
@pytest.mark.parametrize(
    "order", [("patches", "product", None), ("product", "patches", None), (None, "product", None)]
)
def test_right_in_several_ways_at_once(
    order: tuple[str | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels of every way, and calls of the library, in one file."""
    tensors = drawn(2, 8, 21, 22)
    found: dict[tuple[str, ...], str | None] = {}

    def chosen(call: LibraryCall, ways: list[Convolution]) -> Convolution | None:
        if call.results not in found:
            found[call.results] = order[len(found)]
        return next((one for one in ways if one.way == found[call.results]), None)

    have_chosen(chosen, monkeypatch)
    problem = problem_of(network, tensors, "network", varying=False)
    source = generate(problem, settled(problem, EACH)).kernel.source
    check(network, source, tensors, mode="checked")
    assert source.count('"aten.convolution') == order.count(None)
