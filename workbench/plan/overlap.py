"""Which elements two views share.

Owns three yes/no questions, each answered "yes" only when it is certain: a plan is refused for sure
overlaps, the rest is found by the emulator at run time.
"""

from __future__ import annotations

from math import gcd

from workbench.model import TensorMeta
from workbench.plan.values import Tensor


def span_of(meta: TensorMeta) -> int:
    """Elements from the first to one past the last; 0 for an empty tensor."""
    if meta.numel == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(meta.shape, meta.strides, strict=True))


def distinct_elements(meta: TensorMeta) -> int:
    """Elements of a tensor, those that an expanded axis repeats counted once."""
    count = 1
    for size, stride in zip(meta.shape, meta.strides, strict=True):
        count *= size if stride or size == 0 else 1
    return count


def overlaps_itself(meta: TensorMeta) -> bool:
    """True when two indices certainly name the same element. Exact for up to two axes."""
    if meta.numel == 0:
        return False
    axes = [(n, s) for n, s in zip(meta.shape, meta.strides, strict=True) if n > 1]
    for i, (size, stride) in enumerate(axes):
        if stride == 0:
            return True
        for other_size, other_stride in axes[:i]:
            # a * stride == b * other_stride has its smallest solution at these a and b
            common = gcd(stride, other_stride)
            if common and other_stride // common < size and stride // common < other_size:
                return True
    return False


def overlap(first: Tensor, second: Tensor) -> bool:
    """True when two tensors certainly share an element."""
    if first.base != second.base or not first.meta.numel or not second.meta.numel:
        return False
    return _has_corner_of(first, second) or _has_corner_of(second, first)


def _has_corner_of(outer: Tensor, inner: Tensor) -> bool:
    corners = (inner.offset, inner.offset + span_of(inner.meta) - 1)
    return any(_contains(outer, corner) for corner in corners)


def _contains(tensor: Tensor, element: int) -> bool:
    """True when the element of the base's storage certainly belongs to the tensor.

    Greedy from the largest stride down; certain when it ends at zero.
    """
    rest = element - tensor.offset
    axes = zip(tensor.meta.strides, tensor.meta.shape, strict=True)
    for stride, size in sorted(axes, reverse=True):
        if stride and rest >= 0:
            rest -= min(rest // stride, size - 1) * stride
    return rest == 0
