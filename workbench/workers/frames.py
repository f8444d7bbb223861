"""Messages on a worker's channel: nonce, kind, length, body.

The nonce is made by the caller for one call and read by the child from the channel, so that bytes a
kernel happens to write to the descriptor are not taken for an answer. It is no defence against code
that searches its own process for the nonce.
"""

from __future__ import annotations

import struct

NONCE_BYTES = 16
HEADER = struct.Struct(f"!{NONCE_BYTES}scQ")
LARGEST_BODY = 2**28
"""Bytes; a frame that claims more is garbage."""

PAYLOAD, MESSAGE, RETURNED, RAISED = b"p", b"m", b"r", b"x"
KINDS = (PAYLOAD, MESSAGE, RETURNED, RAISED)


class GarbledChannel(Exception):
    """Bytes on the channel are not frames of this call."""


def encode(nonce: bytes, kind: bytes, body: bytes) -> bytes:
    """Return one frame. Raises ``ValueError`` for a body beyond ``LARGEST_BODY``."""
    if len(body) > LARGEST_BODY:
        raise ValueError(f"a message of {len(body)} bytes is more than a worker's channel carries")
    return HEADER.pack(nonce, kind, len(body)) + body


class FrameReader:
    """Cuts a byte stream into frames; fed with whatever arrived."""

    def __init__(self, nonce: bytes) -> None:
        self._nonce = nonce
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Return the (kind, body) pairs that ``data`` completes. Raises ``GarbledChannel``."""
        self._buffer += data
        frames = []
        while len(self._buffer) >= HEADER.size:
            nonce, kind, length = HEADER.unpack_from(self._buffer)
            if nonce != self._nonce or kind not in KINDS or length > LARGEST_BODY:
                raise GarbledChannel("the answer on the worker's channel was garbled")
            end = HEADER.size + length
            if len(self._buffer) < end:
                break
            frames.append((kind, bytes(self._buffer[HEADER.size : end])))
            del self._buffer[:end]
        return frames
