"""Builds of ``load_inline``, the quick way first.

Owns the order of attempts: (1) thin.h in place of PyTorch's headers, (2) ``torch/types.h`` in place of
``torch/extension.h`` in the .cu text, (3) unmodified. As KernelBench solutions are written, most of a
minute goes into parsing headers; docs/foreign-lane.md has what each rung takes. Runs inside the sandbox.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from workbench.foreign import thin

THIN, TYPES, UNMODIFIED = "thin header", "torch/types.h in place of torch/extension.h", "unmodified"
_EXTENSION = re.compile(r'#\s*include\s*[<"]torch/extension\.h[>"]')
_PASSED_ON = ("extra_cflags", "extra_cuda_cflags", "extra_ldflags", "extra_include_paths", "verbose")
"""Options of ``load_inline`` that the thin rung understands."""

taken: list[str] = []
"""Which rung took each build, in order."""
built: set[str] = set()
"""Names of the modules that were built."""
called: set[str] = set()
"""Functions of thin modules that were called."""


_replaced: list[Callable[..., Any]] = []
"""Torch's own ``load_inline``, once the ladder stands in its place."""


def install() -> None:
    """Put the ladder in the place of ``load_inline``, and note what ``load`` imports."""
    extensions = _extensions()
    imported: Callable[..., Any] = extensions._import_module_from_library

    def noting(name: str, *rest: Any) -> Any:
        built.add(name)
        return imported(name, *rest)

    _replaced.append(extensions.load_inline)
    extensions._import_module_from_library = noting
    extensions.load_inline = load_inline


def _extensions() -> Any:
    """Torch's builder of extensions. Importing it asks for the GPU: no process may be forked afterwards."""
    from torch.utils import cpp_extension

    return cpp_extension


def _unmodified(*args: Any, **options: Any) -> Any:
    return (_replaced[0] if _replaced else _extensions().load_inline)(*args, **options)


def told() -> str:
    """The rung that took the last build; empty when nothing was built."""
    return taken[-1] if taken else ""


def load_inline(name: str, cpp_sources: Any, cuda_sources: Any = None, *rest: Any, **options: Any) -> Any:
    """Stands in for torch's; same arguments, same module."""
    cpp, cuda = texts(cpp_sources), texts(cuda_sources or [])
    rungs: list[tuple[str, Callable[[], Any]]] = [
        (UNMODIFIED, lambda: _unmodified(name, list(cpp), list(cuda) or None, *rest, **options))
    ]
    if not rest and not options.get("no_implicit_headers"):
        if any(_EXTENSION.search(text) for text in cuda):
            rungs.insert(0, (TYPES, lambda: _with_types(name, cpp, cuda, options)))
        rungs.insert(0, (THIN, lambda: _thin(name, cpp, cuda, options)))
    for rung, build in rungs[:-1]:
        try:
            made = build()
        except Exception:  # the text needs more than this rung has: the last one tells what is wrong with it
            continue
        taken.append(rung)
        return made
    taken.append(UNMODIFIED)
    return rungs[-1][1]()


def texts(sources: str | Sequence[str]) -> list[str]:
    """Sources as a list."""
    return [sources] if isinstance(sources, str) else list(sources)


def _with_types(name: str, cpp: list[str], cuda: list[str], options: dict[str, Any]) -> Any:
    """nvcc reads the tensor headers only; the host compiler reads the Python bindings."""
    thinner = [_EXTENSION.sub("#include <torch/types.h>", text) for text in cuda]
    return _unmodified(f"{name}_types", list(cpp), thinner, **options)


def _thin(name: str, cpp: list[str], cuda: list[str], options: dict[str, Any]) -> Any:
    functions = _functions(options)
    if set(options) - {*_PASSED_ON, "functions", "with_cuda"}:
        raise thin.Unfit("an option it does not know")
    folder = Path(f"{name}_thin").absolute()
    folder.mkdir(exist_ok=True)
    file = folder / ("thin.cu" if cuda else "thin.cpp")
    file.write_text(thin.source(cpp, cuda, functions))
    kept = {key: value for key, value in options.items() if key in _PASSED_ON}
    build: Callable[..., Any] = _extensions().load
    library = build(
        f"{name}_thin",
        [str(file)],
        build_directory=str(folder),
        with_cuda=bool(cuda),
        is_python_module=False,
        **kept,
    )
    return thin.module(name, str(library), functions, called.add)


def _functions(options: dict[str, Any]) -> list[str]:
    names = options.get("functions") or []
    return [names] if isinstance(names, str) else list(names)
