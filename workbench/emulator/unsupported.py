"""What the emulator cannot run yet, recognised in the source before a compiler stumbles over it.

Owns the list and its wording. Never judges a kernel: such a kernel may well be right on a GPU.
"""

from __future__ import annotations

import re
from functools import lru_cache

from workbench.errors import EmulatorUnsupported
from workbench.model import Diagnostic

_FEATURES: tuple[tuple[str, str], ...] = (
    (r"\basm\b|\b__asm__\b|\b__asm\b", "inline PTX"),
    (r"\bCUtensorMap\b|\bcp_async_bulk|\btensormap\b", "TMA (tensor maps, bulk copies)"),
    (r"\b__cluster_dims__\b", "a cluster that the kernel sets (the plan's launch can)"),
    (r"\bbarrier_arrive\b|\bbarrier_wait\b|\bquery_shared_rank\b", "split cluster barriers"),
    (r"\bthis_multi_grid\b|\bmulti_grid_group\b", "synchronisation of several cards"),
    (r"#\s*include\s*<cuda/(std/)?(barrier|pipeline|ptx|atomic|semaphore|latch)\b", "libcu++ barriers"),
    (r"#\s*include\s*<cub/(?!block/block_(reduce|scan)\.|warp/warp_reduce\.)", "this part of CUB"),
    (r"\bcub::(?!BlockReduce\b|BlockScan\b|WarpReduce\b|BLOCK_)", "this part of CUB"),
    (r"#\s*include\s*<(cute|cutlass)/", "CUTLASS"),
    (r"#\s*include\s*<cuda_fp8\.h>|\b__nv_fp8", "8-bit floats"),
    (r"\bnvcuda::wmma::experimental\b", "sub-byte matrix operations"),
    (r"\btex[123]D\w*\s*[<(]|\bsurf[123]D\w*\s*[<(]|\bcudaTextureObject_t\b", "textures"),
    (r"<<<", "launches from device code"),
    # With what is pasted together, which compile/service.py does not see.
    (r"\b__(PRETTY_FUNCTION|BASE_FILE|DATE|TIME)__", "a name that compilers give a meaning of their own"),
)  # fmt: skip

_SPLICE = r"(?:\\\r?\n)*"
"""Where a line goes on in the next one, which may be inside of a word or between the ends of a comment."""
_TOKEN = re.compile(
    rf"""
      (?P<noise>
        (?:u{_SPLICE}8{_SPLICE}|[uUL]{_SPLICE})?R{_SPLICE}"
        (?P<fence>[^ ()\\\t\v\f\n"]{{0,16}})\(.*?(?:\)(?P=fence)"|\Z)
      | /{_SPLICE}/(?:\\\r?\n|[^\n])*
      | /{_SPLICE}\*.*?(?:\*{_SPLICE}/|\Z)
      | "(?:\\\r?\n|\\.|[^"\\\n])*"?
      | '(?:\\\r?\n|\\.|[^'\\\n])*'? )
    | \.?\d(?:{_SPLICE}(?:[eEpP]{_SPLICE}[+-]|'?[\w.]))*
    | [^\W\d](?:{_SPLICE}\w)*
    """,
    re.DOTALL | re.VERBOSE,
)
"""Numbers and words stay: in ``1'000`` no character begins, in ``FOOR"(..."`` no raw string."""

_SPACED_SPLICE = re.compile(r"\\[ \t\v\f]+\r?\n")
"""g++ goes on in the next line, also in a comment, other compilers may not."""


@lru_cache(maxsize=4)
def without_comments(source: str) -> str:
    """Blank out comments and literals of text, as compilers see them; line numbers stay."""
    return _TOKEN.sub(_blanked, source)


def _blanked(match: re.Match[str]) -> str:
    found = match.group()
    return re.sub(r"[^\n]", " ", found) if match["noise"] else found


def refuse_unsupported(source: str) -> None:
    """Raise ``EmulatorUnsupported`` with one diagnostic for each feature that cannot run."""
    code = without_comments(source)
    if spaced := _SPACED_SPLICE.search(source):
        line = source.count("\n", 0, spaced.start()) + 1
        raise unsupported(line, "blanks after a backslash that ends a line")
    found = []
    for pattern, feature in _FEATURES:
        match = re.search(pattern, code)
        if match:
            line = code.count("\n", 0, match.start()) + 1
            found.append(Diagnostic(line=line, message=f"the emulator cannot run this yet: {feature}"))
    if found:
        raise EmulatorUnsupported(tuple(sorted(found, key=lambda d: d.line)))


def unsupported(line: int, what: str) -> EmulatorUnsupported:
    """The error for one thing that cannot run."""
    return EmulatorUnsupported((Diagnostic(line=line, message=f"the emulator cannot run this yet: {what}"),))
