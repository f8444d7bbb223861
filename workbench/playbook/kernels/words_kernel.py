"""Blocks that tell one another their parts in single words: together_kernel.py's meeting without its barrier.

Owns the text of that meeting. A barrier of the whole grid is a way to memory and back for the fence, one for
the counter, and one for the parts that are read after it; a word that carries a part and the news that it is
there needs one, as in a scan by look-back. The words are the kernel's own and zero between its launches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from workbench.playbook.analysis.accumulators import AccumulatorText
from workbench.playbook.analysis.row_passes import Accumulator
from workbench.playbook.ir.program import Kernel
from workbench.playbook.kernels.kernel_text import KernelText, Site, block
from workbench.playbook.kernels.split_launch import Partials
from workbench.playbook.kernels.together_kernel import TogetherKernel

MOST_BLOCKS = 4096
"""Blocks that a kernel has words for. A plan asks for as many as half of a card's threads: of the smallest
blocks, 64 threads, 16 on each of 256 multiprocessors; an H100 has 132."""


class WordsKernel(TogetherKernel):
    """The one launch, whose blocks wait for words instead of a barrier."""

    def __init__(self, site: Site, kernel: Kernel, name: str, partials: Partials, vector: bool) -> None:
        super().__init__(site, kernel, name, partials, vector)
        self.told = 0
        self.meetings = sum(bool(step.accumulators) for step in self.passes)

    @property
    def tells(self) -> bool:
        """True where every partial result consists of numbers that go into words by two."""
        accumulators = (accumulator for step in self.passes for accumulator in step.accumulators)
        return all(dtype == "f32" for one in accumulators for _, dtype in self._accumulator(one).members)

    def text(self) -> KernelText:
        """Write it, and the variables that are zero between its launches."""
        text = super().text()
        own = [
            "// What blocks tell one another, and how many have heard all; zero between launches, of which",
            "// one may run at a time.",
            f"__device__ unsigned long long {self.name}_told[{self.told * MOST_BLOCKS}];",
            f"__device__ unsigned int {self.name}_heard;",
        ]
        return replace(text, code="\n".join([*own, "", text.code]))

    def _shared_by_all(self, accumulators: list[Accumulator]) -> list[str]:
        """Tell what this piece amounts to, hear what all pieces amount to."""
        self.frame.helpers.add("words")
        first, lines = self.told, []
        for text in self._made:
            members = [f"{text.name}.{member}" if member else text.name for member, _ in text.members]
            lines += [f"tell({self._word('blockIdx.y', k)}, {pair});" for k, pair in self._pairs(members)]
        lines = [
            *([] if first else ["const unsigned int blocks = gridDim.x * gridDim.y;"]),
            "// Each block tells all others what its piece amounts to, and waits for their words.",
            *(block(f"if ({self.team.leads})", lines) if self.team.leads else lines),
        ]
        self.told = first
        lines += self._gathered([self._accumulator(one) for one in accumulators])
        self.meetings -= 1
        if not self.meetings:
            lines.append("unsigned int heard_before = 0;")
            lines += block(
                "if (threadIdx.x == 0)", [f"heard_before = atomicInc(&{self.name}_heard, blocks - 1);"]
            )
        return lines

    def _pairs(self, members: Sequence[str]) -> list[tuple[int, str]]:
        """The words of a partial result: their places, and two members each; beside a single one stands 1."""
        found = []
        for i in range(0, len(members), 2):
            found.append((self.told, ", ".join([*members[i : i + 2], "1.0f"][:2])))
            self.told += 1
        return found

    def _word(self, part: str, number: int) -> str:
        """A pointer to a word of a piece of this row."""
        row = "" if self.space.rows.is_one else "blockIdx.x * pieces + "
        before = f"{number} * blocks + " if number > 1 else "blocks + " if number else ""
        return f"{self.name}_told + {before}{row}{part}"

    def _gathered(self, texts: list[AccumulatorText]) -> list[str]:
        """Join what the pieces of this row tell."""
        reads, entered = [], []
        for text in texts:
            members = list[str]()
            for number, _ in self._pairs([name for name, _ in text.members]):
                name = self.frame.names.new("told")
                reads.append(f"const float2 {name} = heard({self._word('part', number)});")
                members += [f"{name}.x", f"{name}.y"]
            entered.append(text.enter_partial(members[: len(text.members)]))
        head = "for (int part = threadIdx.x; part < pieces; part += THREADS)"
        return self._around(texts, block(head, [*reads, *entered]))

    def _left_behind(self) -> list[str]:
        """The words as they were before the launch."""
        words = f"{self.told} * blocks" if self.told > 1 else "blocks"
        return [f"forget({self.name}_told, {words}, heard_before == blocks - 1);"]
