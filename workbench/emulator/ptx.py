"""PTX instructions that the emulator knows: their statements become calls of its own functions.

Owns the list, and how a statement of inline PTX is read. What is not on it stays as it is, and unsupported.py
refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from workbench.emulator.unsupported import without_comments

KNOWN: Mapping[str, tuple[str, str]] = {
    "ex2.approx.ftz.f32": ("emu_ex2_approx_ftz", "=f f"),
    "max.NaN.f32": ("emu_max_nan", "=f f f"),
    "min.NaN.f32": ("emu_min_nan", "=f f f"),
    "cvt.rna.tf32.f32": ("emu_cvt_rna_tf32", "=r f"),
    "cp.async.commit_group": ("__pipeline_commit", ""),
    "cp.async.wait_group": ("__pipeline_wait_prior", "n"),
    "fence.proxy.async": ("emu_fence_proxy_async", ""),
    "fence.proxy.async.shared::cta": ("emu_fence_proxy_async", ""),
    "wgmma.fence.sync.aligned": ("emu_wgmma_fence", ""),
    "wgmma.commit_group.sync.aligned": ("emu_wgmma_commit_group", ""),
    "wgmma.wait_group.sync.aligned": ("emu_wgmma_wait_group", "n"),
}
"""A function by instruction, and the constraints of its operands in their order: a result comes first."""
_BEGINNING = re.compile(r"\basm\s*(?:volatile\s*)?\(")
_LITERAL = re.compile(r'\s*"((?:[^"\\\n]|\\[nt])*)"\s*')
_CONSTRAINT = re.compile(r'"([=+]?\w)"\s*(?=\()')
_SEPARATOR = re.compile(r"([:,)])\s*")
_PARENTHESIS = re.compile(r"[()]")
_SPACE = re.compile(r"\s*")
_INSTRUCTION = re.compile(r"([\w.:]+)(?: ([%\d, ]+))? ?;")
_FACTORS = {
    "k8.f32.tf32.tf32": "EMU_TF32",
    "k16.f32.f16.f16": "EMU_F16",
    "k16.f32.bf16.bf16": "EMU_BF16",
}
_MULTIPLICATION = re.compile(
    r"wgmma\.mma_async\.sync\.aligned\.m64n(?P<columns>\d+)"
    rf"(?P<factors>{'|'.join(map(re.escape, _FACTORS))}) ?"
    r"\{(?P<sums>[^{}]+)\} ?, ?(?:\{(?P<registers>[^{}]+)\}|(?P<tile>[^{},]+)) ?,"
    r"(?P<b>[^{},]+),(?P<adds>[^{},]+), ?1 ?, ?1 ?(?P<transposed>(?:, ?0 ?)*);"
)
"""Hopper's multiplication with sums in float32: of registers and a tile of shared memory, or of two tiles."""

_OF_A_WARP = {
    "m16n8k16": ("f16", "bf16"),
    "m16n8k8": ("f16", "bf16", "tf32"),
    "m16n8k4": ("tf32",),
}
"""Shapes of ``mma.sync`` with sums in float32, and the types of their factors."""
_FRAGMENTS = re.compile(
    r"mma\.sync\.aligned\.(?P<shape>m16n8k\d+)\.row\.col\.f32\.(?P<type>\w+)\.(?P=type)\.f32 ?"
    r"\{(?P<sums>[^{}]+)\} ?, ?\{(?P<a>[^{}]+)\} ?, ?\{(?P<b>[^{}]+)\} ?, ?\{(?P<added>[^{}]+)\} ?;"
)
_ROWS = re.compile(
    r"ldmatrix\.sync\.aligned\.m8n8\.x(?P<count>[124])(?P<turned>\.trans)?\.shared(?:::cta)?\.b16 "
    r"\{(?P<words>[^{}]+)\} ?, ?\[(?P<from>[^\[\]]+)\] ?;"
)
"""Matrices of 8 x 8 elements of 16 bits, of which each lane reads a row."""
_COPY = re.compile(
    r"cp\.async\.(?P<cache>c[ag])\.shared(?:::cta)?\.global "
    r"\[(?P<to>[^\[\]]+)\] ?, ?\[(?P<from>[^\[\]]+)\] ?, ?(?P<bytes>[^,;]+)(?:,(?P<read>[^,;]+))?;"
)
"""A copy to shared memory: so many bytes, of which so many are read and the others are zero."""


@dataclass(frozen=True)
class Operand:
    """One operand of a statement, which the instruction names by its place: ``%0``."""

    constraint: str
    expression: str


@dataclass(frozen=True)
class Statement:
    """A statement of inline PTX, without its semicolon."""

    text: str
    operands: tuple[Operand, ...]
    end: int
    """Where in the source it ends."""


def with_known(source: str) -> str:
    """The source with the statements of known instructions as C++; every line keeps its number."""
    parts, position = [], 0
    for start, statement in _statements(source):
        readers = (_as_call, _as_multiplication, _as_copy, _as_fragments, _as_rows)
        call = next(filter(None, (read(statement) for read in readers)), None)
        if call is not None:
            lines = "\n" * source.count("\n", start, statement.end)
            parts += [source[position:start], call, lines]
            position = statement.end
    return "".join([*parts, source[position:]])


def _statements(source: str) -> Iterator[tuple[int, Statement]]:
    code = without_comments(source)
    for found in _BEGINNING.finditer(code):
        statement = _read(source, code, found.end())
        if statement is not None:
            yield found.start(), statement


