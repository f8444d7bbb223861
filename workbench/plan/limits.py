"""Bounds that keep any plan cheap to interpret, whatever its text says.

Owns numbers only. They are wide for honest plans: a plan of a whole network has some hundred steps.
"""

from __future__ import annotations

SOURCE_CHARS = 4_000_000
"""Characters of the ``.cu`` file."""
PLAN_CHARS = 400_000
"""Characters of the plan comment; some hundred for every step."""
NESTING = 60
"""Depth of the plan's syntax tree."""
WORK = 100_000
"""Expressions, statements and elements handled before a plan counts as endless."""
STEPS = 1_024
"""Steps a plan may yield."""
RANGE = 10_000
"""Numbers in a ``range``."""
INT_BITS = 256
"""Bits of an integer; every smaller one is exact."""
STRING_CHARS = 1_000
ITEMS = 4_096
"""Elements of a tuple, list or dict, nested ones counted."""
DEPTH = 16
"""Nesting of tuples, lists and dicts."""
NDIM = 16
"""Axes of a tensor."""
LIBRARY_RESULTS = 256
"""Tensors one library call may return."""

GRID = (2**31 - 1, 65_535, 65_535)
BLOCK = (1_024, 1_024, 64)
BLOCK_THREADS = 1_024
CLUSTER_BLOCKS = 16
"""Blocks in a cluster; more than 8 needs the kernel's consent, which is the compiler's business."""
