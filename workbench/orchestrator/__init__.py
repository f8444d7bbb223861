"""The loop: ask search what to do, do it, record what happened."""

from workbench.orchestrator.loop import Clock, reopen, run

__all__ = ["Clock", "reopen", "run"]
