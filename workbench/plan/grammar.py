"""Which Python a plan may be written in: a list of what is allowed, and words for what is not.

Owns the static check of the syntax tree. Never evaluates anything.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from workbench.errors import nearest
from workbench.plan.limits import INT_BITS, NESTING, STRING_CHARS
from workbench.plan.vocabulary import CALLS, CARD_FACTS, RESERVED, TENSOR_FACTS

Complaint = tuple[ast.AST, str]

_ALLOWED: tuple[type[ast.AST], ...] = (
    ast.FunctionDef, ast.arguments, ast.arg, ast.Assign, ast.AugAssign, ast.If, ast.For, ast.Return,
    ast.Expr, ast.Pass, ast.Break, ast.Continue, ast.Constant, ast.Name, ast.BinOp, ast.UnaryOp,
    ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.keyword, ast.Attribute, ast.Subscript, ast.Slice,
    ast.Tuple, ast.List, ast.Dict, ast.JoinedStr, ast.FormattedValue,
    ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip

_COMPREHENSION = "a comprehension is not part of the plan language: write a for loop with +="
_FACT_OF_METHOD: Mapping[str, str] = {
    "size": "x.shape[0], or rows, cols = x.shape",
    "dim": "x.ndim",
    "numel": "x.numel",
    "nelement": "x.numel",
    "stride": "x.strides[0]",
    "element_size": "x.itemsize",
    "is_contiguous": "x.is_contiguous",
    "view": "view(x, shape)",
    "reshape": "view(x, shape)",
}
"""What torch's methods are called here."""
_INSTEAD: Mapping[str, str] = {
    "Import": "import is not part of the plan language: everything a plan may call is already there",
    "ImportFrom": "import is not part of the plan language: everything a plan may call is already there",
    "While": "while is not part of the plan language: write for i in range(n)",
    "Lambda": "lambda is not part of the plan language: write the expression where it is used",
    "ClassDef": "class is not part of the plan language: a plan is one function",
    "AsyncFunctionDef": "async is not part of the plan language: write def plan(...)",
    "Try": "try is not part of the plan language: use require(condition, reason)",
    "TryStar": "try is not part of the plan language: use require(condition, reason)",
    "With": "with is not part of the plan language",
    "AsyncWith": "with is not part of the plan language",
    "AsyncFor": "async is not part of the plan language",
    "Raise": "raise is not part of the plan language: use require(condition, reason)",
    "Assert": "assert is not part of the plan language: use require(condition, reason)",
    "Delete": "del is not part of the plan language: buffers end with the plan",
    "Global": "global is not part of the plan language",
    "Nonlocal": "nonlocal is not part of the plan language",
    "Match": "match is not part of the plan language: write if and elif",
    "AnnAssign": "annotations are not part of the plan language: leave the type out",
    "NamedExpr": ":= is not part of the plan language: assign on a line of its own",
    "Starred": "* is not part of the plan language: write the elements out, or join tuples with +",
    "Await": "await is not part of the plan language",
    "Yield": "yield is not part of the plan language: use return",
    "YieldFrom": "yield is not part of the plan language: use return",
    "ListComp": _COMPREHENSION,
    "SetComp": _COMPREHENSION,
    "DictComp": _COMPREHENSION,
    "GeneratorExp": _COMPREHENSION,
    "Set": "a set is not part of the plan language: write a tuple",
    "MatMult": '@ is not part of the plan language: use library("aten.mm", a, b)',
}


def check(function: ast.FunctionDef) -> Iterator[Complaint]:
    """Everything in the plan that the language does not have, in the order of the text."""
    known = _names_given(function)
    pending: list[tuple[ast.AST, int]] = [(function, 0)]
    while pending:
        node, depth = pending.pop()
        if depth > NESTING:
            yield node, f"nested more than {NESTING} deep: name a part of it on a line of its own"
            return
        complaint = _check_node(node, known, function)
        if complaint:
            yield complaint
        else:
            children = [(child, depth + 1) for child in ast.iter_child_nodes(node)]
            pending.extend(reversed(children))


def instead(node: ast.AST) -> str:
    """What to write in place of a construct the language does not have; empty for one that it has."""
    if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
        node = node.op
    elif isinstance(node, _ALLOWED):
        return ""
    kind = type(node).__name__
    return _INSTEAD.get(kind, f"{kind} is not part of the plan language")


