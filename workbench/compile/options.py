"""How NVRTC is called, and the fingerprint of everything but the source that decides its output."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib import metadata
from pathlib import Path

from workbench.errors import DeviceError

SHIM = Path(__file__).parent / "shim"
"""Headers that a host compiler would have and NVRTC lacks."""
PRELUDE = "workbench_prelude.h"
STD = "c++17"
SEED = "workbench"
"""Of the names the compiler gives to internals of a header. Without one they hold a number of the process,
and the machine code of a source never comes out twice."""
PACKAGES = ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-crt", "nvidia-cuda-cccl", "cuda-core")
HEADERS = {
    "nvidia-cuda-runtime": "cuda_runtime.h",
    "nvidia-cuda-crt": "crt/mma.h",
    "nvidia-cuda-cccl": "cub/cub.cuh",
}
"""A header of each wheel that tells where its include folder is."""


@cache
def package_versions() -> dict[str, str]:
    """Installed versions of the wheels compilation depends on. Raises ``DeviceError`` for a missing one."""
    try:
        return {name: metadata.version(name) for name in PACKAGES}
    except metadata.PackageNotFoundError as missing:
        raise DeviceError(f"package {missing.name} is not installed; pip install {missing.name}") from missing


def nvrtc_version() -> str:
    """Version of the compiler."""
    return package_versions()["nvidia-cuda-nvrtc"]


@cache
def include_folders() -> tuple[str, ...]:
    """Shim first, then the headers of each wheel, which may be installed apart. Raises ``DeviceError``."""
    package_versions()
    folders = [_folder_of(package, header) for package, header in HEADERS.items()]
    return (str(SHIM), *dict.fromkeys(folders))


def _folder_of(package: str, header: str) -> str:
    for file in metadata.files(package) or ():
        if file.as_posix().endswith(f"/{header}"):
            return str(file.locate()).removesuffix(f"/{header}")
    raise DeviceError(f"package {package} has no {header}; reinstall it")


@cache
def fingerprint() -> str:
    """Changes with the compiler, its headers, the shim or the options."""
    shim = {path.name: path.read_text() for path in sorted(SHIM.iterdir()) if path.is_file()}
    facts = json.dumps([package_versions(), shim, STD, PRELUDE, SEED])
    return hashlib.sha256(facts.encode()).hexdigest()
