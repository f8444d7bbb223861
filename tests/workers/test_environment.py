"""The allow-list of variables."""

from __future__ import annotations

from workbench.workers.environment import FIXED, scrubbed


def test_only_what_is_listed() -> None:
    kept = {"PATH": "/bin", "HOME": "/home/a", "CUDA_VISIBLE_DEVICES": "1", "WORKBENCH_PCH_CACHE": "/c"}
    secrets = {
        "OPENAI_API_KEY": "k",
        "PATHS": "x",
        "MY_PATH": "x",
        "WORKBENCH_TOKEN": "k",
        "LD_PRELOAD": "x.so",
    }
    assert scrubbed(kept | secrets) == kept | FIXED
