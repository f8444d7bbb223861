"""Names never hide what the generated text calls."""

import re

from workbench.playbook import cuda_helpers
from workbench.playbook.names import Names


def test_helper_functions_keep_their_names() -> None:
    text = "\n".join(str(value) for value in vars(cuda_helpers).values())
    functions = set(re.findall(r"__device__ (?!static)(?:inline )?[\w<>, ]+ (\w+)\(", text))
    assert {"sign", "larger", "warp_reduce"} <= functions
    for function in (*functions, "isnan", "isinf"):
        assert Names().new(function) != function


def test_no_name_has_two_underscores_together() -> None:
    """An input called ``new`` is ``new_`` in a plan; its width would be NEW__WIDTH, which C++ keeps."""
    assert Names().new("NEW__WIDTH") == "NEW_WIDTH"
