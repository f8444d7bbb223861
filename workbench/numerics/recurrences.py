"""How recurrent layers round: step after step, where each error goes on into all that follow.

A bound of the worst that roundings may do grows by a factor at each step, and after a few dozen says nothing.
So steps are computed again in float64, in some draws: what is added up for each gate is moved by up to as
much as an honest sum of products is off, states by what storing them takes (the Monte Carlo arithmetic of
coarser.py, within one operation). Owns the steps and the draws; running.py has the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from workbench.model import DType
from workbench.numerics.dtypes import UNIT, accumulate_unit
from workbench.numerics.reach import farthest
from workbench.numerics.reductions import sum_rounding
from workbench.numerics.tracked import Tracked, deviation, rounded

DRAWS = 8
_FUNCTIONS = 8.0
"""Roundings of a gate's functions and of what is made of them."""
_KEPT = 3
"""Values of a unit that are rounded so at a step."""
_AT_ONCE = 2**25
"""Elements of all gates of some steps, in all draws."""


@dataclass
class _Draws:
    """Some draws side by side, along the first axis of every tensor that is moved."""

    dtype: DType
    generator: torch.Generator

    def shares(self, shape: Sequence[int]) -> Tensor:
        """Of what each element may be off by: from -1 to 1."""
        found = torch.rand(
            *shape, generator=self.generator, dtype=torch.float64, device=self.generator.device
        )
        return found.mul_(2).sub_(1)

    def given(self, x: Tracked) -> Tensor:
        """An operand, which may be off already: (draws, ...)."""
        value = x.value.to(torch.float64).expand(DRAWS, *x.value.shape)
        if x.is_exact:
            return value
        by = torch.where(torch.isfinite(x.error), x.error, 0.0)
        return value + by * self.shares(value.shape)

    @property
    def stored(self) -> float:
        """Part of a state or a gate that computing and keeping it may take."""
        return UNIT[self.dtype] + _FUNCTIONS * accumulate_unit(self.dtype)


