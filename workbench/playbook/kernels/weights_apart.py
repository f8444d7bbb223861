"""The weights of a convolution as tensor cores take them: laid out and taken apart once, before its kernel.

Owns the text of that small kernel, and where each of its results is; patches_kernel.py copies these as is.
"""

from __future__ import annotations

from workbench.playbook.analysis.places import phases_of
from workbench.playbook.ir.program import Buffer, Convolution
from workbench.playbook.ir.sizes import ONE
from workbench.playbook.kernels.kernel_text import Frame, KernelText, Site, block
from workbench.playbook.kernels.patches_tiling import PatchTiling
from workbench.playbook.kernels.product_tiling import TERMS
from workbench.playbook.kernels.seen_places import SeenPlaces
from workbench.playbook.kernels.seen_weights import SeenWeights
from workbench.playbook.text.names import Names
from workbench.playbook.text.scope import statement

_THREADS = 256


def sets_of(made: Convolution, tiling: PatchTiling) -> int:
    """Sets of weights that tiles meet: one for each group, kind of places, and part of the channels."""
    groups = made.groups.number
    assert groups is not None  # a convolution's own number
    return groups * phases_of(made) * tiling.channel_tiles


def apart_buffer(site: Site, made: Convolution) -> str:
    """The buffer that they wait in."""
    name = Names([*site.program.buffers, *site.partials]).new(f"{made.weight}_apart")
    site.partials[name] = Buffer(name, "f32", (ONE,), "partial")
    return name


def elements_apart(made: Convolution, tiling: PatchTiling) -> int:
    """How long it is."""
    return sets_of(made, tiling) * tiling.pieces * 2 * tiling.stored * TERMS


def weights_apart(site: Site, made: Convolution, name: str, tiling: PatchTiling, buffer: str) -> KernelText:
    """Write the kernel that fills it."""
    frame = Frame(site, Names(_WORDS), (buffer,), helpers={"split_in_two"}, own_threads=_THREADS)
    sides = SeenPlaces(made, frame.macros.text)
    weights = SeenWeights(sides)
    rows, reads = frame.macros.text(made.made), frame.macros.text(made.read)
    count, taps = f"{reads} * {sides.taps}" if sides.taps > 1 else reads, weights.taps
    groups, kinds, tiles = made.groups.number or 1, sides.phases, tiling.channel_tiles
    group = "" if groups == 1 else "matrix" if kinds == 1 else f"matrix / {kinds}"
    own = "line" if tiles == 1 else f"set % {tiles} * {tiling.columns} + line"
    if made.transposed:
        place = f"(channel * {rows} + own){weights.turned(known=True)}"
    else:
        place = f"own * {count} + of_all" if " " not in count else f"own * ({count}) + of_all"
    if group:
        place = f"size_t({group}) * {rows} * {reads} * {taps} + {place}"
    source, to = frame.pointer(made.weight), frame.pointer(buffer)
    lines = [
        "// Weights as tensor cores take them: of each set, and each piece of TERMS, WIDE lines of a channel",
        "// each; first what TF32 has of them, then what is left. Where there is no weight lies zero. Pieces",
        "// of 16 bytes have changed places in a line, so that eight lines are in different banks.",
        f"constexpr int TERMS = {TERMS}, PIECES = {tiling.pieces}, WIDE = {tiling.stored};",
        f"constexpr int SETS = {sets_of(made, tiling)};",
        f"const int e = blockIdx.x * {_THREADS} + threadIdx.x;",
        "const int term = e % TERMS, line = e / TERMS % WIDE, piece = e / (TERMS * WIDE) % PIECES;",
        "const int set = e / (TERMS * WIDE * PIECES);",
        *block("if (set >= SETS)", ["return;"]),
        f"const int own = {own};",
        *([f"const int matrix = set{f' / {tiles}' if tiles > 1 else ''};"] if groups * kinds > 1 else []),
        "const int of_all = piece * TERMS + term;",
        *(weights.channel_and_tap("of_all") if made.transposed else []),
        *(sides.kind("matrix") if made.transposed else []),
        *statement(f"const bool there = own < {rows} && of_all < {count}{weights.is_tap()};"),
        "unsigned int high, low;",
        *statement(f"split_in_two(there ? {source}[{place}] : 0.0f, high, low);"),
        *statement(
            f"unsigned int* const to = reinterpret_cast<unsigned int*>({to}) "
            "+ e / (TERMS * WIDE) * (2 * TERMS * WIDE);"
        ),
        "const int at = line * TERMS + (term / 4 ^ line % 8) * 4 + term % 4;",
        "to[at] = high;",
        "to[TERMS * WIDE + at] = low;",
    ]
    elements = elements_apart(made, tiling) // 2
    return frame.finish(name, lines, str(-(-elements // _THREADS)))


_WORDS = """
TERMS PIECES WIDE SETS e term line piece set own matrix of_all channel tap kind_depth kind_row kind_col there
high low to at
""".split()  # noqa: SIM905
