"""Techniques that change instructions and registers of a kernel, not its structure.

Owns their names, values and prose, and when they make sense.
"""

from __future__ import annotations

from workbench.playbook.analysis.lines import worth_lines
from workbench.playbook.kernels.early_loads import short_enough
from workbench.playbook.schedules.fitting import team_for
from workbench.playbook.schedules.schedule import schedule_of
from workbench.playbook.techniques import offers
from workbench.playbook.techniques.technique import Settings, Technique
from workbench.playbook.techniques.traits import Traits


def _chains(traits: Traits, settings: Settings) -> tuple[str, ...]:
    vectors = settings.get("vector_width", "1") != "1"
    return (
        ("one", "many")
        if vectors and any(r.shape.neighbours or r.bundles for r in traits.kinds_of_rows)
        else ()
    )


def _reciprocals(traits: Traits, settings: Settings) -> tuple[str, ...]:
    return ("off", "on") if traits.divides and settings["fusion"] == "all" else ()


def _occupancy(traits: Traits, settings: Settings) -> tuple[str, ...]:
    if not traits.kinds_of_rows or settings.get("row_cache") != "registers":
        return ()
    small = settings.get("block_size") not in ("1024", "fit")
    return ("free", "half", "full") if small else ("free", "full")


def _early(traits: Traits, settings: Settings) -> tuple[str, ...]:
    schedule = schedule_of(tuple(settings.items()))
    if schedule.cache != "registers" or schedule.width == 1 or schedule.split or schedule.cluster > 1:
        return ()
    if schedule.stream or schedule.prefetch:
        return ()
    for row in traits.kinds_of_rows:
        own = schedule.but(team=team_for(schedule, row.shape))
        if row.late and short_enough(row.shape, own, traits.declared_cases):
            return ("off", "on")
    return ()


def _index_width(traits: Traits, settings: Settings) -> tuple[str, ...]:
    left = traits.flat_kernels > offers.in_place_of_calls(traits, settings)
    return ("64", "32") if left and traits.narrow_indices else ()


def _stored(traits: Traits, settings: Settings) -> tuple[str, ...]:
    left = traits.kernels > offers.in_place_of_calls(traits, settings)
    return ("plain", "streamed") if left and settings.get("stream_hints") == "off" else ()


def _bundle_lanes(traits: Traits, settings: Settings) -> tuple[str, ...]:
    return ("most", "32", "16", "8") if settings.get("columns_by") == "bundle" else ()


def _lines(traits: Traits, settings: Settings) -> tuple[str, ...]:
    schedule = schedule_of(tuple(settings.items()))
    if settings["fusion"] == "none" or schedule.fit or schedule.persistent or not schedule.width:
        return ()
    able = any(worth_lines(lines, schedule, traits.declared_cases) for lines in traits.lines)
    return ("off", "2", "4", "8") if able else ()


def _backwards(traits: Traits, settings: Settings) -> tuple[str, ...]:
    schedule = schedule_of(tuple(settings.items()))
    if settings["fusion"] == "none" or schedule.persistent or schedule.items > 1:
        return ()
    if schedule.launches == "turns":  # which finds all of it in L2
        return ()
    in_planes = bool(schedule.tile or schedule.lines)
    return ("off", "on") if any(in_planes or not apart for apart in traits.again) else ()


