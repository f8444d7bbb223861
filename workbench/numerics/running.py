"""Interprets a problem's graph in float64 with a running error beside every value.

Owns the walk over the graph and the choice of a rule for each operation; the rules live in
pointwise, reductions, linear and movement. An operation without a rule is bounded by what it does
to values that are moved a little, and named in ``unknown``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import torch
from torch import Tensor

from workbench.model import Arg, Contract, DType, Graph, OpNode, Ref
from workbench.model.aten_names import COMPARED, RECURRENT
from workbench.model.systems import system_of
from workbench.numerics import choices, linear, movement, reductions, sampling, systems
from workbench.numerics.choices import is_left_open
from workbench.numerics.dtypes import TORCH, UNIT, accumulate_unit, is_float, name_of
from workbench.numerics.log_sums import LogSums
from workbench.numerics.operators import argument, free_of_layout, last_read, operator
from workbench.numerics.peaks import Peaks
from workbench.numerics.places import place_among
from workbench.numerics.pointwise import POINTWISE, pointwise
from workbench.numerics.recurrences import recurrent
from workbench.numerics.spectra import transformed
from workbench.numerics.sums_of_products import SumsOfProducts
from workbench.numerics.tracked import Tracked, deviation, exact, rounded
from workbench.plan.spectra import TAKES_COMPLEX

Result = Tracked | tuple[Tracked, ...]
PROBE_SAFETY = 4.0
CUBIC = 2
"""``grid_sample``'s number of a mode whose weights may be negative."""


@dataclass
class Running:
    """One interpretation; ``unknown`` collects the operations that had no rule."""

    sizes: Mapping[str, int]
    contract: Contract = "ieee-fp32"
    unknown: list[str] = field(default_factory=list)
    left_open: bool = False
    """Whether several values were put at one place, or an element was chosen among equal ones: which of them,
    each run decides anew."""
    results: dict[str, Result] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    """Results that depend on no tensor, in the reference's own precision."""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """Of the tensors, and of what is made from sizes alone."""

    def __post_init__(self) -> None:
        self._products = SumsOfProducts(self.sizes)
        self._peaks = Peaks()
        self._log_sums = LogSums()

    def outputs(self, graph: Graph, tensors: Mapping[str, Tensor], keep: bool = True) -> tuple[Tracked, ...]:
        """Interpret the graph on exact inputs. Raises whatever torch raises for a broken graph.

        Without ``keep`` a result goes once its last reader has it: a deep network has hundreds.
        """
        self.begin(tensors)
        going = {} if keep else last_read(graph)
        for node in graph.nodes:
            self.step(node)
            self.forget(going.get(node.name, ()))
        return tuple(map(self.of, graph.outputs))

    def begin(self, tensors: Mapping[str, Tensor]) -> None:
        """Take exact inputs."""
        self.device = next((t.device for t in tensors.values()), self.device)
        self.results.update({name: exact(t, name_of(t.dtype)) for name, t in tensors.items()})

    def step(self, node: OpNode) -> None:
        """Interpret one node, whose operands are there."""
        self._peaks.note(node, self._argument)
        self._log_sums.note(node)
        with torch.no_grad():
            self.results[node.name] = self.apply(node)

    def forget(self, names: Iterable[str]) -> None:
        """Let results go."""
        for name in names:
            self.results.pop(name, None)
            self._products.forget(name)

    def apply(self, node: OpNode) -> Result:
        """The node's result; whole numbers made from sizes alone, such as the indices of an upsampling,
        are what the reference makes of them: a kernel that finds others computes something else."""
        result = self._products.seen(node, self._ruled(node), self.of)
        if self._is_constant(node.args) and self._is_constant(tuple(value for _, value in node.kwargs)):
            own = movement.placed(
                operator(free_of_layout(node.op))(
                    *[self._native(a) for a in node.args], **{k: self._native(v) for k, v in node.kwargs}
                ),
                self.device,
            )
            self.constants[node.name] = own
            if isinstance(own, Tensor) and isinstance(result, Tracked) and not is_float(result.dtype):
                return exact(own, result.dtype)
        return result

    def _is_constant(self, arg: Arg) -> bool:
        if isinstance(arg, tuple):
            return all(self._is_constant(item) for item in arg)
        return not isinstance(arg, Ref) or arg.ref in self.constants

    def _native(self, arg: Arg) -> Any:
        if isinstance(arg, Ref):
            found = self.constants[arg.ref]
            return found[arg.item] if isinstance(found, tuple) and arg.item is not None else found
        return [self._native(a) for a in arg] if isinstance(arg, tuple) else self._argument(arg)

    def _ruled(self, node: OpNode) -> Result:
        name, op = node.base_name, operator(free_of_layout(node.op))
        args = [self._argument(a) for a in node.args]
        kwargs = {key: self._argument(value) for key, value in node.kwargs}
        dtype = node.outs[0].dtype
        tracked = (one for one in _operands(args) if isinstance(one, Tracked))
        self.left_open = self.left_open or any(map(is_left_open, tracked))
        rule = _RULES.get(name)
        if rule is not None:
            return rule(self, op, args, kwargs, dtype)
        if name in TAKES_COMPLEX:
            return transformed(name, op, args, dtype)
        if name in movement.CREATIONS:
            kwargs.pop("dtype", None)
            return movement.created(op, args, kwargs, dtype, self.device)
        if name in movement.MOVES:
            return movement.move(name, op, args, kwargs, dtype)
        if name in POINTWISE:
            made = self._log_sums.settled(
                node, pointwise(name, op, args, kwargs, dtype), self._tensor, self._again
            )
            if name not in COMPARED:
                return made
            return self._peaks.settled(node, made, self._tensor)
        probed: Result = _probed(op, args, kwargs, tuple(out.dtype for out in node.outs))
        if (system := system_of(node)) is not None:
            results = probed if isinstance(probed, tuple) else (probed,)
            sides = None if system.sides is None else self.of(system.sides)
            return systems.settled(system, results, self.of(system.matrix), sides)
        self.unknown.append(node.op)
        return probed

    def _again(self, nodes: Sequence[OpNode], given: Mapping[str, Tracked]) -> Tracked | None:
        """What the last of some nodes comes to with some results in the place of others."""
        inner = Running(self.sizes, self.contract, device=self.device)
        inner.results.update(given)
        for node in nodes:
            inner.step(node)
        return inner._tensor(nodes[-1].name)

    def _tensor(self, name: str) -> Tracked | None:
        """A first result that is still there."""
        found = self.results.get(name)
        return found[0] if isinstance(found, tuple) else found

    def _argument(self, arg: Arg) -> Any:
        return argument(arg, self.of, self.sizes)

    def of(self, ref: Ref) -> Tracked:
        """A result, once ``outputs`` has been there."""
        result = self.results[ref.ref]
        if isinstance(result, tuple):
            return result[ref.item or 0]
        return result


