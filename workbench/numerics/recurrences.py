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
_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
CELLS = frozenset(_GATES)
"""Torch's recurrent layers, by the names of their operations."""
_FUNCTIONS = 8.0
"""Roundings of a gate's functions and of what is made of them."""


@dataclass
class _Draws:
    """Some draws side by side, along the first axis of every tensor that is moved."""

    dtype: DType
    generator: torch.Generator

    def moved(self, value: Tensor, by: Tensor) -> Tensor:
        """Each element somewhere within ``by`` of its value."""
        share = torch.rand(value.shape, generator=self.generator, dtype=torch.float64, device=value.device)
        return value + (by * (2 * share - 1)).nan_to_num(0.0, 0.0, 0.0)

    def given(self, x: Tracked) -> Tensor:
        """An operand, which may be off already: (draws, ...)."""
        value = x.value.to(torch.float64).expand(DRAWS, *x.value.shape)
        return value if x.is_exact else self.moved(value, x.error.expand_as(value))

    def stored(self, value: Tensor) -> Tensor:
        """A state or a gate as it is computed and kept."""
        unit = UNIT[self.dtype] + _FUNCTIONS * accumulate_unit(self.dtype)
        return self.moved(value, unit * value.abs())


@dataclass
class _Stage:
    """A layer in one direction."""

    cell: str
    draws: _Draws
    inputs: Tensor
    """(draws, gates * hidden, what it reads)."""
    states: Tensor
    bias: Tensor
    """(draws, 1, gates * hidden), of the input's; ``state_bias`` of the state's."""
    state_bias: Tensor

    @cached_property
    def count(self) -> int:
        """Terms of a sum."""
        return self.inputs.shape[-1] + self.states.shape[-1] + 2

    def sums(self, x: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
        """Gates, (draws, batch, gates * hidden), each somewhere that an honest sum may end at."""
        across = weights.transpose(-1, -2)
        total = x @ across + bias
        squares = x.square() @ across.square() + bias.square()
        unit = UNIT[self.draws.dtype] if self.draws.dtype not in ("f32", "f64") else 0.0
        by = sum_rounding(total, squares, self.count, self.draws.dtype) + unit * total.abs()
        return self.draws.moved(total, by)

    def step(self, x: Tensor, state: Tensor, cell: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The new states, and the cells of an LSTM."""
        given = self.sums(x, self.inputs, self.bias)
        own = self.sums(state, self.states, self.state_bias)
        keep = self.draws.stored
        if self.cell == "lstm":
            assert cell is not None
            enters, forgets, new, leaves = (given + own).chunk(4, -1)
            cell = keep(forgets.sigmoid() * cell + keep(enters.sigmoid() * new.tanh()))
            return keep(leaves.sigmoid() * cell.tanh()), cell
        if self.cell == "gru":
            (reset, update, new), (own_reset, own_update, own_new) = given.chunk(3, -1), own.chunk(3, -1)
            share = keep((update + own_update).sigmoid())
            new = keep((new + (reset + own_reset).sigmoid() * own_new).tanh())
            return keep((1 - share) * new + share * state), None
        both = given + own
        return keep(both.tanh() if self.cell == "rnn_tanh" else both.relu()), None


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
    weights = [draws.given(one) for one in params[:2]]
    biases = [draws.given(one).unsqueeze(1) for one in params[2:]]
    none = weights[0].new_zeros(DRAWS, 1, weights[0].shape[1])
    return _Stage(cell, draws, *weights, *(biases or (none, none)))


def _gone_through(
    stage: _Stage, given: Tensor, begins: Sequence[Tensor], backwards: bool
) -> tuple[Tensor, ...]:
    """States of all steps, (draws, steps, batch, hidden), the last ones, and the last cells of an LSTM."""
    state, cell = begins[0], begins[1] if len(begins) > 1 else None
    found: list[Tensor] = []
    for at in range(given.shape[1]):
        state, cell = stage.step(given[:, -1 - at if backwards else at], state, cell)
        found.append(state)
    steps = torch.stack(found[::-1] if backwards else found, 1)
    return (steps, state) if cell is None else (steps, state, cell)


def _settled(value: Tensor, draws: Tensor, dtype: DType) -> Tracked:
    """As far off as the draws are; where one of them is no number, or the value is none, nothing is asked."""
    off = deviation(value.expand_as(draws), draws).nan_to_num(torch.inf, torch.inf)
    error = torch.where(torch.isfinite(value), farthest(off).allowed, torch.inf)
    return rounded(value, torch.zeros_like(error), (torch.zeros_like(error), error), dtype)
