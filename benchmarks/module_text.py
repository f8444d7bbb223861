"""The text of a module in the making: its parameters, its lines and its inputs, with what they compute.

Owns the frame of a KernelBench file and its parts. Every line is run as it is written, so that shapes are
known and no text raises. What is written is module_heads.py's and module_steps.py's.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

MOST_ELEMENTS = 6000
"""Of any value on the way: the emulator is slow."""
LARGEST_VALUE = 1e3
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17)
CHANNELS = (2, 3, 4, 6, 8, 12)
TYPES = ("float32", "float32", "float32", "float32", "float16", "bfloat16")

FRAME = """import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self{parameters}):
        super().__init__()
{init}

    def forward(self, {arguments}):
{forward}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return [{arguments_of_init}]
"""


class Unfit(Exception):
    """What was drawn cannot be done with these shapes or values: another is drawn."""


@dataclass
class Maker:
    """One module in the making; ``values`` are what its names hold."""

    seed: int
    dice: random.Random = field(init=False)
    dtype: str = field(init=False)
    init: list[str] = field(default_factory=list)
    forward: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    parameters: list[tuple[str, int]] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    names: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.dtype = self.dice.choice(TYPES)
        torch.manual_seed(self.seed)
        self.values = {
            "torch": torch, "nn": nn, "F": functional, "math": math, "self": SimpleNamespace(),
        }  # fmt: skip

    # -------------------------------------------------------------------------------- the whole

    def drawn(self, families: dict[str, tuple[int, Callable[[Maker, str], str]]], x: str) -> str:
        """The name of one more value; what does not fit is drawn again."""
        names, weights = list(families), [weight for weight, _ in families.values()]
        while True:
            name = self.dice.choices(names, weights)[0]
            kept = (len(self.init), len(self.forward), len(self.inputs), len(self.parameters))
            held = dict(self.values)
            try:
                found = families[name][1](self, x)
                self._check(found)
            except (Unfit, RuntimeError, ValueError, IndexError, AssertionError, TypeError):
                del self.init[kept[0] :], self.forward[kept[1] :], self.inputs[kept[2] :]
                del self.parameters[kept[3] :]
                self.values = held
                continue
            self.kinds.append(name)
            return found

    def _check(self, name: str) -> None:
        value = self.values[name]
        if not isinstance(value, Tensor) or not 0 < value.numel() <= MOST_ELEMENTS or value.ndim > 5:
            raise Unfit
        if value.is_floating_point() and not value.abs().max() < LARGEST_VALUE:
            raise Unfit

    @property
    def arguments(self) -> list[str]:
        """Names of the arguments of ``forward``."""
        return [f"x{number}" if number else "x" for number in range(len(self.inputs))]

    def source(self, returned: list[str]) -> str:
        init = [*self.init]
        if self.dtype != "float32":
            init.append(f"self.{'half' if self.dtype == 'float16' else 'bfloat16'}()")
        lines = [*self.forward, "return " + ", ".join(returned)]
        return FRAME.format(
            parameters="".join(f", {name}" for name, _ in self.parameters),
            init="\n".join(" " * 8 + line for line in init) or " " * 8 + "pass",
            arguments=", ".join(self.arguments),
            forward="\n".join(" " * 8 + line for line in lines),
            inputs=", ".join(self.inputs),
            arguments_of_init=", ".join(str(value) for _, value in self.parameters),
        )

    # -------------------------------------------------------------------------------- parts of the text

    def held(self, expression: str) -> str:
        """Keep a module, parameter or buffer under a new name; ``self.NAME``."""
        name = f"part{len(self.init)}"
        self.init.append(f"self.{name} = {expression}")
        value = eval(expression, self.values)
        if isinstance(value, nn.Module):
            value = value.eval()
        if isinstance(value, nn.Module | Tensor):
            value = value.to(self.torch_dtype)
        setattr(self.values["self"], name, value)
        return f"self.{name}"

    def buffer(self, expression: str) -> str:
        """Register a buffer under a new name; ``self.NAME``. Integers and booleans keep their type."""
        name = f"part{len(self.init)}"
        self.init.append(f'self.register_buffer("{name}", {expression})')
        value = eval(expression, self.values)
        value = value.to(self.torch_dtype) if value.is_floating_point() else value
        setattr(self.values["self"], name, value)
        return f"self.{name}"

    def parameter(self, shape: tuple[int, ...], how: str = "randn") -> str:
        """A parameter of a shape."""
        scale = self.dice.choice(("", "", " * 0.5"))
        return self.held(f"nn.Parameter(torch.{how}({_told(shape)}){scale})")

    def say(self, expression: str) -> str:
        """Compute one value under a new name."""
        self.names += 1
        name = f"h{self.names}"
        self.forward.append(f"{name} = {expression}")
        with torch.no_grad():
            self.values[name] = eval(expression, self.values)
        return name

    def do(self, statement: str) -> None:
        """A statement that is no assignment of a name, such as ``h1 += h2``."""
        self.forward.append(statement)
        with torch.no_grad():
            exec(statement, self.values)

    def unpack(self, count: int, expression: str) -> list[str]:
        """Compute several values under new names."""
        names = []
        for _ in range(count):
            self.names += 1
            names.append(f"h{self.names}")
        self.forward.append(f"{', '.join(names)} = {expression}")
        with torch.no_grad():
            self.values.update(zip(names, eval(expression, self.values), strict=True))
        return names

    def input(self, shape: tuple[int, ...], high: int = 0, how: str = "") -> str:
        """One more argument of ``forward``; integers below ``high``."""
        typed = "" if self.dtype == "float32" else f", dtype=torch.{self.dtype}"
        if high:
            text = f"torch.randint(0, {high}, {_told(shape, always=True)})"
        else:
            text = f"torch.{how or self.dice.choice(('randn', 'randn', 'rand'))}({_told(shape)}{typed})"
        if len(shape) == 4 and not high and self.dice.random() < 0.15:
            text += ".to(memory_format=torch.channels_last)"
        name = f"x{len(self.inputs)}" if self.inputs else "x"
        self.inputs.append(text)
        self.values[name] = eval(text, self.values)
        return name

    # -------------------------------------------------------------------------------- looking, drawing

    @property
    def torch_dtype(self) -> torch.dtype:
        """The type that values have unless something turns them into another."""
        return getattr(torch, self.dtype)  # type: ignore[no-any-return]

    def at(self, name: str) -> Tensor:
        """The value of a name."""
        value = self.values[name]
        assert isinstance(value, Tensor)
        return value

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a name's value."""
        return tuple(self.at(name).shape)

    def rank(self, name: str, *wanted: int) -> int:
        """The rank, which must be one of these."""
        rank = self.at(name).ndim
        if rank not in wanted:
            raise Unfit
        return rank

    def real(self, x: str) -> str:
        """The value as a float of the module's type."""
        if self.at(x).is_floating_point():
            return x
        return self.say(f"{x}.float()" if self.dtype == "float32" else f"{x}.to(torch.{self.dtype})")

    def axis(self, name: str) -> int:
        """One of its axes, counted from either end."""
        rank = self.at(name).ndim
        if not rank:
            raise Unfit
        return self.dice.randrange(-rank, rank)

    def sized(self, rank: int, channels: int, least: int = 1) -> tuple[int, ...]:
        """A shape whose axis 1 has so many channels, of few elements."""
        batch = self.dice.choice((1, 2, 3))
        room = max(1, 2400 // (batch * channels))
        side = max(least, int(room ** (1 / max(rank - 2, 1))))
        return (
            batch,
            channels,
            *(self.dice.randint(least, max(least, min(side, 19))) for _ in range(rank - 2)),
        )


def _told(shape: tuple[int, ...], always: bool = False) -> str:
    text = ", ".join(map(str, shape))
    return f"({text},)" if always and len(shape) == 1 else f"({text})" if always or not shape else text
