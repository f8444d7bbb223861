"""Every name the plan language knows: dtypes, constants, calls, facts.

Owns the lists that the parser checks names against and that error messages suggest from. Never
gives a name its behaviour: calls.py and expressions.py do.
"""

from __future__ import annotations

from workbench.model import DTYPE_BYTES, Target

DTYPES = tuple(DTYPE_BYTES)
CONSTANTS = ("inf", "nan")
CARD = ("target", "gpu")
"""Two names for the facts of the GPU: a problem's tensor is often called ``target``."""

BUFFER_CALLS = ("empty", "empty_like", "zeros", "view", "library", "tensor_map")
VALUE_CALLS = ("cdiv", "next_pow2", "min", "max", "range", "len")
ACTION_CALLS = ("launch", "require")
CALLS = BUFFER_CALLS + VALUE_CALLS + ACTION_CALLS

TENSOR_FACTS = (
    "shape",
    "strides",
    "dtype",
    "ndim",
    "numel",
    "nbytes",
    "itemsize",
    "alignment",
    "is_contiguous",
)
CARD_FACTS = tuple(Target.model_fields)

RESERVED = frozenset((*DTYPES, *CONSTANTS, *CARD, *CALLS))
"""Names a plan may not assign to; a parameter may carry one, since the problem names its tensors."""
