"""A program with complex numbers as one with none: each part a tensor of its own.

Owns how a program in core operations is run on parts; complex_rules.py has what each operation is in them.
Runs in a worker child.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.experimental.symbolic_shapes import PropagateUnbackedSymInts
from torch.utils._pytree import tree_map

from workbench.errors import ProblemError
from workbench.problem.complex_parts import HALF_DTYPES, Pairs, Parts, of_pairs
from workbench.problem.complex_rules import RULES
from workbench.problem.lines import line_of_stack

aten = torch.ops.aten


def has_complex(graph: fx.Graph) -> bool:
    """Whether any value of a graph is complex."""
    return any(_is_complex(value) for node in graph.nodes for value in _flat(node.meta.get("val")))


class InParts(PropagateUnbackedSymInts):
    """Runs a graph, in core operations, on parts. Its inputs and outputs are real.

    Raises ``ProblemError``, with the person's line, for an operation that has no rule here.
    """

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.extra_traceback = False  # a person's error is a sentence, without the graph's own words

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An input; a constant that is complex comes as pairs."""
        given = super().placeholder(target, args, kwargs)
        if not _is_complex(self._node.meta.get("val")):
            return given
        return of_pairs(given)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        made = self._node.meta.get("val")
        half = _half_of_pairs(target, args)
        if half is not None:
            return half
        args, kwargs = tree_map(_put_together, args), tree_map(_put_together, kwargs)
        given = [value for value in _flat((args, tuple(kwargs.values()))) if isinstance(value, Parts)]
        if not given and not any(map(_is_complex, _flat(made))):
            return super().call_function(target, args, kwargs)
        name = str(target).removeprefix("aten.").partition(".")[0]
        rule = RULES.get(name)
        if rule is None:
            raise ProblemError(
                f"{self._where}{_as_written(name)} of complex numbers is not supported. "
                "Write this step with real and imaginary parts."
            )
        return _as_traced(rule(target, args, kwargs), made)

    def output(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return super().output(target, tree_map(_returned, args), kwargs)

    def run_node(self, n: fx.Node) -> Any:
        self._node = n
        return super().run_node(n)

    @property
    def _where(self) -> str:
        line = line_of_stack(self._node.meta.get("stack_trace") or "")
        return f"line {line}: " if line else ""


def _half_of_pairs(target: Any, args: tuple[Any, ...]) -> Any:
    """``x.real`` and ``x.imag``, which a program has as one of each pair, and complex numbers of pairs."""
    if not args or not isinstance(args[0], Pairs):
        return None
    if target is aten.view_as_complex.default:
        return args[0].parts
    if target is aten.select.int and args[1] in (-1, len(args[0].parts.shape)) and args[2] in (0, 1):
        return args[0].parts.both[args[2]]
    return None


def _put_together(value: Any) -> Any:
    return value.tensor if isinstance(value, Pairs) else value


def _returned(value: Any) -> Any:
    return _put_together(Pairs(value) if isinstance(value, Parts) else value)


def _flat(value: Any) -> list[Any]:
    return [one for part in value for one in _flat(part)] if isinstance(value, list | tuple) else [value]


def _as_written(name: str) -> str:
    """``linalg_solve`` of ``_linalg_solve_ex``, the operation that torch makes of it."""
    return name.removeprefix("_").removesuffix("_ex")


def _is_complex(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype.is_complex


def _as_traced(made: Any, seen: Any) -> Any:
    """Parts as wide as the complex result that was traced, and of one shape."""
    if not isinstance(made, Parts) or not _is_complex(seen):
        return made
    dtype = HALF_DTYPES.get(seen.dtype, torch.float16)
    if made.pairs is not None and made.pairs.dtype == dtype:
        return made
    re, im = (h.to(dtype) if isinstance(h, Tensor) and h.dtype != dtype else h for h in (made.re, made.im))
    if isinstance(re, Tensor) and isinstance(im, Tensor) and re.shape != im.shape:
        shape = torch.broadcast_shapes(re.shape, im.shape)  # type: ignore[no-untyped-call]
        return Parts(re.expand(shape), im.expand(shape))
    return Parts(re, im)
