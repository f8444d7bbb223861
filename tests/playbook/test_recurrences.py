"""Recurrences written as a loop over steps: one kernel with every step written out, and one walk over all."""

import cProfile
import pstats

import torch
from torch import Tensor

from tests.playbook.problems import problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate
from workbench.playbook.ir.expr import loads_below, unguarded, walk, walk_all
from workbench.playbook.ir.program import Kernel
from workbench.playbook.techniques.traits import program_of

STEPS = 12


def moving_average(t: dict[str, Tensor]) -> Tensor:
    x, found = t["x"], []
    state = torch.zeros_like(x[:, 0])
    for step in range(x.shape[1]):
        state = 0.9 * state + 0.1 * x[:, step]
        found.append(state)
    return torch.stack(found, 1)


def test_a_loop_is_one_kernel() -> None:
    tensors = {"x": torch.randn(70, STEPS)}
    source = generate(problem_of(moving_average, tensors), ()).kernel.source
    assert source.count("launch(") == 1
    check(moving_average, source, tensors, "checked")


def test_a_walk_over_all_steps_meets_each_expression_once() -> None:
    program = program_of(problem_of(moving_average, {"x": torch.randn(70, STEPS)}), True)
    (kernel,) = [step for step in program.steps if isinstance(step, Kernel)]
    roots = [store.value for store in kernel.stores]
    one_by_one = dict.fromkeys(expr for root in roots for expr in walk(root))
    assert len(roots) == STEPS
    assert list(walk_all(roots)) == list(one_by_one)
    assert len(loads_below(roots)) == STEPS
    assert set(unguarded(*roots)) == {expr for root in roots for expr in unguarded(root)}


def calls_to_write(steps: int) -> int:
    """Python calls that the file of a loop takes, once it is lowered."""
    problem = problem_of(moving_average, {"x": torch.randn(70, steps)})
    program_of(problem, True)
    profile = cProfile.Profile()
    profile.runcall(generate, problem, (("fusion", "all"), ("index_width", "32")))
    return sum(calls for _, calls, *_ in pstats.Stats(profile).stats.values())


def test_each_step_of_a_long_loop_takes_as_long_to_write_as_one_of_a_short_loop() -> None:
    few, some, many = (calls_to_write(steps) for steps in (8, 24, 40))
    assert many - some < 1.25 * (some - few)
