"""The text of a kernel as NVRTC's preprocessor leaves it, so that both compilers build the same code.

g++ defines other macros than NVRTC does, and a kernel that asks for them (``#ifndef __CUDACC_RTC__``)
would be one program on a GPU and another one here. So the kernel's own conditions are decided before
g++ sees them, with the macros of NVRTC; a condition whose answer is not known for certain is refused.
Owns the table of those macros. Never looks at what the code computes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from workbench.emulator import toolchain
from workbench.emulator.unsupported import unsupported, without_comments
from workbench.emulator.values import Consts

PREDEFINED: Mapping[str, str] = {
    "__CUDACC__": "1",
    "__CUDACC_RTC__": "1",
    "__CUDACC_VER_MAJOR__": "13",
    "__CUDACC_VER_MINOR__": "0",
    "__CUDA_ARCH__": "900",
    "__CUDA_ARCH_LIST__": "900",
    "__CUDA_ARCH_SPECIFIC__": "900",
    "__CUDA_ARCH_FAMILY_SPECIFIC__": "900",
    "__CUDA_ARCH_FEAT_SM90_ALL": "1",
    "__LP64__": "1",
}
"""What NVRTC 13.0 defines for sm_90a; a test asks it."""
ABSENT = frozenset(
    re.findall(
        r"\w+",
        """
        __GNUC__ __clang__ __NVCC__ _MSC_VER _WIN32 __APPLE__ __linux__ __x86_64__ __HIP__ __HIPCC__
        __HIP_PLATFORM_AMD__ __INTEL_COMPILER __WORKBENCH_EMULATOR__ __SANITIZE_THREAD__ __CUDACC_DEBUG__
        __CUDA_NO_HALF_OPERATORS__ __CUDA_NO_HALF_CONVERSIONS__ __CUDA_NO_BFLOAT16_OPERATORS__
        """,
    )
)
"""Reserved names that NVRTC does not define, whatever g++ does."""
_STANDARD = frozenset(["__cplusplus", "__STDC__", "__STDC_HOSTED__"])
"""The same for both compilers."""
_HEADERS_OWN = re.compile(
    r"(M_\w+|INFINITY|NAN|NULL|HUGE_VAL\w*|\w+_(MAX|MIN|EPSILON|DIG|BIT)"
    r"|(CUDA|CUDART|CUB|CCCL|THRUST|NV|CG)_\w*)$"
)
_DIRECTIVE = re.compile(r"\s*(#|%:|\?\?=)\s*(\w*)(.*)$", re.DOTALL)
_CONDITIONAL = ("if", "ifdef", "ifndef", "elif", "else", "endif")
_KNOWN = (*_CONDITIONAL, "define", "undef", "include", "pragma", "error", "warning")
_GUARD = re.compile(
    r"^[ \t]*#[ \t]*ifndef[ \t]+(\w+)[ \t]*\n"
    r"[ \t]*#[ \t]*define[ \t]+\1\b(?:[^\n]*\\\n)*[^\n]*\n"
    r"[ \t]*#[ \t]*endif\b",
    re.MULTILINE,
)
"""``#ifndef X``, ``#define X ...``, ``#endif``: whoever has X already may keep it."""
_BUILT_IN = frozenset(["threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "assert", "clock", "main"])
_HELD = "emu_line_{}_held;"


def nvrtc_view(source: str, consts: Consts) -> str:
    """The source with its conditions decided; every line keeps its number.

    Raises ``EmulatorUnsupported`` for a condition that may be answered differently by NVRTC, and
    ``CompilerFailed`` for directives that are no C++.
    """
    code = without_comments(source)
    guards = [(code.count("\n", 0, m.start()), code.count("\n", 0, m.end())) for m in _GUARD.finditer(code)]
    free = {line for first, last in guards for line in range(first, last + 1)}
    own = {name for name, _ in consts} | set(re.findall(r"^\s*#\s*define\s+(\w+)", code, re.MULTILINE))
    conditional = False
    for number, word, rest in _directives(code):
        if number not in free:
            _check(number + 1, word, rest, own)
            conditional = conditional or word in _CONDITIONAL
    return _decided(source, code, free, consts) if conditional else source


def _directives(code: str) -> Iterator[tuple[int, str, str]]:
    """(line from 0, word, rest with continued lines joined) of every directive."""
    lines = code.split("\n")
    for number, line in enumerate(lines):
        found = _DIRECTIVE.match(line)
        if found is None:
            continue
        mark, word, rest = found.groups()
        if mark != "#" or (word not in _KNOWN and (word or rest.strip())):
            raise unsupported(number + 1, f"the directive {mark}{word}")
        end = number
        while rest.endswith("\\") and end + 1 < len(lines):
            end += 1
            rest = rest[:-1] + " " + lines[end]
        yield number, word, rest


def _check(line: int, word: str, rest: str, own: set[str]) -> None:
    if word in ("define", "undef"):
        name = re.match(r"\s*(\w*)", rest)
        if name and (name[1].startswith(("__", "emu_", "EMU_")) or name[1] in _BUILT_IN):
            raise unsupported(line, f"another meaning for {name[1]}")
    if word not in ("if", "ifdef", "ifndef", "elif"):
        return
    for name in re.findall(r"\b[A-Za-z_]\w*", rest):
        if name in own or name in PREDEFINED or name in ABSENT or name in _STANDARD or name == "defined":
            continue
        if name.startswith("_") or _HEADERS_OWN.match(name):
            raise unsupported(
                line, f"a condition on {name}, which compilers answer differently; use const= of the launch"
            )


def expanded(source: str, consts: Consts) -> str:
    """The source with its own macros put in, for a look at words that are pasted together."""
    held = {
        number: line
        for number, line in enumerate(source.split("\n"))
        if re.match(r"\s*#\s*(include|pragma)\b", line)
    }
    return _preprocessed(source, held, consts, ())


def _decided(source: str, code: str, free: set[int], consts: Consts) -> str:
    held = {}
    for number, (line, bare) in enumerate(zip(source.split("\n"), code.split("\n"), strict=True)):
        found = _DIRECTIVE.match(bare)
        if number in free or (found and found[2] in ("include", "pragma")):
            held[number] = line
    return _preprocessed(source, held, consts, ("-fdirectives-only",))


def _preprocessed(source: str, held: Mapping[int, str], consts: Consts, flags: tuple[str, ...]) -> str:
    """Run the preprocessor without any macro of its own; ``held`` lines stay as they are if they stay."""
    lines = source.split("\n")
    for number in held:
        lines[number] = _HELD.format(number)
    macros = [f"-D{name}={value}" for name, value in {**PREDEFINED, **dict(consts)}.items()]
    command = [toolchain.compiler(), "-E", "-x", "c++", "-std=c++17", "-undef", "-nostdinc", *flags, *macros]
    with toolchain.scratch() as folder:
        (folder / "kernel.cu").write_text("\n".join(lines) + "\n")
        toolchain.run([*command, "kernel.cu", "-o", "view.cpp"], folder)
        text = (folder / "view.cpp").read_text()
    result = [""] * len(lines)
    for number, line in _lines_of(text):
        if number < len(result):
            result[number] = line
    for number, line in held.items():
        stayed = result[number].strip() == _HELD.format(number)
        result[number] = line if stayed else ""
    return "\n".join(result)


def _lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Lines of the kernel in a preprocessed text, with their numbers from 0."""
    number, ours = 0, False
    for line in text.split("\n"):
        marker = re.match(r'# (\d+) "(.*?)"', line)
        if marker:
            number, ours = int(marker[1]) - 1, marker[2] == "kernel.cu"
            continue
        if ours:
            yield number, line
        number += 1
