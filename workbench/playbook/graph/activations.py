"""Activations that the library applies to a product's sums before it writes them: ReLU, and GELU by a tanh.

A 16-bit product that only another library call reads has a kernel of its own behind it for bias and
activation, which reads and writes all of it once more. cuBLASLt does both in the product's epilogue, torch's
``_addmm_activation``. On an H100 (torch 2.11) a product of 4096 x 768 with 768 x 3072 in bfloat16 takes 34 us
alone, 36 with a ReLU and 39 with a GELU; eager's two calls take 52.

Owns the rule; rewrites.py owns its name. Which function it is, is found by its values, never by its name:
people write GELU out in many ways.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from workbench.model import Arg, Dim, OpNode, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import GraphEdit, shape_of
from workbench.playbook.graph.rows_of_products import added, only_for_calls
from workbench.playbook.ir.sizes import Size
from workbench.playbook.ir.sizes import product as product_of

_CONVERT, _VIEW = "prims.convert_element_type.default", "aten.view.default"
_CASTS = frozenset([_CONVERT, "aten._to_copy.default"])
_LAST = frozenset(["aten.relu.default", "aten.mul.Tensor", "aten.clamp.default", *_CASTS])
"""What an activation may end with."""
_POINTS = (-3e38, -1e4, -29.0, -5.3, -2.1, -1.0, -0.37, 0.0, 0.21, 0.74, 1.6, 3.9, 7.5, 31.0, 1e4, 3e38)
"""Large ones too: ``relu6`` is ``relu`` below 6."""
_ALIKE = 1e-6
_MOST_STEPS = 32
"""Operations looked at: a GELU has some dozen."""


def _gelu_by_tanh(x: float) -> float:
    return 0.5 * x * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


_ACTIVATIONS: tuple[tuple[Callable[[float], float], bool], ...] = (
    (lambda x: max(x, 0.0), False),
    (_gelu_by_tanh, True),
)
"""Each with what ``use_gelu`` is."""


def activation_in_product(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """``relu(mm(a, b) + bias)`` in one call, where nothing but library calls and outputs follows.

    Anywhere else both are free: they are fused into the kernel that follows.
    """
    out = node.outs[0]
    if node.op not in _LAST or out.dtype not in ("f16", "bf16") or not only_for_calls(edit, node):
        return None
    walk = _Walk(edit, node)
    if not walk.begin():
        return None
    assert walk.product is not None and walk.bias is not None
    gelu = next((tanh for function, tanh in _ACTIVATIONS if walk.is_like(function)), None)
    if gelu is None:
        return None
    spec = OutputSpec(dtype=out.dtype, dims=walk.product.outs[0].dims)
    args = (walk.bias, *walk.product.args)
    made = edit.add("aten._addmm_activation.default", args, spec, f"{node.name}_rows", (("use_gelu", gelu),))
    update = {"op": _VIEW, "args": (made, shape_of(out.dims)), "kwargs": ()}
    return node.model_copy(update=update)


class _Walk:
    """From an activation's last operation down to the one biased product that it is of."""

    def __init__(self, edit: GraphEdit, node: OpNode) -> None:
        self._edit, self._node = edit, node
        self._seen: dict[str, OpNode] = {}
        self._source = ""
        """The rounded sum of product and bias."""
        self.product: OpNode | None = None
        self.bias: Ref | None = None

    def begin(self) -> bool:
        """True where all that is read comes from one biased product, and nobody else reads on the way."""
        if not self._down(self._node) or not self._source:
            return False
        own = set(self._seen)
        inner = [node for name, node in self._seen.items() if name != self._node.name]
        return all(user is not None and user.name in own for node in inner for user in self._edit.users(node))

    def _down(self, node: OpNode) -> bool:
        if node.name in self._seen:
            return True
        if len(self._seen) > _MOST_STEPS or not self._is_step(node):
            return False
        self._seen[node.name] = node
        if self._is_source(node):
            return True
        below = [self._edit.made(arg) for arg in node.args if isinstance(arg, Ref)]
        if node.op not in _STEPS or not below:
            return False
        return all(one is not None and self._down(one) for one in below)

    def _is_step(self, node: OpNode) -> bool:
        """True for as many floats as the product has: nothing is repeated, and nothing left out."""
        out = node.outs[0]
        kwargs = {name for name, _ in node.kwargs} - ({"dtype"} if node.op in _CASTS else set())
        whole = self._count(self._node.outs[0].dims)
        return not kwargs and out.dtype in _FLOATS and self._count(out.dims) == whole

    def _count(self, dims: tuple[Dim, ...]) -> Size:
        return product_of(self._edit.sizes.read(dim) for dim in dims)

    def _is_source(self, node: OpNode) -> bool:
        given = added(self._edit, node)
        if given is None:
            return False
        first, second = given
        if second.ref not in self._edit.given:
            first, second = second, first
        if second.ref not in self._edit.given:
            return False
        product, bias = self._edit.made(first), second
        while product is not None and product.op == _VIEW and len(self._edit.users(product)) == 1:
            product = self._edit.made(product.args[0])
        dtype = self._node.outs[0].dtype
        if product is None or product.op != "aten.mm.default" or len(self._edit.users(product)) > 1:
            return False
        columns = product.outs[0].dims[-1:]
        same = {self._edit.spec(bias).dtype, product.outs[0].dtype, node.outs[0].dtype} == {dtype}
        if not same or self._edit.spec(bias).dims != columns or 1 in product.outs[0].dims:
            return False
        if self._source not in ("", node.name):
            return False
        self._source, self.product, self.bias = node.name, product, bias
        return True

    def is_like(self, function: Callable[[float], float]) -> bool:
        """True where the activation is this function, at some points."""
        try:
            pairs = [(self._value(Ref(ref=self._node.name), x, {}), function(x)) for x in _POINTS]
        except (ArithmeticError, ValueError, TypeError):
            return False
        return all(abs(value - wanted) <= _ALIKE * (1.0 + abs(wanted)) for value, wanted in pairs)

    def _value(self, arg: Arg, x: float, known: dict[str, float]) -> float:
        if isinstance(arg, int | float):
            return float(arg)
        if not isinstance(arg, Ref):
            raise ValueError("neither a number nor a tensor")
        if arg.ref == self._source:
            return x
        if arg.ref not in known:
            node = self._seen[arg.ref]
            operands = node.args[:1] if node.op in _AS_IT_IS else node.args
            known[arg.ref] = _STEPS[node.op](*[self._value(one, x, known) for one in operands])
        return known[arg.ref]


def _itself(x: float) -> float:
    return x


_FLOATS = ("f16", "bf16", "f32", "f64")
_AS_IT_IS = _CASTS | {_VIEW}
_STEPS: dict[str, Callable[..., float]] = {
    **dict.fromkeys(_AS_IT_IS, _itself),
    "aten.relu.default": lambda x: max(x, 0.0),
    "aten.clamp.default": lambda x, low, high=math.inf: min(max(x, low), high),
    "aten.mul.Tensor": lambda x, y: x * y,
    "aten.add.Tensor": lambda x, y: x + y,
    "aten.sub.Tensor": lambda x, y: x - y,
    "aten.div.Tensor": lambda x, y: x / y,
    "aten.tanh.default": math.tanh,
    "aten.pow.Tensor_Scalar": math.pow,
}
"""What activations are made of. Roundings to 16 bits on the way are left out."""
