"""Statements of one block of CUDA: shared or long subexpressions get a name, the rest is written inline.

Owns the order and naming of intermediate values. Never writes loops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from workbench.playbook.ir.expr import Apply, Const, Expr, Index, Load, Reduction, always_below
from workbench.playbook.ir.operations import BITS_OF, FLOAT_OF, is_float
from workbench.playbook.text.cuda_text import CTYPES, Text, number, spell
from workbench.playbook.text.names import Macros, Names

_LONGEST = 72
"""Characters an inline expression may have before a part of it gets a name."""
_STEMS = {
    "sub": "difference", "add": "total", "mul": "product", "div": "ratio", "exp": "exponential",
    "log": "logarithm", "sqrt": "root", "rsqrt": "inverse_root", "where": "chosen", "larger": "clipped",
    "smaller": "clipped", "select": "piece", "neg": "negated", "cast": "value", "tanh": "hyperbolic",
    "abs": "magnitude", "pow": "power", "exp2": "power", "quotient": "ratio", "over": "ratio",
    "over_shared": "ratio", "usual_scale": "scale",
    **dict.fromkeys(BITS_OF, "bits"), **dict.fromkeys(FLOAT_OF, "value"),
}  # fmt: skip

_CALLS = frozenset(
    (
        "exp", "exp2", "expm1", "log", "log2", "log1p", "sin", "cos", "tan", "tanh", "sqrt", "rsqrt", "pow",
        "erf",
    )
)  # fmt: skip
"""Operations that are tens of instructions, of which a compiler writes each call out."""

Leaf = Callable[[Expr], Text]


class Scope:
    """One block. ``leaf`` spells loads and indices; ``bound`` holds names made outside it."""

    def __init__(
        self, leaf: Leaf, names: Names, macros: Macros, fast: bool, bound: Mapping[int, Text] | None = None
    ) -> None:
        self.lines: list[str] = []
        self.bound: dict[int, Text] = dict(bound or {})
        self._leaf = leaf
        self._names = names
        self._macros = macros
        self._fast = fast
        self._in_branch = False

    def prepare(self, roots: Iterable[Expr]) -> None:
        """Name what several places of ``roots`` share."""
        roots = tuple(roots)
        for expr in self._same_everywhere(roots):
            self.name(expr)
        uses = Counter(root.serial for root in roots)
        below = {expr.serial: expr for expr in self._open(*roots, guarded=False)}
        for expr in below.values():
            uses.update(operand.serial for operand in always_below(expr))
        for serial in sorted(below):
            expr = below[serial]
            if uses[serial] > 1 and serial not in self.bound and self._worth_a_name(expr):
                self.name(expr)

    def _same_everywhere(self, roots: tuple[Expr, ...]) -> list[Expr]:
        """Calls on what is the first element of a tensor for everybody, that several places read.

        They get a name also where only branches read them: the sine of an angle that is a parameter is one
        call, and not one in each corner of the matrix that it is part of.
        """
        below = list(self._open(*roots))
        uses = Counter(operand.serial for expr in below for operand in expr.operands)
        same: set[int] = set()
        for expr in below:
            match expr:
                case Const():
                    same.add(expr.serial)
                case Load(view=view, lookups=()) if view.is_constant and view.offset.is_zero:
                    same.add(expr.serial)
                case Apply(args=args) if all(arg.serial in same for arg in args):
                    same.add(expr.serial)
        return [
            expr
            for expr in below
            if isinstance(expr, Apply)
            and expr.op in _CALLS
            and expr.serial in same
            and expr.serial not in self.bound
            and uses[expr.serial] > 1
            and any(isinstance(part, Load) for part in self._open(expr))
        ]

    def name(self, expr: Expr, stem: str = "") -> Text:
        """Write a statement that gives ``expr`` a name."""
        text = self.text(expr)
        name = self._names.new(stem or stem_of(expr))
        self.bound[expr.serial] = self.declare(expr, name, text.code)
        return self.bound[expr.serial]

    def declare(self, expr: Expr, name: str, code: str) -> Text:
        """Write the statement that gives a value its name; how it is called from then on.

        A constant integer may be one that the compiler knows: in a template NVRTC asks all that it is made
        of, once for every way there. Fifteen comparisons in a chain of choices took minutes.
        """
        const = "const " if is_float(expr.dtype) else ""
        self.lines += statement(f"{const}{CTYPES[expr.dtype]} {name} = {code};")
        return Text(name)

    def text(self, expr: Expr) -> Text:
        """The expression inline; long ones write statements for their longest parts first."""
        done: dict[int, Text] = {}
        always = set() if self._in_branch else {part.serial for part in self._open(expr, guarded=False)}
        for part in self._open(expr):
            if part.serial not in self.bound:
                done[part.serial] = self._spelled(part, done, part.serial in always)
        return self.bound.get(expr.serial) or done[expr.serial]

    def _spelled(self, part: Expr, done: dict[int, Text], always: bool) -> Text:
        if isinstance(part, Const):
            if isinstance(part.value, str):
                return Text(self._macros.read(part.value))
            return number(part.value, part.dtype)
        if not isinstance(part, Apply):
            return self._leaf_text(part, always)
        text = self._combined(part, done)
        while always and part.op != "select" and len(text.code) > _LONGEST:
            longest = max(part.args, key=lambda arg: len(self._known(arg, done).code))
            if longest.serial in self.bound or not isinstance(longest, Apply):
                break
            name = self._names.new(stem_of(longest))
            self.bound[longest.serial] = self.declare(longest, name, done[longest.serial].code)
            text = self._combined(part, done)
        return text

    def _leaf_text(self, part: Expr, always: bool) -> Text:
        """A load may look its index up, and that is read only where the load is: no statement before it."""
        outer, self._in_branch = self._in_branch, self._in_branch or not always
        try:
            return self._leaf(part)
        finally:
            self._in_branch = outer

    def _combined(self, part: Apply, done: dict[int, Text]) -> Text:
        first, *others = (self._known(arg, done) for arg in part.args)
        if others and all(
            _is_real_size(arg) for arg in part.args
        ):  # whole numbers to C++, which drops the rest
            first = Text(f"{CTYPES[part.args[0].dtype]}({first.code})")
        return spell(part, (first, *others), self._fast)

    def _known(self, expr: Expr, done: dict[int, Text]) -> Text:
        return self.bound.get(expr.serial) or done[expr.serial]

    def _open(self, *roots: Expr, guarded: bool = True) -> Iterable[Expr]:
        """What has to be written for ``roots``: everything below them that has no name yet.

        Without ``guarded``, only what is evaluated whichever branch a ``select`` takes.
        """
        found: list[Expr] = []
        seen: set[int] = set()
        stack: list[tuple[Expr, bool]] = [(root, False) for root in reversed(roots)]
        while stack:
            expr, ready = stack.pop()
            if ready:
                found.append(expr)
            elif expr.serial not in seen:
                seen.add(expr.serial)
                stack.append((expr, True))
                if expr.serial not in self.bound:
                    below = expr.operands if guarded else always_below(expr)
                    stack.extend((operand, False) for operand in reversed(below))
        return found

    def _worth_a_name(self, expr: Expr) -> bool:
        if isinstance(expr, Apply):
            return expr.op != "cast" or not isinstance(expr.args[0], Const)
        return isinstance(expr, (Load, Index))


def statement(code: str) -> list[str]:
    """A statement on one line, or a long choice on three."""
    if len(code) <= _LONGEST + 24 or code.count(" ? ") != 1:
        return [code]
    condition, branches = code.split(" ? ")
    yes, no = branches.split(" : ")
    return [condition, f"    ? {yes}", f"    : {no}"]


def stem_of(expr: Expr) -> str:
    """A word for a value."""
    match expr:
        case Load(buffer=buffer):
            return f"{buffer}_value"
        case Index():
            return "position"
        case Reduction(op=op, body=body):
            return f"{_short(body)}_{op}"
        case Apply(op="mul", args=(left, right)) if left is right:
            return "square"
        case Apply(op="div", args=(Reduction(op="sum", body=body), Const(value=str()))):
            return f"{_short(body)}_mean"
        case Apply(op="div" | "quotient", args=(Const(value=1.0), _)):
            return "inverse"
        case Apply(op="larger" | "smaller" as op, args=args) if not any(isinstance(a, Const) for a in args):
            return "lower" if op == "smaller" else "upper"
        case Apply(op=op):
            return _STEMS.get(op, op if len(op) > 4 else f"{op}_value")
    return "value"


def _short(body: Expr) -> str:
    words = {"exponential": "exp", "difference": "difference", "product": "product"}
    match body:
        case Load(buffer=buffer):
            return buffer
        case Apply(op="cast", args=(inner,)):
            return _short(inner)
        case Apply():
            stem = stem_of(body)
            return words.get(stem, stem.removesuffix("_value"))
    return "value"


def _is_real_size(expr: Expr) -> bool:
    """True for a size that is computed with as a float, though its name stands for a whole number."""
    return isinstance(expr, Const) and isinstance(expr.value, str) and is_float(expr.dtype)