# ------------------------------------------------------------------------------------ rules by name

Rule = Callable[[Running, Any, list[Any], dict[str, Any], DType], Result]


def _get(args: list[Any], kwargs: dict[str, Any], position: int, name: str, default: Any) -> Any:
    return args[position] if len(args) > position else kwargs.get(name, default)


def _sum(_: Running, op: Any, args: list[Any], kwargs: dict[str, Any], dtype: DType) -> Result:
    dims, keepdim = _get(args, kwargs, 1, "dim", None), bool(_get(args, kwargs, 2, "keepdim", False))
    return reductions.total(args[0], dims, keepdim, dtype)


def _mean(_: Running, op: Any, args: list[Any], kwargs: dict[str, Any], dtype: DType) -> Result:
    dims, keepdim = _get(args, kwargs, 1, "dim", None), bool(_get(args, kwargs, 2, "keepdim", False))
    return reductions.mean(args[0], dims, keepdim, dtype)


def _extremum(_: Running, op: Any, args: list[Any], kwargs: dict[str, Any], dtype: DType) -> Result:
    dims, keepdim = _get(args, kwargs, 1, "dim", ()), bool(_get(args, kwargs, 2, "keepdim", False))
    axes = (
        torch.ops.aten.amin.default
        if ".amin" in str(op) or ".min" in str(op)
        else torch.ops.aten.amax.default
    )
    return reductions.extremum(axes, args[0], dims, keepdim, dtype)


def _max_or_selected(run: Running, op: Any, args: list[Any], kwargs: dict[str, Any], dtype: DType) -> Result:
    if str(op).endswith(".default"):
        return _extremum(run, op, args[:1], {}, dtype)
    if len(args) > 1 and isinstance(args[1], Tracked):
        return pointwise("maximum", op, args, kwargs, dtype)
    return choices.selected(op, args[0], args[1:], kwargs, dtype)


