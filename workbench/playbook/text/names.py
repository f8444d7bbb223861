"""Names in the generated text: unique, readable, never a word of C++ or of the plan language.

Owns the choice of identifiers and of the macros that carry sizes.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping

from workbench.playbook.ir.sizes import Size, Sizes

_CPP = frozenset(
    """alignas alignof and asm auto bool break case catch char class const constexpr continue default delete
    do double else enum explicit extern false float for friend goto if inline int long namespace new not
    operator or private protected public register return short signed sizeof static struct switch template
    this throw true try typedef union unsigned using virtual void volatile while xor
    std main signal div labs tanh sinh cosh asin acos atan atan2 hypot fmod erfc cbrt trunc round rint log2
    log10 log1p exp2 expm1 fmax fmin remainder assert printf malloc free clock time remove rename
    half exp log sin cos tan abs max min pow sqrt erf floor ceil round fabs y0 y1 yn j0 j1 jn gamma index
    acosh asinh atanh copysign lgamma tgamma erfinv erfcx normcdf normcdfinv cyl_bessel_i0 cyl_bessel_i1 frexp
    ldexp modf fma fdim cbrt rcbrt nextafter nearbyint lrint llrint lround llround logb ilogb scalbn scalbln
    remquo sincos sinpi cospi sincospi exp10 rsqrt rhypot abort exit qsort
    load_repeated row col lane warp i k chunk begin end threadIdx blockIdx blockDim gridDim warpSize
    Pack load store load_once store_once larger smaller sign floordiv python_mod integer_power exchange fetch
    fetch_or_zero
    block_reduce block_scan cluster_reduce look_back shift_up warp_reduce isnan isinf isfinite signbit
    block_scan_parts told forget arrives_last across_groups group first last edge has_edge own load_where
    across_lines load_group load_if add_several
    idle there across at join_groups tell heard heard_before ask hear whole said row_told blocks pieces part
    add_vector quotient over over_shared usual_scale store_at join_groups_each load_within store_within
    meet PIECE
    BLOCKS WHOLE item first_row next_row of_row fetch_step cluster ticket drawn turn clusters after_next
    cluster_meet has_row base_row fast_erf shared on_chip
    load_now job Job LANES BUNDLE GROUPS ROOM PER_THREAD SHARE_OF_LANE THREADS VEC exp_below take_vector
    take_vectors logsum_of raised moved taken nearest_bf16 load_run Run IN_RUN APART left_by right_by
    load_rows store_rows store_rows_once FEW WIDE byte_of
    join_lanes SUMS ALIKE DEEP
    block_reduce_both load_row SIDE PIECES DOWN ABREAST BEFORE SEEN stacked_scan InWords tell_totals join_told
    place_in pieces_before forget_pieces PACKS load_word word_of parts_of add_at put_at add_all arrive_at
    wait_for pass_by largest_at smallest_at lane_scan last_lane store_tile store_tile_once store_padded
    store_padded_once ROWS_HERE FIT split_in_two multiply_add products_begin products_end products_done
    right_at side_by_side show_to_tensor_cores copy_or_zero summed_alone BLOCK TALL TERMS STAGES JOINED
    NEEDED IN_THREES IN_FOURS OF_ALL ROUND FURTHER KINDS PLACES TILES TILES_DOWN TILES_ACROSS TOGETHER
    LEFT_LINE LEFT RIGHT LINE ACROSS CHUNK CHANNELS_READ PLACES_DOWN PLACES_ACROSS PATCH PATCH_DEEP
    PATCH_DOWN PATCH_ACROSS PATCH_LINE RING COPIES COPIED BEFORE CHANNEL_TILES AT_ONCE
    AT_BORDERS BELOW BOX_ACROSS BOX_DOWN BYTES EACH FIRST HALF HALVES_OF_LAST HELD KEPT MADE MANY MOST
    OF_WINDOW OWN PARTS PLACES_OF_WEIGHTS REACH RESULTS SEEN_ACROSS SEEN_DOWN SETS SHARE SHARES SIZE SLACK
    ALL GATES GATE_ROW HIDDEN INPUTS LAYERS OF_BATCH STATES TEAM UNITS WAYS WIDEST AT_A_TIME
    ALL_ROWS STEPS GROUP OF_ROW hear_rows load_told tell_state logistic
    SPAN STRETCHES TILE VECTORS WARPS WINDOWS WINDOW_DOWN WORD WORDS ZERO
