"""What it costs the host, call by call, to see that an original still reads what its kernel was made for.

Four references, from one that reads nothing to 120 layers; needs no GPU. Prints a line each: conditions in
the prepared list, nanoseconds to find that they all hold, milliseconds of the walk after one that does not.
Usage: ``python benchmarks/watch_cost.py``
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workbench.live.watch import Watch

SCALE, SETTINGS = 2.0, {"eps": 1e-5, "shift": 0.5}


def plain(x: Tensor) -> Tensor:
    """Reads nothing."""
    return torch.relu(x)


def helper(x: Tensor) -> Tensor:
    """Reads a number."""
    return x * SCALE


def with_globals(x: Tensor) -> Tensor:
    """Reads a helper and a dict."""
    return helper(x) * SETTINGS["shift"] + SETTINGS["eps"]


class Layer(nn.Module):
    """One attribute and one layer of torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = 2.0
        self.norm = nn.LayerNorm(64)

    def forward(self, x: Tensor) -> Tensor:
        """Reads the attribute."""
        norm: Tensor = self.norm(x)
        return norm * self.gain


def stack() -> nn.Module:
    """120 layers."""
    bundles = (nn.Sequential(nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3), nn.ReLU()) for _ in range(40))
    return nn.Sequential(*bundles).eval()


def seconds(act: Callable[[], Any], count: int) -> float:
    """The least of seven rounds, for one call."""
    return min(timeit.repeat(act, number=count, repeat=7)) / count


def line(name: str, target: Callable[..., Any]) -> str:
    """One reference, measured."""
    watch = Watch(lambda: target)
    each_ns = seconds(watch.state.same, 5000) * 1e9
    walk_ms = seconds(watch.look_again, 5) * 1e3
    return f"{name}: {len(watch.now.checks)} conditions, {each_ns:.0f} ns a call; a walk {walk_ms:.2f} ms"


def main() -> None:
    """Measure and print."""
    print(line("a function that reads nothing", plain))
    print(line("a helper, a number, a dict", with_globals))
    print(line("a module with an attribute and a layer", Layer().eval()))
    print(line("120 layers", stack()))


if __name__ == "__main__":
    main()
