"""Techniques that rewrite the op graph before any kernel is written: the same numbers by another route.

Owns their names and prose; rewrites.py has the rules. They are on from the start and can be turned off, to
see what they gain.
"""

from __future__ import annotations

from collections.abc import Callable

from workbench.playbook.rewrites import ONLY_FUSED
from workbench.playbook.technique import Settings, Technique
from workbench.playbook.traits import Traits


def _offers(name: str) -> Callable[[Traits, Settings], tuple[str, ...]]:
    def offers(traits: Traits, settings: Settings) -> tuple[str, ...]:
        fused = settings.get("fusion", "all") == "all"
        return ("off", "on") if name in traits.rewrites and (fused or name not in ONLY_FUSED) else ()

    return offers


def _rewrite(name: str, title: str, bottleneck: str, look_for: str, teaches: str) -> Technique:
    return Technique(name, title, ("off", "on"), _offers(name), True, bottleneck, look_for, teaches)


ALGEBRA = (
    _rewrite(
        "linear_rowsum",
        "sum the weights, not the product",
        "compute",
        "the matrix product leaves the list of steps; A and B are read once each",
        "The sum over the columns of A @ B is A @ (the sum over the columns of B): both are the same double "
        "sum in another order. The left side costs 2*M*N*K operations and writes M*N numbers only to add "
        "them up; the right side reads each operand once. Compilers do not do this, because floating-point "
        "addition in another order rounds differently; the referee checks that the result stays within the "
        "bound that any order would meet.",
    ),
    _rewrite(
        "bias_in_tail",
        "the bias of a convolution is added behind it",
        "memory",
        "launches, and passes over the convolution's result: one instead of two",
        "cuDNN's convolution returns the products; PyTorch adds the bias in a kernel of its own, which reads "
        "and writes the whole result once more. Where a kernel follows that reads every element anyway, for "
        "an activation or a pooling, the addition there is one instruction on a number that is already in a "
        "register. The convolution is called without its bias.",
    ),
)
