"""Parts that blocks tell one of them in single words: a join without a fence, a counter or a second trip.

Owns the text of telling and of hearing. The block that is done last learns that it is behind a fence and a
counter, two ways to memory and back, and reads the parts on a third. A word that carries a part and the news
that it is there needs one, and the block that tells has nothing to wait for: it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.playbook.analysis.accumulators import AccumulatorText
from workbench.playbook.ir.expr import Apply, Expr
from workbench.playbook.kernels.kernel_text import Frame, block
from workbench.playbook.schedules.schedule import MOST_TOLD

Texts = Sequence[AccumulatorText]
_AT_ONCE = 4
"""Words that a thread asks for before it looks at the first. A cold card fetches every copy of the loop."""
_TELLABLE = frozenset(["f32", "i32", "i64", "bool"])


def tellable(texts: Texts) -> bool:
    """True where every partial result consists of numbers that words can carry."""
    return all(dtype in _TELLABLE for text in texts for _, dtype in text.members)


@dataclass(frozen=True)
class _Number:
    """A number of a partial result as its block tells it."""

    floats: tuple[str, ...]
    """It, its bits, or those of its two halves."""
    again: str
    """How its reader makes it of them, in terms of ``{0}`` and ``{1}``."""
    goes_first: bool
    """A word of two zeros would say nothing: ``tell`` makes them -0 and 0, and only floats may become -0."""


class ToldParts:
    """The words of one kernel: of the parts of one row, or of several."""

    def __init__(
        self, frame: Frame, name: str, texts: Texts, parts: str, row: str, at_once: int = _AT_ONCE
    ) -> None:
        """``parts`` says how many tell; ``row`` is a block's row where several have words, else empty.

        A thread asks for ``at_once`` parts before it looks at the first, or for as many as four words hold.
        """
        self.name, self.parts, self.row = name, parts, row
        self.numbers = [_numbers_of(text) for text in texts]
        every = [number for numbers in self.numbers for number in numbers]
        self._words, self._places = _in_words(every)
        self._count = len(self._words)
        self._at_once = min(at_once, max(1, _AT_ONCE // self._count))
        frame.helpers.add("told")
        if any("whole(" in number.again for number in every):
            frame.helpers.add("whole")

    @property
    def variable(self) -> str:
        """The words, as a variable of the kernel's own."""
        return (
            "// What blocks tell the last one; zero between launches, of which one may run at a time.\n"
            f"__device__ unsigned long long {self.name}_told[{self._count * MOST_TOLD}];\n"
        )

    def tell(self, part: str, condition: str) -> list[str]:
        """One thread tells what its block came to, as part number ``part``."""
        lines = [
            f"tell({self._at(i, part)}, {first}, {second});" for i, (first, second) in enumerate(self._words)
        ]
        return block(f"if ({condition})", lines)

    def hear(self, texts: Texts) -> list[str]:
        """The loop by which the threads of the last block enter what all others tell into ``texts``.

        Its own part it has: the way of a word to memory and back would be the last thing that it waits for.
        """
        others = f"{self.parts} - 1"
        said = [f"said_{i}" if self._count > 1 else "said" for i in range(self._count)]
        asks = [f"ask({self._at(i, 'part')})" for i in range(self._count)]
        if self._at_once == 1:  # a part has several words, which are on their way together
            body = [f"const unsigned long long {name} = {ask};" for name, ask in zip(said, asks, strict=True)]
            head = f"for (int part = threadIdx.x; part < {others}; part += THREADS)"
            return ["#pragma unroll 1", *block(head, [*body, *self._entered(texts, said)])]
        part, there = "const int part = from + i * THREADS;", f"part < {others}"
        each = f"for (int i = 0; i < {self._at_once}; ++i)"
        asked = [f"{name}[i] = {there} ? {ask} : 0;" for name, ask in zip(said, asks, strict=True)]
        entered = self._entered(texts, [f"{name}[i]" for name in said])
        body = [
            f"unsigned long long {', '.join(f'{name}[{self._at_once}]' for name in said)};",
            "#pragma unroll",
            *block(each, [part, *asked]),
            "#pragma unroll",
            *block(each, [part, *block(f"if ({there})", entered)]),
        ]
        head = f"for (int from = threadIdx.x; from < {others}; from += {self._at_once} * THREADS)"
        return block(head, body)

    def _entered(self, texts: Texts, said: Sequence[str]) -> list[str]:
        """Hear every word of a part, and enter it."""
        told = [f"told_{i}" if self._count > 1 else "told" for i in range(self._count)]
        heard = [f"hear({self._at(i, 'part')}, {said[i]})" for i in range(self._count)]
        lines = [f"const float2 {name} = {call};" for name, call in zip(told, heard, strict=True)]
        places = iter(self._places)
        for text, numbers in zip(texts, self.numbers, strict=True):
            members = [
                number.again.format(*(f"{told[word]}.{half}" for word, half in next(places)))
                for number in numbers
            ]
            lines.append(text.enter_partial(members))
        return lines

    @property
    def of_row(self) -> list[str]:
        """Where the words of this block's row begin."""
        if not self.row:
            return []
        words = f"{self._count} * {self.parts}" if self._count > 1 else self.parts
        return [f"unsigned long long* row_told = {self.name}_told + {self.row} * {words};"]

    def _at(self, number: int, part: str) -> str:
        """A pointer to a word: those of one kind lie side by side."""
        first = "row_told" if self.row else f"{self.name}_told"
        stretch = f"{number} * {self.parts} + " if number > 1 else f"{self.parts} + " if number else ""
        return f"{first} + {stretch}{part}"


