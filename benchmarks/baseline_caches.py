"""What torch.compile made on a machine that is lent for minutes, taken along to the next one.

Compiling the grid's baselines took 222 s on an H100 with 16 cores. The caches hold it: Inductor's graphs and
Triton's machine code, under the same folder on the next machine of the same image. Only what a hit reads is
packed: no intermediate code, none of the choices among compiled kernels, which are made by the clock anew.

    python benchmarks/baseline_caches.py pack FOLDER [--mib 30]    caches-1.tgz, ... of at most 15 MiB each
    python benchmarks/baseline_caches.py unpack FOLDER             into this machine's cache folder

Another version of torch or Triton finds nothing in them and compiles as before.
"""

from __future__ import annotations

import argparse
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workbench.compile.cache import cache_folder

CACHES = ("inductor", "triton")
NOT_READ = frozenset({".ttir", ".ttgir", ".llir", ".ptx", ".source", ".best_config", ".lock", ".tmp"})
"""Endings of what nobody reads on a hit, or must not: choices."""
A_FILE_MIB = 15.0
MIB = 2**20


class Packed(NamedTuple):
    """What came of packing."""

    files: tuple[Path, ...]
    entries: int
    left_out: int
    """Files for which there was no room."""


def read_on_a_hit(root: Path) -> Iterator[Path]:
    """Files worth taking, small caches of graphs first; entries of one kernel one after the other."""
    for cache in CACHES:
        for path in sorted((root / cache).rglob("*")):
            if path.is_file() and path.suffix not in NOT_READ and not path.name.startswith("tmp."):
                yield path


def pack(root: Path, out: Path, most_mib: float, a_file_mib: float = A_FILE_MIB) -> Packed:
    """Write archives of at most ``a_file_mib`` each and ``most_mib`` together into ``out``."""
    wanted = list(read_on_a_hit(root))
    made: list[Path] = []
    taken, done_bytes = 0, 0
    while taken < len(wanted) and done_bytes < most_mib * MIB:
        room = min(a_file_mib * MIB, most_mib * MIB - done_bytes)
        made.append(out / f"caches-{len(made) + 1}.tgz")
        count = _filled(made[-1], root, wanted[taken:], room)
        taken, done_bytes = taken + count, done_bytes + made[-1].stat().st_size
        if not count:
            made.pop().unlink()
            break
    return Packed(tuple(made), taken, len(wanted) - taken)


def _filled(archive: Path, root: Path, paths: list[Path], room: float) -> int:
    """Add files until the next might not fit; how many were added. A file is taken to shrink not at all."""
    count = 0
    with archive.open("wb") as raw, tarfile.open(fileobj=raw, mode="w:gz", compresslevel=6) as tar:
        for path in paths:
            if raw.tell() + path.stat().st_size + 0.02 * room > room:
                break
            tar.add(path, path.relative_to(root))
            count += 1
    return count


def unpack(folder: Path, root: Path) -> int:
    """Extract every archive of ``pack`` into a cache folder; how many there were."""
    archives = sorted(folder.glob("caches-*.tgz"))
    root.mkdir(parents=True, exist_ok=True)
    for archive in archives:
        with tarfile.open(archive) as tar:
            tar.extractall(root, filter="data")
    return len(archives)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("pack", "unpack"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mib", type=float, default=30.0, help="of all archives together")
    given = parser.parse_args()
    started = time.monotonic()
    if given.what == "unpack":
        print(f"{unpack(given.folder, cache_folder())} archives unpacked, {time.monotonic() - started:.1f} s")
        return
    found = pack(cache_folder(), given.folder, given.mib)
    size = sum(path.stat().st_size for path in found.files) / MIB
    print(
        f"{found.entries} files in {len(found.files)} archives, {size:.1f} MiB; {found.left_out} left out; "
        f"{time.monotonic() - started:.1f} s"
    )


if __name__ == "__main__":
    main()
