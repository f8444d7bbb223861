"""Parts that blocks tell one of them in single words: a join without a fence, a counter or a second trip.

Owns the text of telling and of hearing. The block that is done last learns that it is behind a fence and a
counter, two ways to memory and back, and reads the parts on a third. A word that carries a part and the news
that it is there needs one, and the block that tells has nothing to wait for: it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.playbook.accumulators import AccumulatorText
from workbench.playbook.kernel_text import Frame, block
from workbench.playbook.schedule import MOST_TOLD

Texts = Sequence[AccumulatorText]
_AT_ONCE = 4
"""Words that a thread asks for before it looks at the first. A cold card fetches every copy of the loop."""
_TELLABLE = frozenset(["f32", "i32", "i64", "bool"])


def tellable(texts: Texts) -> bool:
    """True where every partial result consists of numbers that words can carry."""
    return all(dtype in _TELLABLE for text in texts for _, dtype in text.members)


@dataclass(frozen=True)
class _Word:
    """What one word carries, and how its reader makes members of it."""

    first: str
    second: str
    members: tuple[str, ...]
    """In terms of ``{told}``; none where the next word completes the member."""


class ToldParts:
    """The words of one kernel: of the parts of one row, or of several."""

    def __init__(self, frame: Frame, name: str, texts: Texts, parts: str, row: str) -> None:
        """``parts`` says how many tell; ``row`` is a block's row where several have words, else empty."""
        self.name, self.parts, self.row = name, parts, row
        self.words = [_words_of(text) for text in texts]
        self._count = sum(map(len, self.words))
        self._at_once = max(1, _AT_ONCE // self._count)
        frame.helpers.add("told")
        if any("whole(" in member for words in self.words for word in words for member in word.members):
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
        words = [word for words in self.words for word in words]
        lines = [f"tell({self._at(i, part)}, {word.first}, {word.second});" for i, word in enumerate(words)]
        return [*self._of_row(), *block(f"if ({condition})", lines)]

    def hear(self, texts: Texts) -> list[str]:
        """The loop by which the threads of the last block enter all parts into ``texts``."""
        said = [f"said_{i}" if self._count > 1 else "said" for i in range(self._count)]
        asks = [f"ask({self._at(i, 'part')})" for i in range(self._count)]
        if self._at_once == 1:  # a part has several words, which are on their way together
            body = [f"const unsigned long long {name} = {ask};" for name, ask in zip(said, asks, strict=True)]
            head = f"for (int part = threadIdx.x; part < {self.parts}; part += THREADS)"
            return ["#pragma unroll 1", *block(head, [*body, *self._entered(texts, said)])]
        part, there = "const int part = from + i * THREADS;", f"part < {self.parts}"
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
        head = f"for (int from = threadIdx.x; from < {self.parts}; from += {self._at_once} * THREADS)"
        return block(head, body)

    def _entered(self, texts: Texts, said: Sequence[str]) -> list[str]:
        """Hear every word of a part, and enter it."""
        lines, number = list[str](), 0
        for text, words in zip(texts, self.words, strict=True):
            members = list[str]()
            for word in words:
                told = f"told_{number}" if self._count > 1 else "told"
                lines.append(f"const float2 {told} = hear({self._at(number, 'part')}, {said[number]});")
                members += [member.format(told=told, before=f"told_{number - 1}") for member in word.members]
                number += 1
            lines.append(text.enter_partial(members))
        return lines

    def _of_row(self) -> list[str]:
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


def _words_of(text: AccumulatorText) -> list[_Word]:
    """Numbers of one partial result in words: floats by two, whole numbers alone, beside a 1.

    A word of two zeros would say nothing; ``tell`` makes them -0 and 0, which only floats may become.
    """
    found, floats = list[_Word](), list[str]()

    def flush() -> None:
        for i in range(0, len(floats), 2):
            pair = floats[i : i + 2]
            members = ("{told}.x", "{told}.y")[: len(pair)]
            found.append(_Word(pair[0], pair[1] if len(pair) > 1 else "1.0f", members))
        floats.clear()

    for member, dtype in text.members:
        value = f"{text.name}.{member}" if member else text.name
        if dtype == "f32":
            floats.append(value)
            continue
        flush()
        match dtype:
            case "i32":
                found.append(_Word(f"__int_as_float({value})", "1.0f", ("__float_as_int({told}.x)",)))
            case "bool":
                found.append(_Word(f"{value} ? 1.0f : 0.0f", "1.0f", ("{told}.x != 0.0f",)))
            case _:
                low, high = f"__uint_as_float(unsigned({value}))", f"__uint_as_float(unsigned({value} >> 32))"
                found.append(_Word(low, "1.0f", ()))
                found.append(_Word(high, "1.0f", ("whole({before}.x, {told}.x)",)))
    flush()
    return found
