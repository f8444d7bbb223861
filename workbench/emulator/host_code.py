"""What machine code of a process could do and a GPU cannot: refused before it is loaded.

The kernel's text and the object file are both looked at: the text for assembly and attributes, the object
for code that runs when it is loaded and for functions of the system. Owns both lists. It is the second
wall; the first is the process a kernel runs in (runner.py).
"""

from __future__ import annotations

import re

from workbench.emulator.elf import Contents
from workbench.emulator.unsupported import unsupported, without_comments
from workbench.errors import EmulatorBuildError
from workbench.model import Diagnostic

_ATTRIBUTES = frozenset(
    re.findall(
        r"\w+",
        "aligned packed noinline always_inline unused may_alias const pure noreturn nodiscard deprecated",
    )
)
_STANDARD_ATTRIBUTES = frozenset(
    re.findall(
        r"\w+", "maybe_unused nodiscard fallthrough likely unlikely noreturn no_unique_address deprecated"
    )
)
_ATTRIBUTE = re.compile(
    r"__attribute(?:__)?\b(?:\s*\(\((?P<own>[^;{}]*?)\)\))?|__declspec\b|\[\[(?P<standard>[^\]]*)\]\]"
)
_PRAGMAS = re.compile(r"\s*(unroll|nounroll|once|nv_\w+|diag_\w+|STDC|pack)\b")
_MATH = """
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 exp10 expm1 fabs fdim
floor fma fmax fmin fmod frexp hypot ilogb j0 j1 jn ldexp lgamma llrint llround log log10 log1p log2 logb
lrint lround modf nan nearbyint nextafter pow remainder remquo rint round roundeven scalbln scalbn sin sincos
sinh sqrt tan tanh tgamma trunc y0 y1 yn
"""
_MATH_CALL = re.compile(rf"({'|'.join(_MATH.split())})[fl]?")
_OF_RUNTIME = re.compile(
    r"emu_\w+|__tsan_\w+|__ubsan_handle_float_cast_overflow|_GLOBAL_OFFSET_TABLE_|__dso_handle"
)
"""What the runtime has, and what the linker itself makes."""
_ALLOWED = re.compile(
    rf"{_OF_RUNTIME.pattern}|__tls_get_addr|_TLS_MODULE_BASE_|__cxa_guard_\w+"
    r"|__stack_chk_fail|__emutls\w*|mem(cpy|set|move|cmp|chr)|str(len|cmp|ncmp|cpy)|abort|printf|puts|putchar"
    r"|sprintf|malloc|free|_Zn[wa]m|_Zd[la]Pvm?|__cxa_pure_virtual|"
    r"__(u?div|u?mod|u?divmod|mul|pow|fix|float|extend|trunc|clz|ctz|popcount|parity|ffs|bswap|ash|lshr|neg"
    r"|u?cmp|add|sub|eq|ne|lt|le|gt|ge|unord)[a-z]*\d?|"
    rf"{_MATH_CALL.pattern}"
)
_AT_LOAD = re.compile(r"\.(preinit_array|init_array|fini_array|ctors|dtors|init|fini)\b")
_SANITIZER_START = (".init_array.00099", 8)
"""The one thing that g++ puts there itself: the call of __tsan_init in checked modules."""


def of_runtime(name: str) -> bool:
    """True for a name that needs no library."""
    return _OF_RUNTIME.fullmatch(name) is not None


def is_math(name: str) -> bool:
    """True for a function of the mathematical library."""
    return _MATH_CALL.fullmatch(name) is not None


def refuse_host_text(source: str) -> None:
    """Raise ``EmulatorUnsupported`` for attributes and pragmas that mean nothing to a GPU."""
    code = without_comments(source)
    for found in _ATTRIBUTE.finditer(code):
        known = _STANDARD_ATTRIBUTES if found["standard"] is not None else _ATTRIBUTES
        inside = found["standard"] if found["standard"] is not None else found["own"] or ""
        named = [name.strip("_") for name, _ in re.findall(r"([A-Za-z_][\w:]*)\s*(\([^()]*\))?", inside)]
        strange = [name for name in named if name not in known]
        if strange or not named:
            raise unsupported(_line(code, found.start()), f"the attribute {', '.join(strange) or found[0]}")
    for found in re.finditer(r"^\s*#\s*pragma\b(.*)$", code, re.MULTILINE):
        if not _PRAGMAS.match(found[1]):
            raise unsupported(_line(code, found.start(1)), f"#pragma{found[1].rstrip()}")
    for found in re.finditer(r"_Pragma\s*\(\s*\"([^\"]*)\"", source):
        if not _PRAGMAS.match(found[1]):
            raise unsupported(_line(source, found.start()), f"_Pragma({found[1]})")


def refuse_host_object(contents: Contents, source: str) -> None:
    """Raise ``EmulatorBuildError`` for code that runs at loading and for calls of the system."""
    for name, size in contents.sections:
        if _AT_LOAD.match(name) and (name, size) != _SANITIZER_START:
            _refuse(source, "", "something would run when the kernel is loaded: a GPU has no constructors")
    for name in contents.indirect:
        _refuse(source, name, f"{name} is chosen when the kernel is loaded, which a GPU cannot")
    for name in contents.undefined:
        if not _ALLOWED.fullmatch(name):
            _refuse(source, name, f"{name} is no function of a GPU and is not defined in the file")


def _refuse(source: str, name: str, message: str) -> None:
    found = re.search(rf"\b{re.escape(name)}\b", without_comments(source)) if name else None
    line = _line(source, found.start()) if found else 1
    raise EmulatorBuildError((Diagnostic(line=line, message=message),))


def _line(code: str, position: int) -> int:
    return code.count("\n", 0, position) + 1
