"""A convolution's kernel as it is written: its sides and channels in words, and how values are found.

Owns names and indices; convolution_kernel.py and convolution_pieces.py write statements with them.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.playbook.ir.program import Convolution, Side
from workbench.playbook.ir.sizes import Size
from workbench.playbook.kernels.convolution_tiling import LANES, Tiling
from workbench.playbook.kernels.kernel_text import Frame
from workbench.playbook.kernels.result_frame import ResultFrame

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
    def results(self) -> ResultFrame:
        """What is made of a result at its place along the axes."""
        places = ("image", "channel", *("depth", "row", "col")[-len(self.made.sides) :])
        return ResultFrame(self.frame, self.made, places)
