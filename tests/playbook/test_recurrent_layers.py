"""Recurrent layers in one launch: blocks that keep their weights and tell one another their states."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, run
from workbench.model import H100, Problem
from workbench.playbook.analysis.recurrent_layers import layers_in
from workbench.playbook.estimates.estimate import predicted_factor
from workbench.playbook.generate import generate
from workbench.playbook.kernels.recurrent_tiling import UNITS, recurrent_tiling
from workbench.playbook.rules.family import family_of
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import program_of, traits_of

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def layers(
    cell: str,
    sizes: tuple[int, int, int, int, int] = (4, 3, 6, 10, 2),
    ways: int = 1,
    biased: bool = True,
    first: bool = False,
) -> tuple[Call, dict[str, Tensor]]:
    """Torch's layers of a cell; sizes are steps, rows of the batch, elements of a row, units, layers."""
    steps, batch, inputs, hidden, count = sizes
    torch.manual_seed(3)
    tensors = {"x": torch.randn(*((batch, steps) if first else (steps, batch)), inputs)}
    states = ("h", "c") if cell == "lstm" else ("h",)
    tensors |= {name: torch.randn(count * ways, batch, hidden) for name in states}
    params = []
    for layer in range(count):
        read = inputs if layer == 0 else hidden * ways
        for way in range(ways):
            shapes = {"w": (read,), "u": (hidden,), **({"b": (), "d": ()} if biased else {})}
            for kind, rest in shapes.items():
                params.append(f"{kind}{layer}{way}")
                tensors[params[-1]] = torch.randn(GATES[cell] * hidden, *rest) / 3

    def call(t: dict[str, Tensor]) -> tuple[Tensor, ...]:
        given = tuple(t[name] for name in states)
        how = (biased, count, 0.0, False, ways == 2, first)
        weights = [t[name] for name in params]
        made: tuple[Tensor, ...] = getattr(torch, cell)(
            t["x"], given if len(given) > 1 else given[0], weights, *how
        )
        return made

    return call, tensors


def source_of(problem: Problem, units: int) -> str:
    return generate(problem, (("recurrent_layers", str(units)), ("vector_width", "4"))).kernel.source


@pytest.mark.many(12)
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("first", [False, True], ids=["steps first", "batch first"])
@pytest.mark.parametrize("biased", [True, False], ids=["biased", "plain"])
@pytest.mark.parametrize("ways", [1, 2], ids=["one way", "both ways"])
@pytest.mark.parametrize("cell", GATES)
def test_all_steps_are_as_torch_makes_them(
    cell: str, ways: int, biased: bool, first: bool, units: int
) -> None:
    call, tensors = layers(cell, ways=ways, biased=biased, first=first)
    source = source_of(problem_of(call, tensors, varying=False), units)
    assert f'"aten.{cell}.input"' not in source and source.count("cooperative=True") == 1
    check(call, source, tensors, "checked")


@pytest.mark.many(3)
@pytest.mark.parametrize(
    "sizes",
    [
        (3, 5, 8, 12, 1),
        (3, 9, 3, 7, 2),
        (2, 40, 4, 8, 2),
        (1, 1, 1, 2, 1),
        (4, 9, 3, 12, 2),
        (3, 5, 13, 4, 2),
    ],
)
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_at_other_sizes_too(cell: str, sizes: tuple[int, int, int, int, int]) -> None:
    call, tensors = layers(cell, sizes)
    check(call, source_of(problem_of(call, tensors, varying=False), 2), tensors, "checked")


def test_the_same_vector_gives_the_same_text_again() -> None:
    call, tensors = layers("gru")
    problem = problem_of(call, tensors)
    assert source_of(problem, 2) == source_of(problem, 2)


def test_more_rows_and_steps_than_were_declared_work_as_well() -> None:
    call, tensors = layers("gru", (2, 2, 4, 8, 2))
    source = source_of(problem_of(call, tensors), 1)
    _, more = layers("gru", (5, 7, 4, 8, 2))
    check(call, source, {**tensors, "x": more["x"], "h": more["h"]})


