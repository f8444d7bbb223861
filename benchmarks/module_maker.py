"""Random modules as people write them: a KernelBench file and technique vectors, drawn from a seed.

Owns how many steps a module has and what it returns: the same text on every machine. Never captures one:
random_modules.py does.
"""

from __future__ import annotations

from dataclasses import dataclass

from module_heads import HEADS
from module_steps import STEPS
from module_text import Maker

from workbench.model import Vector
from workbench.playbook.techniques.table import TECHNIQUES

VECTORS = 2
"""Drawn for every module."""


@dataclass(frozen=True)
class Sample:
    """The module of a seed and the technique vectors to write it with."""

    seed: int
    source: str
    kinds: tuple[str, ...]
    """Families of operations, in order."""
    dtype: str
    vectors: tuple[Vector, ...]


def sample(seed: int) -> Sample:
    """The sample of a seed."""
    maker = Maker(seed)
    dice = maker.dice
    made = [maker.drawn(HEADS, "")]
    for _ in range(dice.randint(2, 7)):
        made.append(maker.drawn(STEPS, made[-1]))
    returned = made[-1:]
    others = [
        name for name in dict.fromkeys(made[:-1]) if name != returned[0] and name not in maker.arguments
    ]
    if others and dice.random() < 0.12:
        returned += dice.sample(others, min(len(others), dice.choice((1, 1, 2))))
    choices = [(name, known.values) for name, known in sorted(TECHNIQUES.items())]
    vectors = tuple(tuple((name, dice.choice(values)) for name, values in choices) for _ in range(VECTORS))
    return Sample(seed, maker.source(returned), tuple(maker.kinds), maker.dtype, vectors)
