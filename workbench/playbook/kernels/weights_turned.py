"""Weights laid out once, before a kernel: of a transposed convolution as an ordinary one has them, and those
of two channels side by side where a kernel reads channels in pairs.

Owns the text of that small kernel, and where each weight is then. Blocks of the convolution read the weights
again and again; as torch has them, those of a channel that is made lie far from one another.
"""

from __future__ import annotations

from workbench.playbook.analysis.places import met_taps_of, phases_of
from workbench.playbook.ir.program import Buffer, Convolution, Matrix
from workbench.playbook.ir.sizes import ONE, ZERO, Size, number
from workbench.playbook.kernels.kernel_text import Frame, KernelText, Site, block
from workbench.playbook.kernels.patches_tiling import terms_of
from workbench.playbook.kernels.seen_places import SeenPlaces
from workbench.playbook.kernels.seen_weights import SeenWeights
from workbench.playbook.text.cuda_text import CTYPES, stored
from workbench.playbook.text.names import Names
from workbench.playbook.text.scope import statement

_THREADS = 256
_WORDS = """
MADE TERMS LINE SETS e of_all own matrix channel tap kind_depth kind_row kind_col there begun
""".split()  # noqa: SIM905


def turned_weights(made: Convolution, buffer: str) -> Matrix:
    """The left factor in such a buffer: a matrix for each group and kind of places, whole pieces of terms."""
    line = _line(made)
    return Matrix(buffer, ZERO, made.made * line, line, ONE)


def turned_buffer(site: Site, made: Convolution) -> str:
    """A buffer for them."""
    name = Names([*site.program.buffers, *site.partials]).new(f"{made.weight}_turned")
    site.partials[name] = Buffer(name, made.dtype, (turned_elements(made),), "partial")
    return name


def turned_elements(made: Convolution) -> Size:
    """How long it is."""
    return _sets(made) * made.made * _line(made)


def _sets(made: Convolution) -> Size:
    return made.groups * number(phases_of(made))


def _line(made: Convolution) -> Size:
    terms, piece = made.read * number(met_taps_of(made)), terms_of(made.dtype)
    return (terms + number(piece - 1)) // number(piece) * number(piece)


def _channel_and_tap(weights: SeenWeights, paired: bool) -> list[str]:
    if not paired:
        return weights.channel_and_tap("of_all")
    taps = weights.sides.taps
    if taps == 1:
        return ["const int channel = of_all;"]
    return [
        f"const int channel = of_all / {2 * taps} * 2 + of_all % 2, tap = of_all / 2 % {taps};",
    ]


def weights_turned(site: Site, made: Convolution, name: str, buffer: str) -> KernelText:
    """Write the kernel that fills it."""
    frame = Frame(site, Names(_WORDS), (buffer,), own_threads=_THREADS)
    sides = SeenPlaces(made, frame.macros.text)
    weights = SeenWeights(sides)
    rows, reads = frame.macros.text(made.made), frame.macros.text(made.read)
    many, kinds = not _sets(made).is_one, sides.phases
    source, to = frame.pointer(made.weight), frame.pointer(buffer)
    if not made.groups.is_one:
        group = "matrix" if kinds == 1 else f"matrix / {kinds}"
        source += f" + size_t({group}) * {reads} * MADE * {weights.taps}"
    of_kinds = ", of each kind of places those that these meet" if kinds > 1 else ""
    told = [
        "// A transposed convolution is an ordinary one whose weights are read from the last tap to the",
        "// first, and lie by the channel that is read. Here each channel that is made has its weights in a",
        f"// LINE, as in an ordinary one{of_kinds}. What is behind the last is zero.",
    ]
    if not made.transposed:
        told = ["// Each channel that is made has its weights in a LINE. What is behind the last is zero."]
    if made.paired:
        told.append("// Those of two channels that are read are next to each other, tap by tap.")
    place = f"(channel * MADE + own){weights.turned(known=True)}"
    if not made.transposed:
        place = f"(own * {reads} + channel) * {weights.taps}{' + tap' if sides.taps > 1 else ''}"
    lines = [
        *told,
        f"constexpr int MADE = {rows}, TERMS = {reads} * {sides.taps};",
        f"constexpr int LINE = {frame.macros.text(_line(made))}, SETS = {frame.macros.text(_sets(made))};",
        f"const int e = blockIdx.x * {_THREADS} + threadIdx.x;",
        *block("if (e >= SETS * MADE * LINE)", ["return;"]),
        "const int of_all = e % LINE, own = e / LINE % MADE;",
        *(["const int matrix = e / (LINE * MADE);"] if many else []),
        *_channel_and_tap(weights, made.paired),
        *sides.kind("matrix"),
        f"const {CTYPES[made.dtype]}* const begun = {source};",
        *statement(f"const bool there = of_all < TERMS{weights.is_tap()};"),
        *statement(f"{to}[e] = there ? begun[{place}] : {stored('0.0f', made.dtype)};"),
    ]
    return frame.finish(name, lines, f"cdiv({site.size(turned_elements(made))}, {_THREADS})")
