import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.errors import SessionError
from workbench.session.lock import FolderLock

HOLD = """
import sys, time
from pathlib import Path
from workbench.session.lock import FolderLock
lock = FolderLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


def test_one_holder_in_a_process(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    with pytest.raises(SessionError, match="already open in this process"):
        FolderLock(tmp_path)
    lock.release()
    lock.release()
    FolderLock(tmp_path).release()


def test_the_other_process_is_named_and_its_death_frees_the_folder(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    with holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(SessionError, match=f"is open in process {holder.pid}; stop") as caught:
            FolderLock(tmp_path)
        assert len(str(caught.value).splitlines()) == 1
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    FolderLock(tmp_path).release()


FORK = """
import os, sys, time
from pathlib import Path
from workbench.session.lock import FolderLock
lock = FolderLock(Path(sys.argv[1]))
read, write = os.pipe()
if os.fork() == 0:
    print(os.getpid(), flush=True)
    os.write(write, b".")
    time.sleep(600)
os.read(read, 1)
os._exit(0)
"""


def test_the_lock_does_not_live_on_in_a_forked_child(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", FORK, tmp_path], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    with holder.stdout:
        child = int(holder.stdout.readline())
        holder.wait()
        FolderLock(tmp_path).release()
        os.kill(child, signal.SIGKILL)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match=r"cannot write .*No such file"):
        FolderLock(tmp_path / "missing")
