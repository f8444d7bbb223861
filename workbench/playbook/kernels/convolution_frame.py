"""A convolution's kernel as it is written: its sides and channels in words, and how values are found.

Owns names and indices; convolution_kernel.py and convolution_pieces.py write statements with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.playbook.analysis.pairs import steps_along
from workbench.playbook.ir.expr import Expr, Index, Load
from workbench.playbook.ir.program import Convolution, Side
from workbench.playbook.ir.sizes import Size
from workbench.playbook.ir.views import View
from workbench.playbook.kernels.convolution_tiling import LANES, Tiling
from workbench.playbook.kernels.kernel_text import Frame, lookup_text
from workbench.playbook.text.cuda_text import SUM, Text
from workbench.playbook.text.indexing import index_text
from workbench.playbook.text.scope import Scope

_WORDS = """
image channel depth lane line place first first_row first_col first_channel block_at taps seen sums value
weights c z q e b s o down across inside group own_channels i rest met window plane from_depth from_row
from_col seen_depth seen_row seen_col seen_from taps_from taps_to buffer bring turned result SEEN TAPS
""".split()  # noqa: SIM905
"""What the kernel calls its own."""


@dataclass
class ConvolutionFrame:
    """The kernel being written."""

    frame: Frame
    made: Convolution
    tiling: Tiling

    def __post_init__(self) -> None:
        for word in _WORDS:
            self.frame.names.new(word)
        self.source = self.frame.pointer(self.made.source)
        self.weight = self.frame.pointer(self.made.weight)

    def size(self, size: Size) -> str:
        return self.frame.macros.text(size)

    # -------------------------------------------------------------------------------- sides and channels

    @property
    def deep(self) -> Side | None:
        return self.made.deep

    @property
    def some_planes(self) -> bool:
        """True where a plane of results meets some weights along the depth: ``met`` from ``rest`` on."""
        return self.made.transposed and self.deep is not None and self.deep.stride > 1

    @property
    def down(self) -> Side | None:
        return self.made.down

    @property
    def right(self) -> Side:
        return self.made.right

    @property
    def several(self) -> bool:
        """True where a thread has places side by side, in array elements ``[s]``."""
        return self.tiling.beside > 1

    @property
    def places(self) -> str:
        """What the kernel calls the number of a thread's places, counted by ``b``."""
        return "BELOW" if self.down else "ALONG"

    @property
    def same_places(self) -> bool:
        """True where all warps of a block have the same places, of channels of their own."""
        return self.tiling.channels // self.tiling.each * LANES == self.tiling.threads

    @property
    def held(self) -> str:
        """Index of the piece at hand, where the next one arrives beside it."""
        return "[buffer]" if self.comes_ahead else ""

    @property
    def comes_ahead(self) -> bool:
        """True where the next piece is on its way while one is taken in."""
        return self.tiling.waiting > 1

    def in_layer(self, down: str, across: str, deep: str = "z") -> str:
        """Indices of what waits in shared memory, behind its channel."""
        layer = f"[{deep}]" if self.deep else ""
        return f"{layer}{f'[{down}]' if self.down else ''}[{across}]"

    @property
    def in_one_piece(self) -> bool:
        """True where all channels of the input wait in shared memory together."""
        reads = self.made.read.number
        return reads is not None and reads <= self.tiling.piece

    @property
    def may_end(self) -> bool:
        """True where the last piece may have fewer channels than the others."""
        reads = self.made.read.number
        return reads is None or reads % self.tiling.piece != 0

    @property
    def read(self) -> str:
        """A channel of the input, of those of the group."""
        return "c" if self.in_one_piece else "first + c"

    @property
    def has_all_channels(self) -> bool:
        """True where a block has all channels of a group."""
        own = self.made.made.number
        return own is not None and own <= self.tiling.channels

    @property
    def has_more_channels(self) -> bool:
        """True where a block may have more channels than there are."""
        own = self.made.made.number
        return own is None or own % self.tiling.channels != 0

    @property
    def own(self) -> str:
        """The first channel of the block, as the beginning of a sum."""
        return "" if self.has_all_channels else "first_channel + "

    def of_group(self, channels: Size) -> str:
        """So many channels for each group before, as the beginning of a sum."""
        return "" if self.made.groups.is_one else f"group * {self.size(channels)} + "

    # -------------------------------------------------------------------------------- results

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Names of a result's place along the axes."""
        return ("image", "channel", *("depth", "row", "col")[-len(self.made.sides) :])

    @property
    def linear(self) -> str:
        """The number of a result among all."""
        code = "size_t(image)"
        for at, (name, size) in enumerate(zip(self.coordinates[1:], self.made.shape[1:], strict=True)):
            code = f"{f'({code})' if at else code} * {self.size(size)} + {name}"
        return code

    def index(self, view: View) -> Text:
        """The element that a view over the line of results finds at the coordinates; ``i`` is the line's."""
        steps = steps_along(self.made.shape, view)
        if view.is_linear or steps is None or view.offset.is_negative:
            return index_text(view, "i", self.frame.macros, wide=True)
        if any(step.is_negative for step in steps):
            return index_text(view, "i", self.frame.macros, wide=True)
        terms = [
            name if step.is_one else f"size_t({name}) * {self.size(step)}"
            for name, step in zip(self.coordinates, steps, strict=True)
            if not step.is_zero
        ]
        terms += [] if view.offset.is_zero else [self.size(view.offset)]
        return Text(" + ".join(terms) or "0", SUM)

    def scope(self, bound: Mapping[int, Text]) -> Scope:
        """Statements at the coordinates; ``bound`` has the result."""

        def leaf(expr: Expr) -> Text:
            assert isinstance(expr, (Load, Index))
            base = self.index(expr.view)
            if isinstance(expr, Index):
                return Text(f"static_cast<{'int' if expr.dtype == 'i32' else 'long long'}>({base.code})")
            code = lookup_text(expr, base, self.frame, scope.text)
            return self.frame.value(expr, self.frame.element(expr.buffer, code))

        fast = self.frame.site.schedule.fast_math
        scope = Scope(leaf, self.frame.names, self.frame.macros, fast, bound)
        return scope