def _selected(_: Running, op: Any, args: list[Any], kwargs: dict[str, Any], dtype: DType) -> Result:
    return choices.selected(op, args[0], args[1:], kwargs, dtype)


def _index_of_extremum(_: Running, op: Any, args: list[Any], kwargs: dict[str, Any], dtype: DType) -> Result:
    dim, keepdim = _get(args, kwargs, 1, "dim", None), bool(_get(args, kwargs, 2, "keepdim", False))
    return choices.index_of_extremum(op, args[0], dim, keepdim)


def _prod(_: Running, op: Any, args: list[Any], kwargs: dict[str, Any], dtype: DType) -> Result:
    dim, keepdim = _get(args, kwargs, 1, "dim", None), bool(_get(args, kwargs, 2, "keepdim", False))
    return reductions.product(args[0], dim, keepdim, dtype)


def _cumsum(_: Running, op: Any, args: list[Any], kwargs: dict[str, Any], dtype: DType) -> Result:
    return reductions.scan_sum(args[0], _get(args, kwargs, 1, "dim", 0), dtype)


def _cumprod(_: Running, op: Any, args: list[Any], kwargs: dict[str, Any], dtype: DType) -> Result:
    return reductions.scan_product(args[0], _get(args, kwargs, 1, "dim", 0), dtype)


def _place(run: Running, op: Any, args: list[Any], kwargs: dict[str, Any], dtype: DType) -> Result:
    """``searchsorted(edges, values)`` and ``bucketize(values, edges)``."""
    swapped = "bucketize" in str(op)
    edges, values = reversed(args[:2]) if swapped else args[:2]
    if kwargs.get("sorter") is not None or not isinstance(values, Tracked):
        run.unknown.append(str(op))
        return _probed(op, args, kwargs, (dtype,))
    return place_among(
        lambda *given: op(*(given[::-1] if swapped else given), **kwargs), edges, values, dtype
    )


def _matmul(run: Running, op: Any, args: list[Any], kwargs: dict[str, Any], dtype: DType) -> Result:
    a, b = args[0], args[1]
    one, other = _shared_by_all(a), _shared_by_all(b)
    batches = a.value.dim() == b.value.dim() == 3
    if batches and (one is None) != (other is None):  # torch's attention makes a batch of a weight
        op, a, b = torch.matmul, one or a, other or b
    return linear.contraction(op, a, b, a.value.shape[-1], dtype, run.contract)


def _shared_by_all(x: Tracked) -> Tracked | None:
    """The matrix that is all of a batch, in memory once."""
    value, independent, shared = x.value, x.independent, x.shared
    if value.dim() != 3 or not value.shape[0] or x.step is not None:
        return None
    if value.stride(0) or independent.stride(0) or shared.stride(0):
        return None
    return Tracked(value[0], independent[0], shared[0], x.dtype)


def _addmm(run: Running, op: Any, args: list[Any], kwargs: dict[str, Any], dtype: DType) -> Result:
    bias, a, b = args[:3]
    if kwargs.get("alpha", 1) != 1 or kwargs.get("beta", 1) != 1:
        run.unknown.append(str(op))
        return _probed(op, args, kwargs, (dtype,))
    product = linear.contraction(torch.matmul, a, b, a.value.shape[-1], dtype, run.contract)
    return linear.plus(product, bias, dtype, a.value.shape[-1])


def _linear(run: Running, op: Any, args: list[Any], kwargs: dict[str, Any], dtype: DType) -> Result:
    x, weight, bias = args[0], args[1], _get(args, kwargs, 2, "bias", None)
    product = linear.contraction(op, x, weight, x.value.shape[-1], dtype, run.contract)
    return product if bias is None else linear.plus(product, bias, dtype, x.value.shape[-1])


def _convolution(run: Running, op: Any, args: list[Any], kwargs: dict[str, Any], dtype: DType) -> Result:
    x, weight, bias, rest = args[0], args[1], args[2], args[3:]
    product = linear.convolution(op, x, weight, rest, dtype, run.contract)
    if bias is None:
        return product
    channels = movement.move(
        "view", torch.ops.aten.view.default, [bias, [1, -1, *[1] * (x.value.dim() - 2)]], {}, bias.dtype
    )
    assert isinstance(channels, Tracked)
    return linear.plus(product, channels, dtype, linear.products_of(weight, rest))


