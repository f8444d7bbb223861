"""Base names of ATen operations that what generates kernels and what judges them both ask about. Pure."""

from __future__ import annotations

COMPARED = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
"""Comparisons of two operands, element by element."""
RECURRENT = frozenset(("lstm", "gru", "rnn_tanh", "rnn_relu"))
"""Layers that go through their steps in one operation."""
CHOOSES = frozenset(
    ("amax", "amin", "max", "min", "max_pool2d_with_indices", "max_pool3d_with_indices", "cummax", "cummin")
)
"""Results whose elements are their operand's."""