def test_no_two_blocks_race_for_what_they_tell() -> None:
    call, tensors = layers("lstm", (3, 2, 4, 4, 2))
    source = source_of(problem_of(call, tensors, varying=False), 1)
    assert not run(source, tensors, "checked", races=True).report.hazards
    hasty = source.replace("} while (waits);", "} while (false);")
    assert hasty != source
    execution = run(hasty, tensors, "checked", races=True)
    wanted = call(tensors)
    assert any(not torch.allclose(got, one) for got, one in zip(execution.outputs, wanted, strict=True))


def test_what_comes_before_and_behind_has_kernels_of_its_own() -> None:
    call, tensors = layers("lstm", (3, 2, 4, 8, 1), first=True)

    def around(t: dict[str, Tensor]) -> Tensor:
        return torch.relu(call({**t, "x": t["x"] * 2})[0][:, -1])

    problem = problem_of(around, tensors, varying=False)
    source = source_of(problem, 1)
    assert source.count("__global__") == 3
    check(around, source, tensors)
    assert (
        "recurrent" not in family_of(problem).name
    )  # as the library has it: a kernel is the search's choice


def test_layers_of_states_of_another_width_stay_the_librarys() -> None:
    x, h, c = torch.randn(3, 2, 4), torch.randn(1, 2, 3), torch.randn(1, 2, 8)
    params = {"w": (32, 4), "u": (32, 3), "b": (32,), "d": (32,), "r": (3, 8)}
    tensors = {"x": x, "h": h, "c": c, **{name: torch.randn(shape) for name, shape in params.items()}}

    def call(t: dict[str, Tensor]) -> Tensor:
        weights = [t[name] for name in params]
        made: Tensor = torch.lstm(t["x"], (t["h"], t["c"]), weights, True, 1, 0.0, False, False, False)[0]
        return made

    problem = problem_of(call, tensors, varying=False)
    assert not layers_in(program_of(problem, True, frozenset()))
    assert ("recurrent_layers", "2") not in settled(problem, (("recurrent_layers", "2"),))


def test_weights_that_have_no_room_on_the_chip_are_read_at_each_step() -> None:
    call, tensors = layers("gru", (2, 2, 4, 8, 1))
    (made,) = traits_of(problem_of(call, tensors, varying=False)).recurrent
    small = recurrent_tiling(made, 1, [{}])
    assert small is not None and small.on_chip and small.blocks(made) == 8
    large = recurrent_tiling(_of(made, 4096, 1024), 1, [{}])
    assert large is not None and not large.on_chip
    assert recurrent_tiling(_of(made, 64, 16384), 1, [{}]) is None, "more units than warps"


@pytest.mark.parametrize("sizes", [(3, 5, 8, 12, 1), (2, 3, 3, 7, 2)])
def test_weights_from_memory_give_the_same(
    sizes: tuple[int, int, int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.playbook.kernels.recurrent_tiling._PARTS", 10**6)
    for cell in ("lstm", "gru"):
        call, tensors = layers(cell, sizes)
        source = source_of(problem_of(call, tensors, varying=False), 2)
        assert "mine = weights" not in source
        check(call, source, tensors, "checked")


def _of(made: object, inputs: int, hidden: int) -> object:
    from dataclasses import replace

    return replace(made, inputs=inputs, hidden=hidden)  # type: ignore[type-var]


def test_the_model_prefers_it_where_the_library_goes_step_by_step() -> None:
    call, tensors = layers("lstm", (64, 10, 32, 64, 3))
    problem = problem_of(call, tensors, varying=False)
    plain = settled(problem, ())
    ours = settled(problem, (("recurrent_layers", "2"), ("vector_width", "4")))
    assert predicted_factor(problem, plain, ours, H100) > 2
    assert any(
        ("recurrent_layers", "off") not in card.vector for card in seed_vectors(problem, H100, count=4)
    )
