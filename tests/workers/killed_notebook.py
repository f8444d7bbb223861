"""Stands for a notebook that is about to be killed. Arguments: file for pids, ``copied`` or ``alone``."""

from __future__ import annotations

import os
import signal
import sys

from workbench.workers import ForkServer, Limits

server = ForkServer(())
server.call("misbehaviour:facts", b"", Limits())
copy = 0
if sys.argv[2] == "copied":  # as multiprocessing does: the copy holds every socket of the original
    copy = os.fork()
    if copy == 0:
        signal.pause()
running = server._server
assert running is not None
print(running._process.pid, running._scratch, copy, flush=True)
server.call("misbehaviour:spawn", sys.argv[1].encode(), Limits())
