"""What a technique is: a name, its values, when it applies, what it teaches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from workbench.playbook.techniques.traits import Traits

Settings = Mapping[str, str]
"""A vector as a mapping, with a value for every technique decided so far."""


@dataclass(frozen=True)
class Technique:
    """One named choice. ``values`` are ordered from the plain choice on."""

    name: str
    title: str
    values: tuple[str, ...]
    offers: Callable[[Traits, Settings], tuple[str, ...]]
    """Values that make sense next to the choices made before it; fewer than two: it does not apply."""
    structural: bool
    """True when a change of it is a rewrite, not a refinement."""
    bottleneck: str
    """What it helps against: memory, latency, compute or launch."""
    look_for: str
    """Where its effect shows."""
    teaches: str

    @property
    def plain(self) -> str:
        """The value a kernel has before anybody thinks of the technique."""
        return self.values[0]
