"""Adds up what the launches of one execution asked of memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from workbench.emulator.values import LaunchCounts
from workbench.model import AccessSite, Counts


def total(case: str, launches: Sequence[LaunchCounts], sites: Iterable[AccessSite]) -> Counts:
    """Counts of one case: the sums over its launches, and the requests at each source line."""
    return Counts(
        case=case,
        launches=len(launches),
        sectors=sum(launch.sectors for launch in launches),
        ideal_sectors=sum(launch.ideal_sectors for launch in launches),
        load_bytes=sum(launch.load_bytes for launch in launches),
        store_bytes=sum(launch.store_bytes for launch in launches),
        barriers=sum(launch.barriers for launch in launches),
        sites=merge_sites(sites),
    )


def merge_sites(sites: Iterable[AccessSite]) -> tuple[AccessSite, ...]:
    """Add up the instructions of one line that do the same: the compiler may have unrolled it."""
    groups: dict[tuple[int, str, str, int], list[AccessSite]] = {}
    for site in sites:
        groups.setdefault((site.line, site.space, site.kind, site.width_bytes), []).append(site)
    return tuple(
        group[0].model_copy(
            update={
                "requests": sum(site.requests for site in group),
                "transactions": sum(site.transactions for site in group),
                "ideal_transactions": sum(site.ideal_transactions for site in group),
            }
        )
        for _, group in sorted(groups.items())
    )
