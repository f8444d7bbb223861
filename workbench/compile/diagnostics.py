"""Reads a compiler log into diagnostics at the person's own lines. Pure text to values.

NVRTC prints ``file(line): severity: message``, then the source line and a caret, then the templates
it was instantiating. Two families need translation: ``__nv_name_map``, a text NVRTC makes of the
kernels that were asked for, and ptxas, which knows mangled names only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Literal

from workbench.compile.request import FILE, Request, base_name
from workbench.errors import nearest
from workbench.model import Diagnostic

MOST = 20
"""Diagnostics kept; the first ones tell, the rest follows from them."""
HEADER = re.compile(
    r"^(?:(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\)|At end of source): "
    r"(?P<severity>catastrophic error|error|warning|note|remark)(?: #\d+(?:-D)?)?: (?P<message>.*)$"
)
INSTANTIATION = re.compile(
    r'^\s+(?:detected during )?(instantiation of .*?"|.*? of .*?")(?: at line (\d+)(.*))?\s*$'
)
INCLUDE = re.compile(r"\s*#\s*include\b")
NAME_MAP = "__nv_name_map"
PRAGMA = "#pragma nv_mangled_name "
SEVERITIES: dict[str, Literal["error", "warning", "note"]] = {
    "catastrophic error": "error",
    "error": "error",
    "warning": "warning",
    "note": "note",
    "remark": "note",
}


class Block:
    """One message with the lines printed under it."""

    def __init__(self, header: re.Match[str], under: list[str]) -> None:
        self.file = header["file"] or FILE
        self.line = int(header["line"] or 0)
        self.severity = SEVERITIES[header["severity"]]
        self.message = header["message"].strip()
        caret = next((i for i, text in enumerate(under) if text.strip() == "^"), None)
        self.text = under[caret - 1][2:] if caret else ""
        self.caret_byte = under[caret].index("^") - 2 if caret else -1
        self.details = [t.strip() for t in under[: caret - 1]] if caret else []
        self.context = under[caret + 1 :] if caret else under


def read_errors(request: Request, log: str) -> tuple[Diagnostic, ...]:
    """What a refused compilation complains of; never empty."""
    blocks = _blocks(log)
    if not any(block.severity == "error" for block in blocks if block.file != NAME_MAP):
        found = [*_missing_kernels(request, blocks), *_ptxas(request, log)]
        if found:
            return tuple(dict.fromkeys(found))[:MOST]
    found = [d for block in blocks if block.file != NAME_MAP for d in _diagnostics(request, block)]
    found = list(_at_includes(request, found))
    first = next((i for i, d in enumerate(found) if d.severity == "error"), len(found))
    # Warnings before the first error are of no help in finding it.
    kept = tuple(dict.fromkeys(found[first:]))[:MOST]
    return kept or (Diagnostic(line=1, message=log.strip()[-500:] or "the compiler gave no reason"),)


def read_warnings(request: Request, log: str) -> tuple[Diagnostic, ...]:
    """Warnings about the person's own text; those about headers are nobody's to mend."""
    return tuple(
        dict.fromkeys(
            diagnostic
            for block in _blocks(log)
            if block.severity == "warning" and block.file == FILE
            for diagnostic in _diagnostics(request, block)
        )
    )[:MOST]


def _blocks(log: str) -> list[Block]:
    blocks = []
    header: re.Match[str] | None = None
    under: list[str] = []
    for line in [*log.splitlines(), ""]:
        match = HEADER.match(line)
        if header is not None and (match or not line.strip()):
            blocks.append(Block(header, under))
            header, under = None, []
        if match:
            header = match
        elif header is not None:
            under.append(line)
    return blocks


def _diagnostics(request: Request, block: Block) -> Iterator[Diagnostic]:
    message = " ".join([block.message, *block.details])
    if "cannot open source file" in message:
        message += (
            "; device code can include CUDA's own headers, cuda/std and cub/block, and has no host library"
        )
    message += _help(message)
    file = block.file if block.file == FILE else PurePath(block.file).name
    line = block.line or len(request.lines)  # 0: "at end of source"
    column, caret = _caret(block)
    yield Diagnostic(
        severity=block.severity, file=file, line=line, column=column, message=message, caret=caret
    )
    for context in block.context:
        if match := INSTANTIATION.match(context):
            where = int(match[2]) if match[2] and not match[3].strip() else line
            yield Diagnostic(severity="note", file=FILE, line=where, message=f"in {match[1]}")


def _at_includes(request: Request, found: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """Of errors inside a header the first stands where the person includes it: its lines are not theirs."""
    told = set()
    for one in found:
        if one.file == FILE:
            yield one
            continue
        line = _include_of(request, one.file)
        if one.severity == "error" and line not in told:
            told.add(line)
            text = request.lines[line - 1]
            message = f"in {one.file}, line {one.line}: {one.message}"
            if "__host__ function is not allowed" in message:
                message += (
                    "; this header has host code, and there is none here: include a part for device code, "
                    "such as cub/block/block_reduce.cuh"
                )
            yield Diagnostic(severity="error", line=line, column=1, message=message, caret=f"{text}\n^")


def _include_of(request: Request, header: str) -> int:
    """Line that includes a header, by its name; else the last that includes any, which may lead to it."""
    lines = [number for number, text in enumerate(request.lines, 1) if INCLUDE.match(text)]
    named = [number for number in lines if header in request.lines[number - 1]]
    return [1, *lines, *named][-1]


def _help(message: str) -> str:
    """What to do about a name that a student of CUDA knows and this compiler does not."""
    found = re.match(r'identifier "(\w+)" is undefined', message)
    name = found[1] if found else ""
    if re.match(r"cuda[A-Z]", name):
        return ": there is no host code here, the plan allocates and launches; leave main() and its like out"
    if re.match(r"(__)?half2?$|__\w*half2?(_rn)?$|__half\w*2\w+$|__h(add|mul|fma|sub|div)2?$", name):
        return ": write #include <cuda_fp16.h>"
    if re.match(r"(__)?nv_bfloat162?$|__\w*bfloat162?(_rn)?$|__bfloat16\w*2\w+$", name):
        return ": write #include <cuda_bf16.h>"
    if re.match(r"__(shfl(_up|_down|_xor)?|ballot|any|all)$", name):
        return f": write {name}_sync(0xffffffff, ...)"
    return ""


def _caret(block: Block) -> tuple[int, str]:
    """Column from 1 in characters (the compiler counts bytes), and the line with its caret."""
    if block.caret_byte < 0:
        return 0, ""
    before = block.text.encode()[: block.caret_byte].decode(errors="ignore")
    padding = "".join("\t" if character == "\t" else " " for character in before)
    return len(before) + 1, f"{block.text}\n{padding}^"


def _missing_kernels(request: Request, blocks: Iterable[Block]) -> Iterator[Diagnostic]:
    """A plan that launches what the text does not define, or with other template arguments."""
    explained = set()
    for block in blocks:
        kernel = block.text.removeprefix(PRAGMA)
        if block.file == NAME_MAP and kernel not in explained:
            explained.add(kernel)
            yield Diagnostic(line=request.line_of(kernel), message=_explain(request, kernel, block.message))


def _explain(request: Request, kernel: str, message: str) -> str:
    name = base_name(kernel)
    if f'"{name}" is undefined' in message or f'no member "{name}"' in message:
        return f"no kernel named {name!r} in this file.{nearest(name, request.defined)}".rstrip(".")
    if "instance of function template" in message:
        return f"the template arguments of {kernel!r} do not fit any kernel template {name!r} of this file"
    if "instance of overloaded" in message:
        return f"{kernel!r} names more than one kernel; give overloads of {name!r} different names"
    if "non-__global__" in message:
        return f"{kernel!r} is not a kernel; mark the function __global__ or launch another"
    return f"{kernel!r} does not name a kernel: {message}"


SHARED = re.compile(r"Entry function '(\S+)' uses too much shared data \((\w+) bytes, (\w+) max\)")
UNRESOLVED = re.compile(r"Unresolved extern (\w+) '(\S+)'")
PTXAS = re.compile(
    r"^\s*ptxas (?:error|fatal)\s*: (.*)$|^\s*ptxas .*?; (?:error|fatal)\s*: (.*)$", re.MULTILINE
)


def _ptxas(request: Request, log: str) -> Iterator[Diagnostic]:
    """What the assembler refuses, in terms of the source."""
    messages = [a or b for a, b in PTXAS.findall(log)]
    for message in [m for m in messages if "aborted due to errors" not in m] or messages:
        if match := SHARED.search(message):
            kernel = _demangled(match[1], request.defined)
            used, most = int(match[2], 16), int(match[3], 16)
            text = f"kernel {kernel!r} declares {used:,} bytes of shared memory; a block has {most:,}"
            yield Diagnostic(line=request.defined.get(kernel, 1), message=text)
        elif match := UNRESOLVED.search(message):
            name = _demangled(match[2], re.findall(r"\w+", request.source))
            line = _line_with(request, name)
            yield Diagnostic(
                line=line, message=f"{match[1]} {name!r} is declared but not defined in this file"
            )
        else:
            quoted = re.search(r"'(\S+)'", message)
            line = _line_with(request, quoted[1]) if quoted else 1
            yield Diagnostic(line=line, message=f"assembler: {message}")


def _demangled(mangled: str, names: Iterable[str]) -> str:
    """The longest of ``names`` that the mangled name contains as ``<length><name>``."""
    inside = [name for name in names if f"{len(name)}{name}" in mangled]
    return max(inside, key=len, default=mangled)


def _line_with(request: Request, word: str) -> int:
    return next((number for number, text in enumerate(request.lines, 1) if word in text), 1)
