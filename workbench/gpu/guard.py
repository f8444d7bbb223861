"""What a kernel's answer depends on besides the numbers: the key under which a decision is remembered.

Owns the list of facts. One key costs well under a microsecond for each tensor, and tensors like the last ones
are recognised for less; neither looks at data or waits for the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd import forward_ad

ALIGNMENT_MASK = 255
"""A plan is told alignments up to 256 bytes."""
PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
"""What a kernel takes; every other class may give its operations a meaning of its own."""

_modes = torch._C._len_torch_dispatch_stack
_grad_enabled = torch.is_grad_enabled
_autocast_enabled = torch.is_autocast_enabled

Key = tuple[Any, ...]


def key_of(values: Sequence[Any]) -> Key:
    """Everything a decision may depend on, hashable.

    Raises what torch or Python raises for values that are no plain tensors (``AttributeError``, a
    ``RuntimeError`` for tensors without memory of their own).
    """
    facts: list[Any] = [_grad_enabled(), _autocast_enabled(), _modes(), forward_ad._current_level]
    for x in values:
        facts += (
            x.__class__,
            x.shape,
            x.stride(),
            x.dtype,
            x.device,  # not get_device(): it is -1 for a meta tensor, which has no memory, as for the CPU's
            x.data_ptr() & ALIGNMENT_MASK,
            x.requires_grad,
            x.is_neg(),
        )
    return tuple(facts)


class Likeness(NamedTuple):
    """How tensors with the same key as some others are recognised, at a third of the cost of a key."""

    check: Callable[..., bool]
    """Takes the tensors one by one."""
    addresses: tuple[int, ...]
    """What ``data_ptr() & ALIGNMENT_MASK`` of each must be."""
    grad: bool
    """What the thread's gradient mode must be; forward derivatives must be off."""


def likeness(values: Sequence[Any]) -> Likeness | None:
    """How to recognise tensors like these.

    None where torch does not offer the check that its own compiled code makes before it is called; it
    compares class, sizes, strides, type, device, gradient and every dispatch key, autocast's and modes' too.
    """
    try:
        guards: Any = torch._C._dynamo.guards
        sizes, strides = [list(x.shape) for x in values], [list(x.stride()) for x in values]
        check = guards.TensorGuards(*values, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check
        if not check(*values):
            return None
    except Exception:  # not a public interface: whatever it raises in another version, the key will do
        return None
    return Likeness(check, tuple(x.data_ptr() & ALIGNMENT_MASK for x in values), _grad_enabled())


def objection(names: Sequence[str], values: Sequence[Any]) -> str:
    """Why these values, at this moment, are not a kernel's; empty when nothing speaks against it."""
    if _autocast_enabled():
        return "autocast is on: the original chooses its own types there"
    if _modes():
        return "a torch dispatch mode is active: it must see the original's operations"
    if forward_ad._current_level >= 0:
        return "forward-mode derivatives are being taken; the kernel has none"
    for name, value in zip(names, values, strict=True):
        if told := _objection_to(name, value):
            return told
    devices = {value.device for value in values}
    if len(devices) > 1:
        return f"the tensors are on {' and '.join(sorted(map(str, devices)))}"
    return ""


def _objection_to(name: str, value: Any) -> str:
    kind = type(value).__name__
    if not isinstance(value, torch.Tensor):
        return f"{name} is {kind}, not a tensor"
    if type(value) not in PLAIN_TYPES:
        return f"{name} is a {kind}, which may change what operations mean"
    if value.layout != torch.strided:
        return f"{name} is {value.layout}; the kernel takes strided tensors"
    if value.requires_grad and _grad_enabled():
        return f"{name} requires a gradient; the kernel has no backward. Use torch.no_grad()"
    if value.is_neg():
        return f"{name} is a lazily negated view"
    return ""
