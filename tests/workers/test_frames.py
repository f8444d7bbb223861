"""Framing: any cut of the stream gives the same messages, any other bytes are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.workers import frames
from workbench.workers.frames import FrameReader, GarbledChannel, encode

NONCE = b"n" * frames.NONCE_BYTES


@given(st.lists(st.tuples(st.sampled_from(frames.KINDS), st.binary(max_size=50))), st.data())
def test_any_cut_gives_the_same_frames(messages: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    stream = b"".join(encode(NONCE, kind, body) for kind, body in messages)
    reader, seen = FrameReader(NONCE), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        seen += reader.feed(stream[:size])
        stream = stream[size:]
    assert seen == messages


@given(st.binary(min_size=frames.HEADER.size))
def test_other_bytes_are_refused(garbage: bytes) -> None:
    with pytest.raises(GarbledChannel):
        FrameReader(NONCE).feed(garbage)


@pytest.mark.parametrize(
    "header",
    [
        frames.HEADER.pack(b"m" * frames.NONCE_BYTES, frames.RETURNED, 0),
        frames.HEADER.pack(NONCE, b"?", 0),
        frames.HEADER.pack(NONCE, frames.RETURNED, frames.LARGEST_BODY + 1),
    ],
)
def test_wrong_header_is_refused(header: bytes) -> None:
    with pytest.raises(GarbledChannel):
        FrameReader(NONCE).feed(header)


def test_body_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "LARGEST_BODY", 10)
    assert FrameReader(NONCE).feed(encode(NONCE, frames.MESSAGE, b"0123456789"))
    with pytest.raises(ValueError, match="11 bytes"):
        encode(NONCE, frames.MESSAGE, b"0123456789a")
