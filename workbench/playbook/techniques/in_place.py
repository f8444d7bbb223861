"""What kernels can make of a problem's convolutions and products, asked once.

Owns the answers that offers.py gives again for every vector: a network has sixty convolutions, and a search
begins with hundreds of vectors.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.model import H100
from workbench.playbook.analysis.matrix_products import worth_a_product
from workbench.playbook.ir.program import Convolution, InPlaceOfCall, MatrixProduct
from workbench.playbook.kernels.convolution_tiling import BLOCKS, TILES
from workbench.playbook.kernels.convolution_tiling import tiling_of as tiles_of_convolution
from workbench.playbook.kernels.patches_tiling import THREADS, pairable, patches_tiling, shares_of
from workbench.playbook.kernels.product_times import blocks_of, splits_of
from workbench.playbook.schedules.schedule import EACH, schedule_of


@dataclass(frozen=True)
class Shared:
    """Numbers of blocks that may share the terms of a tile, and what suits each product."""

    splits: frozenset[int] = frozenset()
    own: frozenset[int] = frozenset()


@dataclass(frozen=True)
class InPlace:
    """Ways in which kernels can do the work of library calls."""

    tiles: frozenset[tuple[str, str]] = frozenset()
    """Tiles of float32 units and threads of a block with which there is room for every convolution."""
    are_products: bool = False
    """Every convolution can be a product whose rows are channels."""
    patches: tuple[str, ...] = ()
    """Threads of a block with which every convolution can be a product whose rows are places."""
    are_paired: bool = False
    """The same with channels in pairs, where these can be had."""
    differ: bool = False
    """One convolution at least can be made on tensor cores, and there are others, or blocks that read some of
    its channels each: the model of time has something to choose."""
    shared_convolutions: Shared = Shared()
    shared_products: Shared = Shared()


def in_place_of(
    convolutions: Sequence[Convolution],
    products: Sequence[MatrixProduct],
    cases: Sequence[Mapping[str, int]],
) -> InPlace:
    """What can be done at the declared sizes."""
    as_products = [made for made in convolutions if worth_a_product(made, cases)]
    shared_products = _shared(products, cases)
    if not convolutions:
        return InPlace(shared_products=shared_products)
    pairs = [replace(made, paired=pairable(made)) for made in convolutions]
    some = [threads for threads in THREADS if any(_fit([made], threads, cases) for made in convolutions)]
    return InPlace(
        tiles=frozenset(
            one for one in itertools.product(TILES, BLOCKS) if _has_room(convolutions, *one, cases)
        ),
        are_products=len(as_products) == len(convolutions),
        patches=tuple(str(threads) for threads in some if _fit(convolutions, threads, cases)),
        are_paired=any(made.paired for made in pairs)
        and any(_fit(pairs, threads, cases) for threads in THREADS),
        differ=bool(as_products or some)
        and (len(convolutions) > 1 or any(_may_share(made, cases) for made in convolutions)),
        shared_convolutions=_shared(as_products, cases),
        shared_products=shared_products,
    )


def _has_room(
    made: Iterable[Convolution], tile: str, threads: str, cases: Sequence[Mapping[str, int]]
) -> bool:
    schedule = schedule_of((("block_size", threads), ("convolution", tile)))
    return all(tiles_of_convolution(one, schedule, cases) is not None for one in made)


def _fit(made: Iterable[Convolution], threads: int, cases: Sequence[Mapping[str, int]]) -> bool:
    return all(patches_tiling(one, threads, cases) is not None for one in made)


def _may_share(made: Convolution, cases: Sequence[Mapping[str, int]]) -> bool:
    """True where blocks may share the terms of a tile of places."""
    return any(len(list(shares_of(made, threads, cases))) > 1 for threads in THREADS)


def _shared(made: Sequence[InPlaceOfCall], cases: Sequence[Mapping[str, int]]) -> Shared:
    processors = H100.sm_count
    return Shared(
        frozenset(blocks for one in made for blocks in splits_of(one, cases, processors)),
        frozenset(blocks_of(one, EACH, cases, processors) for one in made),
    )