@dataclass
class _Stage:
    """A layer in one direction."""

    cell: str
    draws: _Draws
    inputs: Tensor
    """(draws, what it reads, gates * hidden)."""
    states: Tensor
    """(draws, hidden, gates * hidden)."""
    bias: Tensor
    """(draws, 1, gates * hidden), of the input's; ``state_bias`` of the state's."""
    state_bias: Tensor

    def __post_init__(self) -> None:
        self.squares = self.states.square(), self.state_bias.square()

    @cached_property
    def terms(self) -> int:
        """Of a sum."""
        return self.inputs.shape[-2] + self.states.shape[-2] + 2

    def off(self, total: Tensor, squares: Tensor) -> Tensor:
        """How far an honest sum may end from its value."""
        unit = UNIT[self.draws.dtype] if self.draws.dtype not in ("f32", "f64") else 0.0
        by = sum_rounding(total, squares, self.terms, self.draws.dtype)
        return by + unit * total.abs() if unit else by

    def read(self, x: Tensor) -> Tensor:
        """What (draws, steps, batch, elements) give for each gate, each somewhere that a sum may end."""
        weights, bias = self.inputs.unsqueeze(1), self.bias.unsqueeze(1)
        total = x @ weights + bias
        by = self.off(total, x.square() @ weights.square() + bias.square())
        return total + by * self.draws.shares(total.shape)

    def remembered(self, state: Tensor, share: Tensor) -> Tensor:
        """The same of the states of the step before, (draws, batch, hidden)."""
        weights, bias = self.squares
        total = state @ self.states + self.state_bias
        return total + self.off(total, state.square() @ weights + bias) * share

    def steps(
        self, x: Tensor, state: Tensor, cell: Tensor | None
    ) -> tuple[list[Tensor], Tensor, Tensor | None]:
        """New states of some steps, in order, and the last states and cells."""
        given = self.read(x)
        shares = self.draws.shares(given.shape)
        kept = 1 + self.draws.stored * self.draws.shares((_KEPT, *x.shape[:3], state.shape[-1]))
        found = []
        for at in range(x.shape[1]):
            own = self.remembered(state, shares[:, at])
            state, cell = self.step(given[:, at], own, state, cell, kept[:, :, at])
            found.append(state)
        return found, state, cell

    def step(
        self, given: Tensor, own: Tensor, state: Tensor, cell: Tensor | None, kept: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """The new states, and the cells of an LSTM; ``kept`` are factors that stand for roundings."""
        if self.cell == "lstm":
            assert cell is not None
            enters, forgets, new, leaves = (given + own).chunk(4, -1)
            cell = kept[0] * (forgets.sigmoid() * cell + kept[1] * (enters.sigmoid() * new.tanh()))
            return kept[2] * (leaves.sigmoid() * cell.tanh()), cell
        if self.cell == "gru":
            (reset, update, new), (own_reset, own_update, own_new) = given.chunk(3, -1), own.chunk(3, -1)
            share = kept[0] * (update + own_update).sigmoid()
            new = kept[1] * (new + (reset + own_reset).sigmoid() * own_new).tanh()
            return kept[2] * ((1 - share) * new + share * state), None
        both = given + own
        return kept[0] * (both.tanh() if self.cell == "rnn_tanh" else both.relu()), None


def recurrent(op: Any, args: Sequence[Any], dtype: DType) -> tuple[Tracked, ...] | None:
    """``aten.lstm.input`` and its like: all steps, the last states and cells; None for other arguments.

    Of layers whose states have another width than their units (``proj_size``) nothing is known here.
    """
    cell = str(op).split(".")[1]
    x, hx, params, biased, layers, _, _, both_ways, batch_first = args
    states = hx if isinstance(hx, list) else [hx]
    ways, each = 2 if both_ways else 1, 4 if biased else 2
    if len(params) != each * layers * ways or not all(isinstance(one, Tracked) for one in params):
        return None
    plain = [[one.value for one in arg] if isinstance(arg, list) else arg for arg in args]
    plain = [arg.value if isinstance(arg, Tracked) else arg for arg in plain]
    values = op(*plain)
    draws = _Draws(dtype, torch.Generator(values[0].device).manual_seed(0))
    given = draws.given(x).transpose(1, 2) if batch_first else draws.given(x)
    begins = [draws.given(one) for one in states]
    lasts: list[list[Tensor]] = [[] for _ in states]
    for layer in range(layers):
        made = []
        for way in range(ways):
            at = layer * ways + way
            stage = _stage(cell, draws, params[at * each : (at + 1) * each])
            steps, *last = _gone_through(stage, given, [one[:, at] for one in begins], backwards=way == 1)
            made.append(steps)
            for kept, one in zip(lasts, last, strict=True):
                kept.append(one)
        given = torch.cat(made, -1)
    moved = [given.transpose(1, 2) if batch_first else given, *(torch.stack(one, 1) for one in lasts)]
    return tuple(_settled(value, draw, dtype) for value, draw in zip(values, moved, strict=True))


def _stage(cell: str, draws: _Draws, params: Sequence[Tracked]) -> _Stage:
    weights = [draws.given(one).transpose(1, 2) for one in params[:2]]
    biases = [draws.given(one).unsqueeze(1) for one in params[2:]]
    none = weights[0].new_zeros(DRAWS, 1, weights[0].shape[-1])
    return _Stage(cell, draws, *weights, *(biases or (none, none)))


def _gone_through(
    stage: _Stage, given: Tensor, begins: Sequence[Tensor], backwards: bool
) -> tuple[Tensor, ...]:
    """States of all steps, (draws, steps, batch, hidden), the last ones, and the last cells of an LSTM."""
    state, cell = begins[0], begins[1] if len(begins) > 1 else None
    given = given.flip(1) if backwards else given
    each = given[:, :1].numel() // max(given.shape[-1], 1) * stage.bias.shape[-1]
    found: list[Tensor] = []
    for some in torch.split(given, max(1, _AT_ONCE // max(each, 1)), 1):
        made, state, cell = stage.steps(some, state, cell)
        found += made
    steps = torch.stack(found[::-1] if backwards else found, 1)
    return (steps, state) if cell is None else (steps, state, cell)


def _settled(value: Tensor, draws: Tensor, dtype: DType) -> Tracked:
    """As far off as the draws are; where one of them is no number, or the value is none, nothing is asked."""
    off = deviation(value.expand_as(draws), draws).nan_to_num(torch.inf, torch.inf)
    error = torch.where(torch.isfinite(value), farthest(off).allowed, torch.inf)
    return rounded(value, torch.zeros_like(error), (torch.zeros_like(error), error), dtype)