def _read(source: str, code: str, position: int) -> Statement | None:
    """The statement whose literals begin here; ``code`` is the source without comments and literals."""
    text, section, operands = "", 0, list[Operand]()
    while literal := _LITERAL.match(source, position):
        text += literal[1]
        position = literal.end()
    while separator := _SEPARATOR.match(source, position):
        position = separator.end()
        if separator[1] == ")":
            words = re.sub(r"\\[nt]", " ", text).split()
            return Statement(" ".join(words), tuple(operands), separator.end(1))
        section += separator[1] == ":"
        if section == 3 and (clobbered := _LITERAL.match(source, position)):
            position = clobbered.end()
        elif section < 3 and (constraint := _CONSTRAINT.match(source, position)):
            end = _closed(code, constraint.end())
            expression = source[constraint.end() : end]
            if end < 0 or "#" in expression or expression != code[constraint.end() : end]:
                return None
            operands.append(Operand(constraint[1], " ".join(expression.split())))
            position = _SPACE.match(code, end).end()  # type: ignore[union-attr]
    return None


def _closed(code: str, opening: int) -> int:
    """Where the parenthesis that opens here has been closed; -1 if nowhere."""
    depth = 0
    for found in _PARENTHESIS.finditer(code, opening):
        depth += 1 if found[0] == "(" else -1
        if not depth:
            return found.end()
    return -1


def _as_call(statement: Statement) -> str | None:
    """The call for one instruction of ``KNOWN`` with nothing beside it."""
    found = _INSTRUCTION.fullmatch(statement.text)
    if found is None or found[1] not in KNOWN:
        return None
    function, constraints = KNOWN[found[1]]
    arguments = _arguments(statement, [(constraints.split(), found[2] or "")])
    if arguments is None:
        return None
    result = f"{arguments.pop(0)} = " if constraints.startswith("=") else ""
    return f"{result}{function}({', '.join(arguments)})"


def _as_multiplication(statement: Statement) -> str | None:
    found = _MULTIPLICATION.fullmatch(statement.text)
    if found is None or not (0 < int(found["columns"]) <= 256 and int(found["columns"]) % 8 == 0):
        return None
    if found["tile"]:
        function, left, tiles = "emu_wgmma_tiles", (["l"], found["tile"]), 2
    else:
        function, left, tiles = "emu_wgmma_registers", (["r"] * 4, found["registers"]), 1
    factors = _FACTORS[found["factors"]]
    # Only a tile of 16 bits may lie the other way, and says that it does not.
    if found["transposed"].count("0") != (0 if factors == "EMU_TF32" else tiles):
        return None
    sums = (["+f"] * (int(found["columns"]) // 2), found["sums"])
    arguments = _arguments(statement, [(["n"], found["adds"]), left, (["l"], found["b"]), sums])
    return f"{function}({', '.join([factors, found['columns'], *arguments])})" if arguments else None


def _as_copy(statement: Statement) -> str | None:
    found = _COPY.fullmatch(statement.text)
    if found is None:
        return None
    for read in ("r", "n"):
        lists = [(["r"], found["to"]), (["l"], found["from"]), (["n"], found["bytes"])]
        lists += [([read], found["read"])] if found["read"] else []
        arguments = _arguments(statement, lists)
        if arguments is not None:
            return f"emu_cp_async<{str(found['cache'] == 'cg').lower()}>({', '.join(arguments)})"
    return None


def _as_fragments(statement: Statement) -> str | None:
    """A product of matrices that the lanes of a warp hold; sums may be what is added, too."""
    found = _FRAGMENTS.fullmatch(statement.text)
    if found is None or found["type"] not in _OF_A_WARP.get(found["shape"], ()):
        return None
    terms = 4 if found["type"] == "tf32" else 8
    words = int(found["shape"].removeprefix("m16n8k")) // terms
    factors = [(["r"] * 2 * words, found["a"]), (["r"] * words, found["b"])]
    for sums, added in (("=f", "f"), ("+f", "+f"), ("+f", "f")):
        given = [([sums] * 4, found["sums"]), *factors, ([added] * 4, found["added"])]
        arguments = _arguments(statement, given)
        if arguments is not None:
            return f"emu_mma<EMU_{found['type'].upper()}>({', '.join(arguments)})"
    return None


def _as_rows(statement: Statement) -> str | None:
    found = _ROWS.fullmatch(statement.text)
    if found is None:
        return None
    words = ["=r"] * int(found["count"])
    arguments = _arguments(statement, [(["r"], found["from"]), (words, found["words"])])
    turned = "true" if found["turned"] else "false"
    return f"emu_ldmatrix<{turned}>({', '.join(arguments)})" if arguments else None


def _arguments(statement: Statement, lists: Sequence[tuple[Sequence[str], str]]) -> list[str] | None:
    """The expressions of operands, each with the constraint that belongs there; none may be left over."""
    arguments, used = [], set[int]()
    for constraints, names in lists:
        tokens = [name.strip() for name in names.split(",") if name.strip()]
        if len(tokens) != len(constraints):
            return None
        for constraint, token in zip(constraints, tokens, strict=True):
            number = int(token[1:]) if re.fullmatch(r"%\d+", token) else -1
            if 0 <= number < len(statement.operands) and statement.operands[number].constraint == constraint:
                arguments.append(statement.operands[number].expression)
                used.add(number)
            elif constraint == "n" and token.isdigit():
                arguments.append(token)
            else:
                return None
    return arguments if len(used) == len(statement.operands) else None
