"""Holds many honest and many wrong ways of computing an operation against its bounds, over many draws.

A verdict must not depend on the luck of a draw. For every operation, a ``.py`` file as the workbench takes
it, and for every kind of input and seed, its graph is computed in float32 in ways that honest kernels do
(``HONEST``: other orders of summation, products contracted into sums, reciprocals, intrinsics that are two
units off, 16-bit results left wide in between) and in ways that none may (``WRONG``: every result or every
sum in a lower precision, the last term of sums left out, one element of many off, the tail repeated). How
many sets of inputs refuse an honest way is counted, and how many judgements (all kinds of one seed) refuse
a wrong one. Nothing is compiled; no GPU is needed. ``false_alarms.py`` judges kernels. Usage, from the
repository's root:

    python benchmarks/honest_draws.py --seeds 5 sample_ops/*.py benchmarks/cells/homography.py

Prints a row for each operation; writes ``honest-draws.json`` to ``benchmarks/receipts``, or into the folder
``$WORKBENCH_RECEIPTS`` names. Ends with an error when an honest way is refused.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from workbench.errors import WorkbenchError  # noqa: E402
from workbench.model import Case, OpNode, Problem, Ref, Sym, size_of  # noqa: E402
from workbench.numerics.bounds import OutputBound, bounds, in_expected_order  # noqa: E402
from workbench.numerics.compare import compare  # noqa: E402
from workbench.numerics.conditioning import Oracle  # noqa: E402
from workbench.numerics.dtypes import TORCH, is_float  # noqa: E402
from workbench.numerics.inputs import draw  # noqa: E402
from workbench.numerics.kinds import KINDS, InputKind  # noqa: E402
from workbench.numerics.operators import free_of_layout, operator  # noqa: E402
from workbench.problem.capture import read_file  # noqa: E402
from workbench.problem.intake import open_problem  # noqa: E402
from workbench.problem.reference import Reference  # noqa: E402

MOST_ELEMENTS = 2**18
"""Of the tensors of a case and of each result in between."""
MOST_IN_ORDER, THREADS = 2048, 256
DIVISIONS = frozenset(("div", "true_divide", "reciprocal"))
INTRINSICS = frozenset(
    ("exp", "exp2", "log", "log2", "tanh", "sigmoid", "rsqrt", "sqrt", "sin", "cos", "erf", "pow", "silu")
)
WITHIN: Mapping[str, tuple[float, float]] = {
    "sigmoid": (0.0, 1.0),
    **dict.fromkeys(("tanh", "erf", "sin", "cos"), (-1.0, 1.0)),
}
"""Where results lie whatever the library: 1 over 1 and a little is never more than 1."""
ANYWHERE = (-float("inf"), float("inf"))
SUMS = frozenset(("sum", "mean"))
PRODUCTS = frozenset(("mm", "bmm", "matmul", "mv", "dot", "addmm", "baddbmm", "linear", "convolution"))
DTYPES: Mapping[str, torch.dtype] = {
    str(name): torch.float64 if is_float(name) else dtype for name, dtype in TORCH.items()
}
Summed = Callable[[Tensor], Tensor]


# ------------------------------------------------------------------------------------ ways of computing


def to_bits(x: Tensor, kept: int) -> Tensor:
    """Rounded to so many bits of a fraction, the leading one counted; the range stays."""
    fraction, exponent = torch.frexp(x)
    rounded = torch.ldexp((fraction * 2.0**kept).round(), exponent - kept)
    return torch.where(torch.isfinite(x), rounded, x)


def f32(x: Tensor) -> Tensor:
    """Rounded to float32, still in float64."""
    return x.float().double()


def in_order(x: Tensor) -> Tensor:
    """Over the last axis, one term after the other: by one thread, or each of ``THREADS`` its own first."""
    if x.shape[-1] > MOST_IN_ORDER:
        threads = torch.nn.functional.pad(x, (0, -x.shape[-1] % THREADS)).unflatten(-1, (-1, THREADS))
        x = in_order(threads.transpose(-1, -2))
    total = torch.zeros(x.shape[:-1])
    for column in x.float().unbind(-1):
        total = total + column
    return total.double()


def by_lanes(x: Tensor) -> Tensor:
    """32 lanes stride over the row, then a butterfly."""
    lanes = torch.nn.functional.pad(x, (0, -x.shape[-1] % 32)).unflatten(-1, (-1, 32))
    partial_sums = in_order(lanes.transpose(-1, -2)).float()
    for half in (16, 8, 4, 2, 1):
        partial_sums = partial_sums[..., :half] + partial_sums[..., half : 2 * half]
    return partial_sums[..., 0].double()


def backwards(x: Tensor) -> Tensor:
    """From the last term to the first."""
    return in_order(x.flip(-1))


def eagerly(x: Tensor) -> Tensor:
    """As torch adds float32 on a CPU."""
    return x.float().sum(-1).double()


def in_few_bits(x: Tensor, kept: int) -> Tensor:
    """Accumulated in a lower precision."""
    total = torch.zeros(x.shape[:-1], dtype=torch.float64)
    for column in x.unbind(-1):
        total = to_bits(total + column, kept)
    return total


@dataclass(frozen=True)
class Way:
    """How a kernel might compute a graph."""

    summed: Summed = eagerly
    contracted: bool = False
    """Products are not rounded before they are added."""
    reciprocals: bool = False
    """Quotients are products with one over the divisor."""
    wobble: float = 0.0
    """Units in the last place by which transcendental functions are off."""
    keeps_wide: bool = False
    """Results that the reference stores in 16 bits stay float32 until the end."""
    bits: int = 24
    """Of every result's fraction."""
    drops_last: bool = False
    """Sums leave out their last term."""
    spoils: Callable[[Tensor], Tensor] | None = None
    """What becomes of the outputs."""