def _resampled(_: Running, op: Any, args: list[Any], kwargs: dict[str, Any], dtype: DType) -> Result:
    x = args[0]
    rest = [a.value if isinstance(a, Tracked) else a for a in args[1:]]
    window = args[1] if len(args) > 1 and isinstance(args[1], list) and "pool" in str(op) else [4]
    count = prod(window) if "adaptive" not in str(op) else max(x.value.shape[-1], 4) ** 2
    return linear.resampling(lambda values: op(values, *rest, **kwargs), x, count, dtype)


def _grid_sampled(run: Running, op: Any, args: list[Any], kwargs: dict[str, Any], dtype: DType) -> Result:
    x, grid, interpolation = args[:3]
    if interpolation == CUBIC:
        run.unknown.append(str(op))
        made = _probed(op, args, kwargs, (dtype,))
        assert isinstance(made, Tracked)
        return sampling.cubic_beside(op, made, x, grid, tuple(args[2:]))
    return sampling.grid_sampled(op, x, grid, tuple(args[2:]), dtype)


def _max_pool(_: Running, op: Any, args: list[Any], kwargs: dict[str, Any], dtype: DType) -> Result:
    values, indices = op(args[0].value, *args[1:], **kwargs)
    worst = reductions.order_error(lambda moved: op(moved, *args[1:], **kwargs)[0], args[0], values)
    pooled = Tracked(values, torch.zeros_like(worst), worst, dtype)
    return pooled, choices.exact_index(indices)


def _scattered(run: Running, op: Any, args: list[Any], kwargs: dict[str, Any], dtype: DType) -> Result:
    """``index_put``, ``scatter``, ``scatter_add``: to sure places, or to those of a sort or a choice."""
    name = str(op).split(".")[1]
    data, place = (2, 1) if "index_put" in name else (3, 2)
    places = [one for one in _operands(args[place]) if isinstance(one, Tracked)]
    sure = all(one.is_exact for one in places)
    if "reduce" in str(op) or kwargs or not (sure or len(places) == len(_operands(args[place])) == 1):
        run.unknown.append(str(op))
        return _probed(op, args, kwargs, (dtype,))
    adds = name == "scatter_add" or ("index_put" in name and len(args) > 3 and bool(args[3]))
    made = reductions.scattered(op, args, data, adds, dtype)
    apart = None if adds or not sure else reductions.left_open(args, data)
    if apart is not None:
        run.left_open = True
        made = replace(made, shared=torch.maximum(made.shared, apart))
    if sure:
        return made
    if _chosen_from(name, args):
        return choices.exchanged(made, args[0].value, args[place], int(args[1]))
    put = args[data].value if isinstance(args[data], Tracked) else made.value.new_full((), args[data])
    along = None if "index_put" in name else int(args[1]) % max(1, made.value.dim())
    return choices.put_anywhere(made, args[0].value, put, places[0], along, adds)


def _chosen_from(name: str, args: list[Any]) -> bool:
    """The places are those of elements of a tensor of the same shape, found along the same axis."""
    tie = args[2].tie if name == "scatter" and isinstance(args[2], Tracked) else None
    if tie is None or tie.dim is None or tie.source.shape != args[0].value.shape:
        return False
    return bool(tie.dim % tie.source.dim() == int(args[1]) % tie.source.dim())


def _operands(arg: Any) -> list[Any]:
    return [one for each in arg for one in _operands(each)] if isinstance(arg, list) else [arg]


def _recurrent(run: Running, op: Any, args: list[Any], kwargs: dict[str, Any], dtype: DType) -> Result:
    found = recurrent(op, args, dtype)
    if found is not None:
        return found
    run.unknown.append(str(op))
    return _probed(op, args, kwargs, (dtype,) * (3 if "lstm" in str(op) else 2))


def _view(_: Running, op: Any, args: list[Any], kwargs: dict[str, Any], dtype: DType) -> Result:
    if isinstance(args[1], torch.dtype):
        return movement.bits_as(args[0], dtype)
    return movement.move("view", op, args, kwargs, dtype)


def _copied(_: Running, op: Any, args: list[Any], kwargs: dict[str, Any], dtype: DType) -> Result:
    """``copy(into, source)``: what an assignment to a part of a tensor puts there."""
    into, source = args[:2]
    spread = movement.move("expand", torch.Tensor.expand, [source, list(into.value.shape)], {}, source.dtype)
    assert isinstance(spread, Tracked)
    return spread if source.dtype == dtype else movement.cast(spread, dtype)