FINE_TUNING = (
    Technique(
        name="lines_a_thread",
        title="a thread keeps its place in several lines",
        values=("off", "2", "4", "8"),
        offers=_lines,
        structural=False,
        bottleneck="compute",
        look_for="instructions an element; loads of weights and means beside those of the data",
        teaches=(
            "What normalises channels-last images reads beside each element its channel's weight and bias, "
            "and its group's mean: with a thread for each vector, four loads for one, and a division by the "
            "channels and by those of a group to find them. Groups of ten channels do not even begin at "
            "the borders of vectors, so that each element is divided for by itself. A thread that has the "
            "same channels in four pixels finds all of that once, in 32 bits, keeps it in registers, and has "
            "four vectors of the data on their way together."
        ),
    ),
    Technique(
        name="backwards",
        title="the second pass goes backwards",
        values=("off", "on"),
        offers=_backwards,
        structural=False,
        bottleneck="memory",
        look_for="L2 hit rate of the second pass; bytes from memory against two reads of the data",
        teaches=(
            "Statistics want all of the data before the first result can be written, so it is read twice. "
            "When the first pass ends, L2 has what it has read last. A second pass that begins at the "
            "beginning finds nothing: the caches keep what was used last, and each line that it needs is "
            "pushed out shortly before it gets there. One that goes from the end to the beginning finds "
            "the last 25 MB or so where they are. That is all of a small tensor either way, half of 50 MB, "
            "and a tenth of 250 MB."
        ),
    ),
    Technique(
        name="bundle_lanes",
        title="how wide a bundle of columns is",
        values=("most", "32", "16", "8"),
        offers=_bundle_lanes,
        structural=False,
        bottleneck="latency",
        look_for="time between the end of the loop and that of the launch; bank conflicts",
        teaches=(
            "Where a matrix has few columns, wide bundles are few, and each is cut into many pieces: 1024 "
            "columns of float16 in four bundles of 256 are 132 pieces each, and the one block that joins a "
            "bundle reads 540 KB, five microseconds through the one way that a multiprocessor has to L2. "
            "Eight lanes that read 16 bytes each fill a line of 128 bytes as well as 32 lanes do. Their "
            "bundles are sixteen, of 33 pieces: sixteen blocks join 34 KB each. Before that a block joins "
            "its own groups through shared memory, whose 32 banks serve one word each a clock. Eight "
            "neighbours a thread, written side by side, put the first ones of 32 threads into four banks: "
            "one place in 33 stays empty, and none of them meet."
        ),
    ),
    Technique(
        name="chains",
        title="independent chains in a reduction",
        values=("one", "many"),
        offers=_chains,
        structural=False,
        bottleneck="latency",
        look_for="cycles a warp waits for the result of its last instruction",
        teaches=(
            "sum += x[0]; sum += x[1]; ... is one chain: each addition waits some four cycles for the one "
            "before it, a step of Welford's or of an online softmax well over a hundred. With one "
            "accumulator for each element of a vector there are as many chains as elements, all under way "
            "at once, and they are joined when the loop has ended. A compiler may not do this by itself, "
            "because floating-point addition in another order rounds differently."
        ),
    ),
    Technique(
        name="reciprocal",
        title="one division a row",
        values=("off", "on"),
        offers=_reciprocals,
        structural=False,
        bottleneck="compute",
        look_for="instructions an element; error against float64, which must stay within the bound",
        teaches=(
            "An exact division is about ten instructions, an approximate reciprocal and two steps that "
            "correct it, and a function that is called for extreme numbers. Where a row is divided by one "
            "value, one reciprocal a row and one multiplication an element do. The product rounds twice "
            "where the quotient rounds once. The playbook does so by itself where the divisor cannot be "
            "tiny, such as a softmax's sum; here it is done for numbers and for any other value a row, "
            "whose reciprocal could overflow below 1e-38."
        ),
    ),
    Technique(
        name="occupancy",
        title="a promise of blocks a multiprocessor",
        values=("free", "half", "full"),
        offers=_occupancy,
        structural=False,
        bottleneck="latency",
        look_for="registers a thread, spills, blocks resident on a multiprocessor",
        teaches=(
            "A multiprocessor has 65,536 registers and room for 2048 threads. The compiler does not know "
            "how many blocks are meant to live there, so it may take 40 registers where 32 would let a "
            "third more threads in. __launch_bounds__(THREADS, BLOCKS) is a promise that makes it keep to "
            "its share, at the price of spilling to memory what no longer fits. More threads hide more "
            "latency; a spill inside the loop costs more than that."
        ),
    ),
    Technique(
        name="early_loads",
        title="ask early for what is needed late",
        values=("off", "on"),
        offers=_early,
        structural=False,
        bottleneck="latency",
        look_for="time at few rows; loads that stand behind the last barrier in the machine code",
        teaches=(
            "A load from memory takes some 600 ns, and a norm of few rows waits for two: for the row, "
            "and, after both reductions, for the weight and the bias. Nobody needs the sums to know which "
            "weights will be read. The compiler puts a load off until shortly before it is used, behind the "
            "barriers; asked for first, through a load that it may not move, all travel together. Each "
            "takes a register until then. Where many rows are under way others fill the gap."
        ),
    ),
    Technique(
        name="index_width",
        title="indices of 32 bits",
        values=("64", "32"),
        offers=_index_width,
        structural=False,
        bottleneck="compute",
        look_for="instructions an element, most of all where an index is divided to broadcast",
        teaches=(
            "A GPU's integer units are 32 bits wide: a 64-bit addition is two instructions, a 64-bit "
            "product four, and a 64-bit division or remainder, which broadcasting needs to tell row from "
            "column, dozens. Below two thousand million elements an int is enough. The plan checks it."
        ),
    ),
    Technique(
        name="stores",
        title="stream what is written, keep what is read",
        values=("plain", "streamed"),
        offers=_stored,
        structural=False,
        bottleneck="memory",
        look_for="L2 hit rate of what is read again while results are written",
        teaches=(
            "A result that nobody reads soon takes as much room in L2 as data that is read again in the next "
            "pass. __stcs marks only the stores as streaming: the output leaves first, and loads are left "
            "as they are. Where the inputs are used once too, mark them as well (stream_hints)."
        ),
    ),
)
