"""A worker function that pretends to hold a GPU: warms up, answers, breaks, hangs as it is told."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

ASKED: list[bytes] = []


def serve(payload: bytes, send: Callable[[bytes], None]) -> bytes:
    word, _, rest = payload.decode().partition(" ")
    match word:
        case "warm":
            time.sleep(float(rest or 0))
            return f"warm {os.getpid()}".encode()
        case "fails":
            raise RuntimeError("no kernel image is available")
        case "segfault":
            os.abort()
        case "hang":
            send(b"hanging")
            time.sleep(60)
        case "broken" | "running":
            return payload
        case _:
            ASKED.append(payload)
            send(b"heard")
    return f"{os.getpid()} {len(ASKED)}".encode()