def _cast(_: Running, op: Any, args: list[Any], kwargs: dict[str, Any], dtype: DType) -> Result:
    return movement.cast(args[0], dtype)


_RULES: Mapping[str, Rule] = {
    "sum": _sum, "mean": _mean, "amax": _extremum, "amin": _extremum,
    "max": _max_or_selected, "min": _max_or_selected,
    "topk": _selected, "sort": _selected, "kthvalue": _selected,
    "argmax": _index_of_extremum, "argmin": _index_of_extremum,
    "searchsorted": _place, "bucketize": _place,
    "prod": _prod, "cumsum": _cumsum, "cumprod": _cumprod,
    "mm": _matmul, "bmm": _matmul, "matmul": _matmul, "mv": _matmul, "dot": _matmul,
    "addmm": _addmm, "baddbmm": _addmm, "linear": _linear, "convolution": _convolution,
    **dict.fromkeys(
        (
            "avg_pool1d", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d",
            "adaptive_avg_pool1d", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
            "upsample_bilinear2d", "upsample_linear1d", "upsample_trilinear3d",
        ),
        _resampled,
    ),
    "grid_sampler_2d": _grid_sampled, "grid_sampler_3d": _grid_sampled,
    "max_pool2d_with_indices": _max_pool, "max_pool3d_with_indices": _max_pool,
    **dict.fromkeys(
        ("index_put", "_unsafe_index_put", "scatter", "scatter_add"), _scattered,
    ),
    **dict.fromkeys(RECURRENT, _recurrent),
    "view": _view, "copy": _copied, **dict.fromkeys(movement.CASTS, _cast),
}  # fmt: skip


# ------------------------------------------------------------------------------------ no rule


def _probed(op: Any, args: list[Any], kwargs: dict[str, Any], dtypes: tuple[DType, ...]) -> Result:
    """Bound an operation nothing is known of: run it in the narrow dtype, and on values moved a little."""

    def run(change: Callable[[Tracked], Tensor]) -> tuple[Tensor, ...]:
        def plain(arg: Any) -> Any:
            if isinstance(arg, list):
                return [plain(a) for a in arg]
            return change(arg) if isinstance(arg, Tracked) else arg

        result = op(*[plain(a) for a in args], **{key: plain(v) for key, v in kwargs.items()})
        return tuple(result) if isinstance(result, (tuple, list)) else (result,)

    values = run(lambda x: x.value)
    narrow = run(lambda x: x.value.to(TORCH[x.dtype]))
    generator = torch.Generator(values[0].device).manual_seed(0)

    def jittered(x: Tracked) -> Tensor:
        if not x.value.is_floating_point():
            return x.value
        drawn = torch.randint(0, 2, x.value.shape, generator=generator, device=generator.device)
        sign = drawn * 2.0 - 1.0
        step = x.error + UNIT[x.dtype] * x.value.abs().nan_to_num(0.0, 0.0)
        return torch.where(torch.isfinite(step), x.value + sign * step, x.value)

    probes = [narrow, run(jittered), run(jittered), run(jittered)]
    tracked = tuple(
        _bounded_by(values[i], [probe[i] for probe in probes], dtype) for i, dtype in enumerate(dtypes)
    )
    return tracked if len(tracked) > 1 else tracked[0]


def _bounded_by(value: Tensor, probes: list[Tensor], dtype: DType) -> Tracked:
    if not is_float(dtype):
        changed = torch.stack([(probe != value).to(torch.float64) for probe in probes]).amax(0)
        largest = value.to(torch.float64).abs().max() if value.numel() else 0.0
        return Tracked(value, torch.zeros_like(changed), changed * (largest + 1), dtype)
    wide = value.to(torch.float64)
    # An infinity or a NaN that one has and another has not is nothing to hold a kernel to.
    moved = torch.stack([deviation(wide, probe).nan_to_num(torch.inf, torch.inf) for probe in probes]).amax(0)
    known = torch.where(torch.isfinite(moved), moved, 0.0)
    spread = known.square().mean().sqrt() if moved.numel() else moved.new_zeros(())
    shared = PROBE_SAFETY * torch.maximum(moved, spread)
    own = 8 * accumulate_unit(dtype) * wide.abs().nan_to_num(0.0, 0.0)
    return rounded(wide, own, (torch.zeros_like(shared), shared), dtype)