def _last_repeated(x: Tensor) -> Tensor:
    flat = x.reshape(-1).clone()
    flat[-1:] = flat[-2:-1] if len(flat) > 1 else 0
    return flat.reshape(x.shape)


def _one_off(x: Tensor, by: float) -> Tensor:
    """One element in the middle, of the output's usual size or larger, is off by a part of it."""
    if not x.is_floating_point() or not x.numel():
        return x
    flat = x.reshape(-1).clone()
    size = flat.abs().nan_to_num(0.0, 0.0, 0.0).double()
    place = int((size >= size.square().mean().sqrt()).nonzero()[0])
    flat[place] = flat[place] * (1 + by)
    return flat.reshape(x.shape)


HONEST: Mapping[str, Way] = {
    "eager": Way(),
    "in order, contracted": Way(summed=in_order, contracted=True, keeps_wide=True),
    "by lanes, intrinsics": Way(summed=by_lanes, reciprocals=True, wobble=2.0),
    "backwards, all of it": Way(
        summed=backwards, contracted=True, reciprocals=True, wobble=2.0, keeps_wide=True
    ),
}
WRONG: Mapping[str, Way] = {
    "TF32 throughout": Way(bits=11),
    "bfloat16 throughout": Way(bits=8),
    "half accumulators": Way(summed=partial(in_few_bits, kept=11)),
    "last term dropped": Way(drops_last=True),
    "tail repeated": Way(spoils=_last_repeated),
    "one element 1e-3 off": Way(spoils=partial(_one_off, by=1e-3)),
}


