"""Sizes that depend on symbols: compared by value, printed as expressions.

Owns the arithmetic of sizes. Two sizes are equal when they agree at several probe points: some where
every symbol is a multiple of 5040 and of whatever the graph divides by, and some that the reference is known
to accept. So ``32*(s1//32)`` equals ``s1`` where only multiples of 32 are accepted, and ``(s1 + 1)//2``
differs from ``s1//2`` where odd sizes are. A ``max`` or ``min`` may bend anywhere between the points, and
``3 % s1`` does below them all: sizes with one are equal to those with the same alone.
Never prints CUDA or a plan; ``spell`` gives the text with other names for the symbols.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from operator import mul

from workbench import syntax
from workbench.model import Dim, Sym, size_of

_DIVISIBLE, _ACCEPTED = 3, 8
_PROBES = _DIVISIBLE + _ACCEPTED
_PRIMES = (11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107)
Products = tuple[tuple[str, ...], ...]
"""Symbols whose products are equal, as ``(("h", "w"), ("p", "q"))``."""
Terms = tuple[tuple[tuple[str, ...], int], ...]
_BEND = re.compile(r"\b(min|max)\(|\b\d+ % ")
"""What is another size, or a number, at all points that are far from where it bends."""
_SYMBOL = re.compile(r"\b[A-Za-z_]\w*\b(?!\()")


@dataclass(frozen=True)
class Size:
    """An integer that depends on the problem's symbols; equality and hash go by value."""

    probes: tuple[int, ...]
    coefficient: int = field(compare=False)
    factors: tuple[str, ...] = field(compare=False)
    """Texts whose product, times the coefficient, is the size; each an atom of Python's grammar."""
    terms: Terms = field(compare=False, default=())
    """The summands, where the size is a sum: factors and coefficient. Empty for a plain product."""
    bends: tuple[str, ...] = ()
    """Factors with a ``max``, a ``min`` or a number's remainder, which a few points do not tell from what
    they come to there."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.probes)

    @cached_property
    def text(self) -> str:
        """A Python expression over the symbols."""
        parts = list(self.factors)
        if self.coefficient == -1 and parts:
            return "-" + "*".join(parts)
        if self.coefficient != 1 or not parts:
            parts.insert(0, str(self.coefficient))
        return "*".join(parts)

    @property
    def dim(self) -> Dim:
        """The number that it is, or its text."""
        return self.text if self.number is None else self.number

    @property
    def atom(self) -> str:
        """The text, in parentheses where a product would need them."""
        alone = len(self.factors) + (self.coefficient != 1) <= 1 and self.coefficient >= 0
        return self.text if alone else f"({self.text})"

    @property
    def number(self) -> int | None:
        """The value when no symbol is in it."""
        return None if self.factors else self.coefficient

    @property
    def is_zero(self) -> bool:
        return not any(self.probes) if self.factors else self.coefficient == 0

    @property
    def is_negative(self) -> bool:
        """Judged at a point that the reference accepts: elsewhere a difference may have any sign."""
        return self.probes[_DIVISIBLE] < 0

    @property
    def is_one(self) -> bool:
        return self.probes.count(1) == len(self.probes) if self.factors else self.coefficient == 1

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """Names in the expression, each once."""
        return tuple(dict.fromkeys(_SYMBOL.findall(self.text)))

    def __mul__(self, other: Size) -> Size:
        if other.coefficient == 1 and not other.factors:
            return self
        if self.coefficient == 1 and not self.factors:
            return other
        if not self.factors and not other.factors:
            return number(self.coefficient * other.coefficient)
        values = tuple(map(mul, self.probes, other.probes))
        for one, by in ((self, other.number), (other, self.number)):
            if one.terms and by is not None:
                return _sum(values, tuple((factors, n * by) for factors, n in one.terms))
        return _size(values, self.coefficient * other.coefficient, self.factors + other.factors)

    def __add__(self, other: Size) -> Size:
        if self.is_zero or other.is_zero:
            return other if self.is_zero else self
        if not self.factors and not other.factors:
            return number(self.coefficient + other.coefficient)
        values = tuple(a + b for a, b in zip(self.probes, other.probes, strict=True))
        return _sum(values, self._summands + other._summands)

    @property
    def _summands(self) -> Terms:
        return self.terms or ((self.factors, self.coefficient),)

    def __floordiv__(self, other: Size) -> Size:
        if other.coefficient == 1 and not other.factors and not self.terms:
            return self
        if not self.factors and not other.factors:
            return number(self.coefficient // other.coefficient)
        values = tuple(a // b if b else 0 for a, b in zip(self.probes, other.probes, strict=True))
        left = _without(self.factors, other.factors)
        if left is not None and self.coefficient % other.coefficient == 0:
            return _size(values, self.coefficient // other.coefficient, left)
        return _size(values, 1, (f"({self.atom}//{other.atom})",))

    def __neg__(self) -> Size:
        return self * number(-1)

    def divides(self, other: Size) -> bool:
        """True when ``other`` is a multiple of this size wherever the reference is defined.

        It is not where both come to nothing, as an area over more rows than it has elements.
        """
        if not self.factors and not other.factors:
            return self.coefficient != 0 and other.coefficient % self.coefficient == 0
        both = [(a, b) for a, b in zip(self.probes, other.probes, strict=True) if a or b]
        return bool(both) and all(a != 0 and b % a == 0 for a, b in both)

    def at(self, sizes: Mapping[str, int]) -> int:
        """Value for given symbols."""
        return size_of(self.text, sizes) if self.factors else self.coefficient

    def spell(self, rename: Callable[[str], str]) -> str:
        """The expression with its symbols renamed and spaces around the operators."""
        text = _SYMBOL.sub(lambda match: rename(match.group()), self.text)
        if re.fullmatch(r"\([^()]*\)", text):
            text = text[1:-1]
        return re.sub(r"\s*(//|\*|%)\s*", r" \1 ", text)


def _without(factors: tuple[str, ...], some: tuple[str, ...]) -> tuple[str, ...] | None:
    """What is left of factors without some of them; None where those are not all among them."""
    left = list(factors)
    for factor in some:
        if factor not in left:
            return None
        left.remove(factor)
    return tuple(left)


def _size(probes: tuple[int, ...], coefficient: int, factors: tuple[str, ...]) -> Size:
    ordered = tuple(sorted(factors, key=lambda text: (len(text), text))) if len(factors) > 1 else factors
    bends = tuple(text for text in ordered if _bends(text))
    if probes.count(probes[0]) == len(probes) and not bends:
        return number(probes[0])
    return Size(probes, coefficient, ordered, bends=bends)


@lru_cache(maxsize=4096)
def _bends(factor: str) -> bool:
    return _BEND.search(factor) is not None


@lru_cache(maxsize=4096, typed=True)
def number(value: int) -> Size:
    """A size without symbols."""
    return Size((value,) * _PROBES, value, ())


ONE, ZERO = number(1), number(0)


def _sum(probes: tuple[int, ...], summands: Terms) -> Size:
    """A sum with equal summands put together, the number last."""
    totals: Counter[tuple[str, ...]] = Counter()
    for factors, coefficient in summands:
        totals[factors] += coefficient
    terms = [(factors, n) for factors, n in totals.items() if n]
    terms.sort(key=lambda term: (not term[0], term[1] < 0))
    if len(terms) <= 1:
        factors, coefficient = terms[0] if terms else ((), 0)
        return _size(probes, coefficient, factors)
    text = ""
    for factors, coefficient in terms:
        part = Size(probes, abs(coefficient), factors).text
        text += (" - " if coefficient < 0 else " + ") + part if text else _signed(part, coefficient)
    return replace(_size(probes, 1, (f"({text})",)), terms=tuple(terms))


def _signed(text: str, coefficient: int) -> str:
    return f"-{text}" if coefficient < 0 else text


def _divisible(names: tuple[str, ...], point: int, multiple: int) -> dict[str, int]:
    primes = len(_PRIMES)
    return {
        name: multiple * _PRIMES[(k * _DIVISIBLE + point) % primes] * (1 + k // 8)
        for k, name in enumerate(names)
    }


def _with_equal(point: dict[str, int], equal: Sequence[Products], multiple: int) -> dict[str, int]:
    """The point with the same value for products that are always equal, and none for their factors alone.

    ``h*w`` and ``p*q`` of images that are flattened before they meet: each product gets the same primes,
    dealt out to its factors in another way.
    """
    found = dict(point)
    dealt = set[str]()
    for products in equal:
        names = [name for factors in products for name in factors]
        if dealt.intersection(names) or len(set(names)) < len(names):
            continue  # what was dealt is not taken back: two sizes are then told apart that need not be
        dealt.update(names)
        most = max(map(len, products))
        own = [point[name] // multiple for name in names]
        for place, factors in enumerate(products):
            shares = [multiple] * len(factors)
            shares[0] *= multiple ** (most - len(factors))
            for at, prime in enumerate(own):
                shares[at // len(factors) ** place % len(factors)] *= prime
            found.update(zip(factors, shares, strict=True))
    return found


def _telling(
    names: tuple[str, ...], known: list[Mapping[str, int]], divisors: Collection[int]
) -> list[Mapping[str, int]]:
    """A few accepted sizes that leave as many different remainders as can be had, odd ones first.

    That ``3*(s0//3)`` is not ``s0`` is only seen where a size is no multiple of three.
    """
    rest = sorted(known, key=lambda case: -sum(case[name] % 2 for name in names))
    remainders = {id(case): {(n, d, case[n] % d) for n in names for d in divisors} for case in rest}
    chosen: list[Mapping[str, int]] = []
    seen: set[tuple[str, int, int]] = set()
    while rest and len(chosen) < _ACCEPTED:
        best = max(rest, key=lambda case: len(remainders[id(case)] - seen))
        rest = [case for case in rest if case is not best]
        seen |= remainders[id(best)]
        chosen.append(best)
    return chosen


def _with_exact(point: Mapping[str, int], exact: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The point with every size a multiple of those that divide it: ``s4*(s1//s4)`` is ``s1`` there."""
    found = dict(point)
    left = list(exact)
    while left:  # what divides another is settled first; of a circle, whatever comes
        wholes = {whole for whole, _ in left}
        whole, part = next((pair for pair in left if pair[1] not in wholes), left[0])
        left.remove((whole, part))
        found[whole] *= found[part]
    return found


class Sizes:
    """Reads dimensions over a problem's symbols.

    ``equal`` are products that are always equal, ``exact`` sizes with one that divides them without rest.
    """

    def __init__(
        self,
        symbols: Iterable[str],
        accepted: Iterable[Mapping[str, int]] = (),
        divisors: Iterable[int] = (),
        equal: Sequence[Products] = (),
        exact: Sequence[tuple[str, str]] = (),
    ) -> None:
        names = tuple(symbols)
        divisors = frozenset(divisors)
        multiple = math.lcm(5040, *(divisor for divisor in divisors if divisor))
        points: list[Mapping[str, int]] = [
            _with_exact(_with_equal(_divisible(names, at, multiple), equal, multiple), exact)
            for at in range(_DIVISIBLE)
        ]
        known = [case for case in accepted if set(names) <= set(case)]
        points += _telling(names, known, {2, *divisors} - {0})
        self._points = tuple((points * _PROBES)[:_PROBES])
        self._read: dict[str, Size] = {}

    def read(self, dim: Dim | Sym) -> Size:
        """A number, an expression or a symbol's reference as a size."""
        text = dim.sym if isinstance(dim, Sym) else dim
        if isinstance(text, int):
            return number(text)
        if text not in self._read:
            self._read[text] = self._parsed(syntax.expression(text))
        return self._read[text]

    def _parsed(self, node: ast.expr) -> Size:
        match node:
            case ast.Constant(value=int(value)):
                return number(value)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return self._parsed(left) * self._parsed(right)
            case ast.BinOp(left=left, op=ast.FloorDiv(), right=right):
                return self._parsed(left) // self._parsed(right)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._parsed(left) + self._parsed(right)
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return self._parsed(left) + -self._parsed(right)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._parsed(operand)
        text = ast.unparse(node)
        values = tuple(size_of(text, point) for point in self._points)
        return _size(values, 1, (text if isinstance(node, ast.Name) else f"({text})",))

    def shape(self, dims: Iterable[Dim | Sym]) -> tuple[Size, ...]:
        """Several at once."""
        return tuple(self.read(dim) for dim in dims)


def solved(size: Size, text: str) -> str:
    """The symbol of a size such as ``2*s0 + 1`` where that size is ``text``."""
    more = sum(n for factors, n in size.terms if not factors)
    times = next((n for factors, n in size.terms if factors), size.coefficient)
    less = f"{text} {'-' if more > 0 else '+'} {abs(more)}" if more else text
    if times == 1:
        return less
    return f"({less}) // {times}" if more else f"{less} // {times}"


def product(sizes: Iterable[Size]) -> Size:
    """Product of sizes; one for none."""
    result = ONE
    for size in sizes:
        result = result * size
    return result
