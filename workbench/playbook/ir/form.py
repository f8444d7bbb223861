"""What a kernel does, whatever its tensors are called: a network has the same kernel many times.

Owns that notion of sameness. Pure; never estimates or prints anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.playbook.ir.expr import Apply, Const, Expr, Index, Load, Reduction, walk_all
from workbench.playbook.ir.program import Buffer, Kernel, Store

Form = tuple[object, ...]


class _Numbers:
    """Tensors and expressions by number, in the order they are met."""

    def __init__(self, buffers: Mapping[str, Buffer]) -> None:
        self._buffers = buffers
        self._tensors: dict[str, int] = {}
        self._places: dict[int, int] = {}
        self.met: list[Form] = []
        """Of each tensor its kind, and of each expression what it is made of."""

    def tensor(self, name: str) -> int:
        if name not in self._tensors:
            buffer = self._buffers[name]
            self._tensors[name] = len(self._tensors)
            self.met.append((buffer.dtype, buffer.shape, buffer.role, buffer.strides))
        return self._tensors[name]

    def place(self, root: Expr) -> int:
        for expr in walk_all((root,), into_reductions=True):
            if expr.serial not in self._places:
                record = self._record(expr)
                self._places[expr.serial] = len(self._places)
                self.met.append(record)
        return self._places[root.serial]

    def _record(self, expr: Expr) -> Form:
        match expr:
            case Const(dtype=dtype, value=value):
                return (dtype, repr(value))
            case Load(buffer=buffer, view=view, lookups=lookups):
                found = tuple((self.place(index), stride) for index, stride in lookups)
                return (self.tensor(buffer), view, found)
            case Index(dtype=dtype, view=view):
                return (dtype, view)
            case Apply(dtype=dtype, op=op, args=args):
                return (dtype, op, *(self._places[arg.serial] for arg in args))
            case Reduction(dtype=dtype, op=op, body=body, rows=rows, columns=columns, view=view):
                return (dtype, op, self._places[body.serial], rows, columns, view)
        raise AssertionError(expr)

    def stores(self, stores: Sequence[Store]) -> Form:
        return tuple(
            (self.place(one.value), self.tensor(one.buffer), one.view, one.rows, one.columns, one.level)
            for one in stores
        )

    def kernel(self, kernel: Kernel) -> Form:
        steps = kernel.steps
        return (
            self.stores(kernel.stores),
            *(None if one is None else self.kernel(one) for one in (kernel.tail, kernel.ahead)),
            tuple(map(self.kernel, kernel.parts)),
            tuple(map(self.kernel, kernel.tables)),
            steps
            and (tuple(map(self.kernel, steps.kernels)), steps.rows, tuple(map(self.tensor, steps.kept))),
        )


def form_of(kernel: Kernel, buffers: Mapping[str, Buffer]) -> Form:
    """Equal for two kernels that do the same with tensors of the same types, shapes, strides and roles."""
    numbers = _Numbers(buffers)
    own = numbers.kernel(kernel)
    return (own, tuple(numbers.met))