""".split()  # noqa: SIM905
)


class Names:
    """Hands out identifiers of one scope."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {*taken, *_CPP}

    def inner(self) -> Names:
        """Names of a block inside this scope."""
        return Names(self._taken)

    def new(self, stem: str) -> str:
        """``stem``, or the stem with a number when it is taken."""
        stem = re.sub(r"\W|_+", "_", stem).strip("_") or "value"  # C++ keeps names with __ for itself
        stem = f"_{stem}" if stem[0].isdigit() else stem
        stem = f"{stem}_values" if stem in _CPP else stem
        name, number = stem, 1
        while name in self._taken:
            number += 1
            name = f"{stem}_{number}"
        self._taken.add(name)
        return name


_MOST_WORDS = 7
"""Of a size's name; the plan has the whole expression."""
_TIMES = "_TIMES_"
_TELLING = 5
"""Constant sizes from here on are written by name; smaller numbers may be anything."""


class Macros:
    """Sizes as compile-time constants of one file; remembers which ones its text uses."""

    def __init__(self, sizes: Sizes, locals_: Mapping[str, str], canonical: Mapping[Size, Size]) -> None:
        self._sizes = sizes
        self._locals = locals_
        self._canonical = canonical
        self._names = Names(["THREADS", "VEC"])
        self._known: dict[Size, str] = {}
        self.used: dict[str, Size] = {}

    def name(self, size: Size, stem: str) -> None:
        """Call a size by a name, unless it has one of its own: that of its axis, or a small number."""
        axis = size in self._canonical and len(self._canonical[size].factors) == 1
        if size not in self._known and not axis and (size.number is None or size.number >= _TELLING):
            self._known[size] = self._names.new(stem)

    def text(self, size: Size) -> str:
        """A number or the name of a macro."""
        if size not in self._known:
            if size.number is not None:
                return str(size.number)
            self._known[size] = self._names.new(self._describe(size))
        name = self._known[size]
        self.used[name] = size
        return name

    def read(self, text: str) -> str:
        """The same for an expression over symbols."""
        return self.text(self._sizes.read(int(text) if text.isdigit() else text))

    def _describe(self, size: Size) -> str:
        words = self._canonical.get(size, size).spell(lambda symbol: self._locals[symbol])
        for sign, word in (("//", " by "), ("*", " "), ("+", " plus "), ("-", " minus "), ("%", " mod ")):
            words = words.replace(sign, word)
        found = re.findall(r"\w+", words)
        found.sort(key=str.isdigit)
        return "_".join(found).upper() if len(found) <= _MOST_WORDS else self._in_short(size)

    def _in_short(self, size: Size) -> str:
        """A number of something that has a name; else just a size."""
        found = [
            (by, name)
            for known, name in self._known.items()
            if known.number is None and _TIMES not in name and known.divides(size)
            if (by := (size // known).number) is not None
        ]
        by, name = min(found, default=(0, ""))
        return f"{name}{_TIMES}{by}" if name else "EXTENT"


_AXES = {
    1: ("n",),
    2: ("rows", "cols"),
    3: ("batch", "length", "width"),
    4: ("batch", "channels", "height", "width"),
    5: ("batch", "channels", "depth", "height", "width"),
}


def axis_names(tensor: str, ndim: int, taken: Container[str]) -> tuple[str, ...]:
    """Names for the sizes of a tensor; with its own name before those that another tensor has taken."""
    stems = _AXES.get(ndim) or tuple(f"axis_{axis}" for axis in range(ndim))
    return tuple(f"{tensor}_{stem}" if stem in taken else stem for stem in stems)