def _names_given(function: ast.FunctionDef) -> frozenset[str]:
    """Parameters and every name the plan assigns somewhere."""
    parameters = {a.arg for a in function.args.args}
    stored = (n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return frozenset(parameters.union(stored))


def _check_node(node: ast.AST, known: frozenset[str], function: ast.FunctionDef) -> Complaint | None:
    refused = instead(node)
    if refused:
        return node, refused
    match node:
        case ast.FunctionDef():
            return _check_function(node, function)
        case ast.Name():
            return _check_name(node, known)
        case ast.Constant(value=value):
            message = _check_constant(value)
            return (node, message) if message else None
        case ast.Attribute():
            return _check_attribute(node)
        case ast.Call():
            return _check_call(node)
        case ast.FormattedValue() if node.format_spec is not None or node.conversion != -1:
            return node, "a format after : or ! is not part of the plan language: write {value}"
        case ast.Assign(targets=targets):
            return next(filter(None, (_check_target(t) for t in targets)), None)
        case ast.For() if node.orelse:
            return node.orelse[0], "else after for is not part of the plan language"
        case ast.For(target=target) | ast.AugAssign(target=target):
            return _check_target(target, tuples=isinstance(node, ast.For))
        case ast.Expr(value=value) if not isinstance(value, ast.Call | ast.Constant):
            return node, "this line has no effect: assign it to a name or leave it out"
        case ast.Dict(keys=keys) if None in keys:
            return node, "** is not part of the plan language: join dicts with |"
    return None


def _check_function(node: ast.FunctionDef, plan: ast.FunctionDef) -> Complaint | None:
    if node is not plan:
        return node, "def inside the plan is not part of the plan language: write it out, or use a for loop"
    if node.decorator_list:
        return node.decorator_list[0], "a decorator is not part of the plan language"
    args = node.args
    if args.vararg or args.kwarg or args.kwonlyargs or args.posonlyargs:
        extra = args.vararg or args.kwarg or node
        return extra, "name every parameter of the plan after a tensor of the problem, without * or /"
    if args.defaults:
        return args.defaults[0], "a parameter of the plan has no default: it is always given a tensor"
    annotated = next((a for a in args.args if a.annotation), None)
    if annotated or node.returns:
        return annotated or node, "annotations are not part of the plan language: leave the type out"
    return None


def _check_name(node: ast.Name, known: frozenset[str]) -> Complaint | None:
    name = node.id
    if isinstance(node.ctx, ast.Store):
        if name.startswith("__"):
            return node, f"{name!r} is not a name for a plan: start it with a letter"
        return (
            (node, f"{name!r} is a word of the plan language: choose another name")
            if (name in RESERVED)
            else None
        )
    if name in known or name in RESERVED:
        return None
    return node, f"unknown name {name!r}.{nearest(name, sorted(known | RESERVED))}"


def _check_constant(value: object) -> str | None:
    match value:
        case None | bool() | float():
            return None
        case int() if value.bit_length() <= INT_BITS:
            return None
        case int():
            return f"an integer of more than {INT_BITS} bits: no size needs it"
        case str() if len(value) <= STRING_CHARS:
            return None
        case str():
            return f"a string of {len(value)} characters; {STRING_CHARS} are allowed"
    return f"{type(value).__name__} is not a value of the plan language"


def _check_attribute(node: ast.Attribute) -> Complaint | None:
    if node.attr in TENSOR_FACTS or node.attr in CARD_FACTS:
        return None
    guess = nearest(node.attr, (*TENSOR_FACTS, *CARD_FACTS))
    return (
        node,
        f"there is no fact {node.attr!r}.{guess or ' A tensor has: ' + ', '.join(TENSOR_FACTS) + '.'}",
    )


def _check_call(node: ast.Call) -> Complaint | None:
    unpacked = next((k for k in node.keywords if k.arg is None), None)
    if unpacked:
        return unpacked.value, "** is not part of the plan language: write the arguments out"
    match node.func:
        case ast.Name(id=name) if name in CALLS:
            return None
        case ast.Name(id=name):
            return node, f"unknown call {name}().{nearest(name, CALLS)} A plan may call: {', '.join(CALLS)}."
        case ast.Attribute(attr=attr):
            return node, f"methods cannot be called, {attr}() neither: {_instead_of_method(attr)}"
    return node, f"only names can be called: {', '.join(CALLS)}"


def _instead_of_method(name: str) -> str:
    if name in CALLS:
        return f"write {name}(...) without a name and a dot before it"
    if fact := _FACT_OF_METHOD.get(name):
        return f"write {fact}"
    return f"a plan may call {', '.join(CALLS)}"


def _check_target(target: ast.AST, tuples: bool = True) -> Complaint | None:
    match target:
        case ast.Name():
            return None
        case ast.Tuple(elts=elements) | ast.List(elts=elements) if tuples:
            return next(filter(None, (_check_target(e) for e in elements)), None)
        case ast.Subscript():
            return target, "tuples, lists and dicts cannot be changed in place: build a new one with + or |"
        case ast.Attribute():
            return target, "a fact cannot be changed: assign to a name of your own"
        case ast.Starred():
            return target, _INSTEAD["Starred"]
    return target, "only a name can be assigned to"
