"""Which kernels a reduction along rows gets: by the length of its rows, and by how many there are.

Owns the choice: a warp for short rows, a row that waits on the chip where it fits, one that is read again
where it does not, several blocks a row where rows are few. The plan branches on the sizes.
"""

from __future__ import annotations

from dataclasses import replace

from workbench.playbook.analysis.row_passes import RowSpace
from workbench.playbook.analysis.row_shapes import scheduled_shape
from workbench.playbook.ir.program import Kernel
from workbench.playbook.kernels.abreast_apart import abreast_apart
from workbench.playbook.kernels.abreast_kernel import AbreastKernel
from workbench.playbook.kernels.abreast_vectors import abreast_vectors
from workbench.playbook.kernels.cluster_rows import cluster_kernel
from workbench.playbook.kernels.kernel_text import KernelText, ShapedText, Site, SplitText
from workbench.playbook.kernels.row_kernel import row_kernel
from workbench.playbook.kernels.split_kernel import split_kernel
from workbench.playbook.kernels.totals_kernel import totals_kernel
from workbench.playbook.schedules.fitting import (
    MOST_THREADS_OF_PIECE,
    Clustered,
    RowShape,
    always_split,
    by_length,
    clustered_part,
    for_declared,
    kept_part,
    lie_at_odd_places,
    prefetch_from,
)
from workbench.playbook.schedules.schedule import SHORT_ROW, Schedule, split_from
from workbench.playbook.text.names import Names


def row_step(site: Site, kernel: Kernel, name: str, names: Names) -> KernelText | SplitText | ShapedText:
    """The kernel with its schedule fitted: one, or one for short rows and others for long."""
    space = RowSpace(site.program.pool, kernel)
    shape = scheduled_shape(space, kernel, site.schedule)
    site = replace(site, schedule=for_declared(site.schedule, shape, site.cases[: site.declared]))
    short, long = by_length(site.schedule, shape, site.cases)
    if long is None:
        assert short is not None
        return any_row_kernel(replace(site, schedule=short), kernel, name)
    layers = _Layers(site, kernel, name, names, shape)
    if short is None:
        return layers.step(long)
    brief = any_row_kernel(replace(site, schedule=short), kernel, names.new(f"{name}_short"))
    return ShapedText(space.columns, SHORT_ROW, brief, layers.step(long))


class _Layers:
    """Kernels for rows that are not short."""

    def __init__(self, site: Site, kernel: Kernel, name: str, names: Names, shape: RowShape) -> None:
        self.site = site
        self.kernel = kernel
        self.name = name
        self.names = names
        self.shape = shape

    def step(self, long: Schedule) -> KernelText | SplitText | ShapedText:
        """One team a row, or several where rows are few."""
        if long.cluster > 1 and (found := clustered_part(self.site.schedule, self.shape, self.site.cases)):
            return self._clustered(long, found)
        return self._alone(long)

    def _clustered(self, long: Schedule, found: Clustered) -> ShapedText:
        """A block, a cluster, and whatever there is for rows too long even for that."""
        fits = self._kept(found.alone)
        # What is joined across multiprocessors costs microseconds: dependent reductions go there together.
        together = replace(found.shared, single_pass=self.site.schedule.single_pass)
        if not together.promised and 2 * together.threads <= MOST_THREADS_OF_PIECE:
            together = replace(
                together, promised=MOST_THREADS_OF_PIECE
            )  # two blocks fill each other's pauses
        name = self.names.new(f"{self.name}_cluster")
        shared = cluster_kernel(replace(self.site, schedule=together), self.kernel, name)
        rest = self._alone(replace(long, cache="reread"), self.names.new(f"{self.name}_reread"))
        far = ShapedText(self.shape.columns, found.most * together.cluster, shared, rest)
        return ShapedText(self.shape.columns, found.most_alone, fits, far)

    def _alone(self, long: Schedule, name: str = "") -> KernelText | SplitText | ShapedText:
        columns = self.shape.columns.number
        never = columns is not None and columns <= split_from(long)
        if never or not (long.split and long.fuse):
            return self.whole(long, name)
        plain = None if always_split(long, self.shape, self.site.cases) else self.whole(long, name)
        asked = self.site.schedule
        joint = replace(long, single_pass=asked.single_pass, prefetch=asked.prefetch)
        return split_kernel(replace(self.site, schedule=joint), self.kernel, self.name, self.names, plain)

    def whole(self, long: Schedule, name: str = "") -> KernelText | ShapedText:
        """One team a row: rows that fit on the chip wait there, longer ones are read again."""
        if name:
            return any_row_kernel(replace(self.site, schedule=long), self.kernel, name)
        found = kept_part(self.site.schedule, self.shape, self.site.cases)
        if found is None:
            return self._kept(long)
        kept, most = found
        fits = self._kept(kept)
        if kept.cache == "registers" and isinstance(fits, KernelText):  # the branch says what the limit would
            fits = replace(fits, limits=replace(fits.limits, fits=""))
        name = self.names.new(f"{self.name}_reread")
        rest = any_row_kernel(replace(self.site, schedule=long), self.kernel, name)
        return ShapedText(self.shape.columns, most, fits, rest)

    def _kept(self, kept: Schedule) -> KernelText | ShapedText:
        """The next row is copied ahead where one block fills a multiprocessor, and nowhere else."""
        enough = prefetch_from(self.shape)
        columns = self.shape.columns.number
        if not kept.prefetch or (columns is not None and columns > enough):
            return any_row_kernel(replace(self.site, schedule=kept), self.kernel, self.name)
        persistent = self.site.schedule.persistent
        alone = replace(kept, prefetch=False, persistent=persistent)
        shorter = any_row_kernel(replace(self.site, schedule=alone), self.kernel, self.name)
        name = self.names.new(f"{self.name}_ahead")
        ahead = any_row_kernel(replace(self.site, schedule=kept), self.kernel, name)
        return ShapedText(self.shape.columns, enough, shorter, ahead)


def any_row_kernel(site: Site, kernel: Kernel, name: str) -> KernelText:
    """Write the kernel of a schedule, whoever computes a row."""
    if kernel.tail is not None:
        return totals_kernel(site, kernel, name)
    if site.schedule.team != "bundle":
        return row_kernel(site, kernel, name)
    site.macros.name(kernel.stores[0].columns, "COLS")
    site.macros.name(kernel.stores[0].rows, "ROWS")
    shape = scheduled_shape(RowSpace(site.program.pool, kernel), kernel, site.schedule)
    if not shape.beside:
        return AbreastKernel(site, kernel, name).text()
    at_odd_places = lie_at_odd_places(shape, site.cases[: site.declared])
    several = (abreast_apart if at_odd_places else abreast_vectors)(site, kernel, name)
    return several or AbreastKernel(site, kernel, name).text()
