"""Builds of ``load_inline``, the quick way first.

Owns the order of attempts: as KernelBench solutions are written, most of a minute goes into parsing
``torch/extension.h`` with nvcc. See docs/foreign-lane.md for what each rung saves. Runs inside the sandbox.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from torch.utils import cpp_extension

_EXTENSION = re.compile(r'#\s*include\s*[<"]torch/extension\.h[>"]')
_taken: list[str] = []


def install() -> None:
    """Put the ladder in the place of ``load_inline``."""
    original: Callable[..., Any] = cpp_extension.load_inline

    def load_inline(name: str, cpp_sources: Any, cuda_sources: Any = None, *rest: Any, **options: Any) -> Any:
        if not cuda_sources or rest or options.get("no_implicit_headers"):
            _taken.append("unmodified")
            return original(name, cpp_sources, cuda_sources, *rest, **options)
        return _climb(original, name, texts(cpp_sources), texts(cuda_sources), options)

    cpp_extension.load_inline = load_inline


def told() -> str:
    """The rung that took the last build; empty when nothing was built."""
    return _taken[-1] if _taken else ""


def texts(sources: str | Sequence[str]) -> list[str]:
    """Sources as a list."""
    return [sources] if isinstance(sources, str) else list(sources)


def without_bindings(cuda: str) -> str:
    """A ``.cu`` text that reads the tensor headers only: nvcc need not parse the Python bindings."""
    body = _EXTENSION.sub("#include <torch/types.h>", cuda)
    return "#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n" + body


def _climb(
    original: Callable[..., Any], name: str, cpp: list[str], cuda: list[str], options: dict[str, Any]
) -> Any:
    try:
        built = original(
            f"{name}_types",
            ["#include <torch/extension.h>\n" + cpp[0], *cpp[1:]],
            [without_bindings(text) for text in cuda],
            **options,
            no_implicit_headers=True,
        )
    except Exception:  # the text needs what only the whole header has: build it as it is written
        built = original(name, cpp, cuda, **options)
        _taken.append("unmodified")
        return built
    _taken.append("torch/types.h in place of torch/extension.h")
    return built