def _numbers_of(text: AccumulatorText) -> list[_Number]:
    """The members of a partial result, each as it is told."""
    found = []
    for member, dtype in text.members:
        value = f"{text.name}.{member}" if member else text.name
        match dtype:
            case "f32":
                found.append(_Number((value,), "{0}", goes_first=True))
            case "bool":
                found.append(_Number((f"{value} ? 1.0f : 0.0f",), "{0} != 0.0f", goes_first=True))
            case "i32":
                found.append(_Number((f"__int_as_float({value})",), "__float_as_int({0})", goes_first=False))
            case _ if text.accumulator.kind == "sum" and _is_one_or_nothing(text.accumulator.operand):
                bits = f"__int_as_float(int({value}))"  # as many as there are columns: an int
                found.append(_Number((bits,), "__float_as_int({0})", goes_first=False))
            case _:
                halves = (f"__uint_as_float(unsigned({value}{shift}))" for shift in ("", " >> 32"))
                found.append(_Number(tuple(halves), "whole({0}, {1})", goes_first=False))
    return found


def _is_one_or_nothing(operand: Expr) -> bool:
    """True for a truth value, as a number."""
    match operand:
        case Apply(op="cast", args=(inner,)):
            return inner.dtype == "bool"
    return False


def _in_words(
    numbers: Sequence[_Number],
) -> tuple[list[tuple[str, str]], list[list[tuple[int, str]]]]:
    """Words of two floats; and where those of each number are found: in which word, and which half of it.

    What may not go first goes second, beside a float that does, or beside a 1; other floats go by two.
    """
    firsts = [(at, one) for at, number in enumerate(numbers) for one in number.floats if number.goes_first]
    seconds = [
        (at, one) for at, number in enumerate(numbers) for one in number.floats if not number.goes_first
    ]
    words, places = list[tuple[str, str]](), [list[tuple[int, str]]() for _ in numbers]
    while firsts or seconds:
        pair = [firsts.pop(0)] if firsts else []
        pair += [(seconds or firsts).pop(0)] if seconds or firsts else []
        for (at, _), half in zip(pair, "xy", strict=False):
            places[at].append((len(words), half))
        words.append((pair[0][1], pair[1][1] if len(pair) > 1 else "1.0f"))
    return words, places
