import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import SessionError
from workbench.events import EVENT, AgentFailed, Event, HintGiven, RoundStarted
from workbench.session.journal import Journal, read_journal, read_times

EVENTS: tuple[Event, ...] = (
    RoundStarted(round=1),
    HintGiven(text="use\nshared memory ✓", by="person"),
    AgentFailed(role="reasoner", message="no answer"),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def write(path: Path, *events: Event) -> None:
    journal = Journal(path, 0, lambda: 1763.25)
    journal.append(events)
    journal.close()


def test_what_was_appended_is_read(path: Path) -> None:
    journal = Journal(path, 0)
    journal.append(EVENTS[:1])
    journal.append(EVENTS[1:], durable=False)
    journal.close()
    assert read_journal(path) == (EVENTS, path.stat().st_size)
    assert len(path.read_text().splitlines()) == 3


def test_a_line_says_when_it_was_written_and_the_event_does_not(path: Path) -> None:
    write(path, *EVENTS)
    old = EVENT.dump_json(HintGiven(text='a line may end with ,"at":1.5}', by="person")) + b"\n"
    path.write_bytes(path.read_bytes() + old)
    events, _ = read_journal(path)
    assert events[:3] == EVENTS and isinstance(events[3], HintGiven) and events[3].text.endswith('"at":1.5}')
    assert read_times(path) == (1763.25, 1763.25, 1763.25, None)


@given(st.data())
def test_a_line_torn_anywhere_is_left_out(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("torn") / "journal.jsonl"
    write(path, *EVENTS)
    whole = path.read_bytes()
    last = len(EVENT.dump_json(EVENTS[-1])) + len(',"at":1763.250\n')
    kept = len(whole) - last
    path.write_bytes(whole[: kept + data.draw(st.integers(0, last - 1))])
    events, size = read_journal(path)
    assert (events, size) == (EVENTS[:2], kept)
    journal = Journal(path, size)
    journal.append(EVENTS[2:])
    journal.close()
    assert read_journal(path) == (EVENTS, path.stat().st_size)


def test_opening_cuts_off_a_long_torn_line(path: Path) -> None:
    write(path, *EVENTS)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b'{"kind":"hint_given","text":"' + b"x" * 1000)
    journal = Journal(path, size)
    journal.append(EVENTS[:1])
    journal.close()
    assert read_journal(path) == ((*EVENTS, EVENTS[0]), path.stat().st_size)


def test_a_last_line_of_zeros_as_after_a_power_cut_is_left_out(path: Path) -> None:
    write(path, *EVENTS)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + bytes(30) + b"\n")
    assert read_journal(path) == (EVENTS, size)


@pytest.mark.parametrize(
    "line", [b"{", b'{"kind":"round_started","round":"many"}', b'{"kind":"dinner"}', b""]
)
def test_a_damaged_line_is_named(path: Path, line: bytes) -> None:
    write(path, *EVENTS)
    lines = path.read_bytes().splitlines()
    lines[1] = line
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(SessionError, match=r"journal.jsonl, line 2 is no event \(.*\); restore") as caught:
        read_journal(path)
    assert len(str(caught.value).splitlines()) == 1


def test_a_last_event_of_another_version_is_no_torn_line(path: Path) -> None:
    write(path, *EVENTS)
    path.write_bytes(path.read_bytes() + b'{"kind":"from_the_future"}\n')
    with pytest.raises(SessionError, match="line 4"):
        read_journal(path)


def full_after(bytes_left: int) -> object:
    """A pwrite that writes what fits and then says what a full disk says."""
    real = os.pwrite
    left = bytes_left

    def pwrite(file: int, data: bytes, offset: int) -> int:
        nonlocal left
        if left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real(file, data[:left], offset)
        left -= written
        return written

    return pwrite


@pytest.mark.parametrize("room", [0, 1, 20])
def test_a_full_disk_leaves_whole_lines(path: Path, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    journal = Journal(path, 0)
    journal.append(EVENTS[:1])
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full_after(room))
        with pytest.raises(SessionError, match=r"the disk is full.*free some space, then resume"):
            journal.append(EVENTS[1:])
    assert read_journal(path)[0] == EVENTS[:1]
    assert path.read_bytes().endswith(b"\n")
    journal.append(EVENTS[1:])  # space was freed
    journal.close()
    assert read_journal(path)[0] == EVENTS


def test_a_disk_that_fails_to_sync_has_not_recorded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(path, 0)

    def fsync(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(SessionError, match="Input/output error"):
            journal.append(EVENTS)
    journal.close()
    assert read_journal(path) == ((), 0)


def test_a_journal_that_cannot_be_mended_takes_no_more(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(path, 0)
    journal.append(EVENTS[:1])

    def refuse(*_: int) -> None:
        raise OSError(errno.EIO, "dead")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full_after(5))
        patch.setattr(os, "ftruncate", refuse)
        with pytest.raises(SessionError, match="the disk is full"):
            journal.append(EVENTS[1:])
    with pytest.raises(SessionError, match="could not be mended"):
        journal.append(EVENTS[1:])
    journal.close()
    assert read_journal(path)[0] == EVENTS[:1]  # the torn line is left out


def test_a_real_limit_on_the_file_is_a_full_disk(path: Path) -> None:
    code = """
import resource, sys
from pathlib import Path
from workbench.errors import SessionError
from workbench.events import HintGiven
from workbench.session.journal import Journal
journal = Journal(Path(sys.argv[1]), 0)
resource.setrlimit(resource.RLIMIT_FSIZE, (1200, 1200))
try:
    while True:
        journal.append([HintGiven(text="x" * 90, by="person")])
except SessionError as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert "the disk is full" in ran.stdout
    events, size = read_journal(path)
    assert len(events) == 7
    assert size == path.stat().st_size


def test_a_journal_that_is_not_there(path: Path) -> None:
    with pytest.raises(SessionError, match=r"there is no session in .*check the path"):
        read_journal(path)