@dataclass
class Computed:
    """A graph computed in one way."""

    way: Way
    sizes: Mapping[str, int]
    generator: torch.Generator
    results: dict[str, Any] = field(default_factory=dict)
    stored: dict[str, torch.dtype] = field(default_factory=dict)
    """Of values, what their bits are those of."""
    constants: dict[str, Any] = field(default_factory=dict)
    """Results that depend on no tensor, in the reference's own precision."""

    def outputs(self, problem: Problem, tensors: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """Of the dtypes that the problem says."""
        self.results.update({k: t.double() if t.is_floating_point() else t for k, t in tensors.items()})
        self.stored.update({name: tensor.dtype for name, tensor in tensors.items()})
        self.stored.update({node.name: TORCH[node.outs[0].dtype] for node in problem.graph.nodes})
        for node in problem.graph.nodes:
            self.results[node.name] = self._node(node)
            self._keep_places(node)
        made = [self._argument(ref) for ref in problem.graph.outputs]
        cast = [one.to(TORCH[spec.dtype]) for one, spec in zip(made, problem.outputs, strict=True)]
        return tuple(map(self.way.spoils, cast)) if self.way.spoils else tuple(cast)

    def _keep_places(self, node: OpNode) -> None:
        """Whole numbers made from sizes alone are the reference's (``Running.apply``): the places that an
        interpolation reads in few bits lie beyond the end."""
        if any(ref.ref not in self.constants for ref in node.refs):
            return
        args = [self._argument(a, native=True) for a in node.args]
        kwargs = {k: self._argument(v, native=True) for k, v in node.kwargs}
        own = self.constants[node.name] = operator(free_of_layout(node.op))(*args, **kwargs)
        if isinstance(own, Tensor) and not own.is_floating_point():
            self.results[node.name] = own

    def _argument(self, arg: Any, native: bool = False) -> Any:
        match arg:
            case Ref():
                found = (self.constants if native else self.results)[arg.ref]
                return found[arg.item or 0] if isinstance(found, tuple) else found
            case Sym(sym=text):
                return size_of(text, self.sizes)
            case tuple():
                return [self._argument(one, native) for one in arg]
            case str() if arg in DTYPES:
                return (TORCH if native else DTYPES)[arg]
            case float() if not native:
                return float(torch.tensor(arg, dtype=torch.float32))
            case _:
                return arg

    def _node(self, node: OpNode) -> Any:
        name = node.base_name
        op = operator(free_of_layout(node.op))
        args = [self._argument(a) for a in node.args]
        if name == "view" and isinstance(args[1], torch.dtype):
            assert isinstance(node.args[0], Ref)
            bits = args[0].to(self.stored[node.args[0].ref]).view(TORCH[node.outs[0].dtype])
            return bits.double() if bits.is_floating_point() else bits
        kwargs = {k: self._argument(v) for k, v in node.kwargs}
        dtype = node.outs[0].dtype
        if name in SUMS and is_float(dtype):
            return self._rounded(self._sum(name, args, kwargs), node)
        if name in PRODUCTS and self.way.bits == 24:
            narrow = [a.float() if isinstance(a, Tensor) and a.is_floating_point() else a for a in args]
            return self._rounded(op(*narrow, **kwargs).double(), node)
        if name in DIVISIONS and self.way.reciprocals and len(args) > 1 and is_float(dtype):
            below = args[1] if isinstance(args[1], Tensor) else torch.tensor(float(args[1]))
            return self._rounded(args[0] * f32(1 / below.double()), node)
        made = op(*args, **kwargs)
        if isinstance(made, (tuple, list)):
            return tuple(made)
        return self._rounded(made, node)

    def _rounded(self, made: Tensor, node: OpNode) -> Tensor:
        name, dtype = node.base_name, node.outs[0].dtype
        if not made.is_floating_point():
            return made
        made = made.double()
        if name == "mul" and self.way.contracted:
            return made
        if name in INTRINSICS and self.way.wobble:
            off = torch.rand(made.shape, generator=self.generator, dtype=torch.float64) * 2 - 1
            # What is a whole number (an exponential of 0, a root of 1) is so in every library.
            off = torch.where(made == made.round(), 0.0, off)
            made = (made * (1 + self.way.wobble * 2.0**-23 * off)).clamp(*WITHIN.get(name, ANYWHERE))
        if self.way.bits < 24:
            return to_bits(made, self.way.bits)
        stored = dtype in ("f16", "bf16") and not self.way.keeps_wide
        return made if dtype == "f64" else f32(made.to(TORCH[dtype]).double() if stored else made)

    def _sum(self, name: str, args: list[Any], kwargs: Mapping[str, Any]) -> Tensor:
        x = args[0].double()
        dims = args[1] if len(args) > 1 else kwargs.get("dim")
        axes = [dims] if isinstance(dims, int) else list(dims or range(x.dim()))
        axes = sorted(axis % x.dim() for axis in axes) if x.dim() else []
        keepdim = bool(args[2] if len(args) > 2 else kwargs.get("keepdim", False))
        if not axes:
            return x
        kept = [axis for axis in range(x.dim()) if axis not in axes]
        rows = x.permute(*kept, *axes).reshape(*(x.shape[axis] for axis in kept), -1)
        count = rows.shape[-1]
        if self.way.drops_last:
            rows = rows[..., :-1]
        total = self.way.summed(rows)
        total = f32(total / count) if name == "mean" else total
        for axis in axes if keepdim else ():
            total = total.unsqueeze(axis)
        return total


# ------------------------------------------------------------------------------------ over many draws


@dataclass
class Tally:
    """Of one operation."""

    sets: int = 0
    """Of inputs."""
    widened: int = 0
    """Sets on which the reference itself was outside."""
    open: int = 0
    """Sets with an element of which nothing is asked, though the reference has a number there."""
    basis: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    """Sets of inputs by honest way."""
    worst: dict[str, float] = field(default_factory=dict)
    judged: int = 0
    caught: Counter[str] = field(default_factory=Counter)
    """Judgements by wrong way."""
    seconds: float = 0.0
    """Making bounds."""

    def row(self, name: str) -> dict[str, Any]:
        """For the receipt."""
        return {
            "op": name,
            "sets": self.sets,
            "widened": self.widened,
            "open": self.open,
            "basis": dict(self.basis),
            "refused": dict(self.refused),
            "worst": {way: float(f"{ratio:.3g}") for way, ratio in self.worst.items()},
            "judgements": self.judged,
            "caught": dict(self.caught),
            "seconds": round(self.seconds, 2),
        }


def _worst(results: tuple[Tensor, ...], limits: tuple[OutputBound, ...]) -> float:
    shaped = [got.reshape(limit.expected.shape) for got, limit in zip(results, limits, strict=True)]
    pairs = zip(in_expected_order(shaped, limits), limits, strict=True)
    return max(compare(got, limit).max_ratio for got, limit in pairs)


def small_case(problem: Problem) -> Case:
    """The largest case that is small enough."""

    def size(case: Case) -> int:
        inside = [out.dims for node in problem.graph.nodes for out in node.outs]
        counts = [meta.numel for meta in problem.metas(case).values()]
        for dims in inside:
            count = 1
            for dim in dims:
                count *= size_of(dim, case.size_map)
            counts.append(count)
        return max(counts)

    cases = sorted((*problem.proofs, *problem.cases), key=size)
    return next((case for case in reversed(cases) if size(case) <= MOST_ELEMENTS), cases[0])


def sets_of(
    problem: Problem, seeds: int
) -> Iterator[tuple[int, InputKind, dict[str, Tensor], tuple[OutputBound, ...], float]]:
    """Every seed and kind of input with its tensors, bounds and the seconds they took."""
    reference, case = Reference(problem), small_case(problem)
    for seed in range(seeds):
        for number, kind in enumerate(KINDS):
            tensors = draw(problem, case, kind, 1000 * seed + number)
            try:
                native = reference.call(tensors)
            except WorkbenchError:
                continue
            oracle = Oracle(reference.oracle(tensors), reference.oracle)
            started = time.perf_counter()
            limits = bounds(problem, case.size_map, tensors, oracle, lambda own=native: own)  # type: ignore[misc]
            yield seed, kind, tensors, limits, time.perf_counter() - started


def wrong_ways(problem: Problem) -> Mapping[str, Way]:
    """Those that are wrong for this operation: 16-bit results may be as TF32 makes them."""
    names = {node.base_name for node in problem.graph.nodes}
    found = dict(WRONG)
    if not names & SUMS:
        del found["half accumulators"], found["last term dropped"]
    if not all(spec.dtype in ("f32", "f64") for spec in (*problem.outputs, *problem.tensors)):
        del found["TF32 throughout"], found["one element 1e-3 off"]
    if not any(is_float(spec.dtype) for spec in problem.outputs):
        found = {}
    return found


def tally(path: Path, seeds: int) -> dict[str, Any]:
    """All ways of one operation."""
    torch.set_num_threads(1)
    problem = open_problem(read_file(path))
    found, sizes = Tally(), small_case(problem).size_map
    caught: dict[int, set[str]] = {}
    wrong = wrong_ways(problem)
    for seed, kind, tensors, limits, seconds in sets_of(problem, seeds):
        found.sets += 1
        found.seconds += seconds
        found.widened += any("widened" in limit.basis for limit in limits)
        found.open += any(
            bool((limit.allowed.isinf() & torch.isfinite(limit.expected)).any()) for limit in limits
        )
        found.basis.update({limit.basis.split(",")[0][:60] for limit in limits})
        seen = caught.setdefault(seed, set())
        for label, way in (HONEST | wrong).items():
            if label in seen:
                continue
            generator = torch.Generator().manual_seed(seed)
            ratio = _worst(Computed(way, sizes, generator).outputs(problem, tensors), limits)
            if label in wrong:
                seen |= {label} if ratio > 1 else set()
                continue
            found.worst[label] = max(found.worst.get(label, 0.0), ratio)
            if ratio > 1:
                found.refused[label] += 1
                print(f"  {path.stem}: {label} refused, {ratio:.4g}, {kind}, seed {seed}", flush=True)
    found.judged = len(caught)
    found.caught = Counter(dict.fromkeys(wrong, 0))
    for seen in caught.values():
        found.caught.update(seen)
    return found.row(path.stem)


def told(path: Path, seeds: int) -> dict[str, Any]:
    """The same, or why there is nothing."""
    started = time.perf_counter()
    try:
        row = tally(path, seeds)
    except Exception as error:  # an operation that cannot be computed here says nothing of the others
        return {"op": path.stem, "failed": f"{type(error).__name__}: {error}"[:300]}
    worst = max(row["worst"].values(), default=0.0)
    print(
        f"{path.stem:22} {row['sets']:4} sets, refused {sum(row['refused'].values()):3}, "
        f"widened {row['widened']:3}, open {row['open']:3}, worst {worst:8.3g}, "
        f"caught of {row['judgements']} {' '.join(str(n) for n in row['caught'].values())}, "
        f"bounds {row['seconds']:.1f} s of {time.perf_counter() - started:.0f}",
        flush=True,
    )
    return row


def _of_all(rows: list[dict[str, Any]], way: str) -> str:
    """Judgements that refuse a wrong way, of those for which it is wrong."""
    those = [row for row in rows if way in row["caught"]]
    return f"{sum(row['caught'][way] for row in those)} of {sum(row['judgements'] for row in those)}"


def main() -> int:
    """Run, print, write the receipt."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    started = time.perf_counter()
    with ProcessPoolExecutor(2) as pool:
        rows = list(pool.map(told, asked.files, [asked.seeds] * len(asked.files)))
    good = [row for row in rows if "failed" not in row]
    for row in rows:
        if "failed" in row:
            print(f"{row['op']:22} {row['failed']}")
    refused = sum(sum(row["refused"].values()) for row in good)
    judged = sum(row["judgements"] for row in good)
    receipt = {
        "date": time.strftime("%Y-%m-%d"),
        "torch": torch.__version__,
        "seeds": asked.seeds,
        "operations": len(good),
        "honest": sum(row["sets"] for row in good) * len(HONEST),
        "refused": refused,
        "widened": sum(row["widened"] for row in good),
        "open": sum(row["open"] for row in good),
        "judgements": judged,
        "caught": {way: _of_all(good, way) for way in WRONG},
        "seconds_of_bounds": round(sum(row["seconds"] for row in good), 1),
        "seconds": round(time.perf_counter() - started),
        "rows": rows,
    }
    folder = Path(os.environ.get("WORKBENCH_RECEIPTS", ROOT / "benchmarks" / "receipts"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "honest-draws.json").write_text(json.dumps(receipt, indent=1) + "\n")
    print({key: value for key, value in receipt.items() if key != "rows"})
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
