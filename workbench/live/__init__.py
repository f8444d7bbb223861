"""A session being worked on: its thread, team and device behind one object. The plain Python entry."""

from workbench.live.live_session import LiveSession
from workbench.live.looking import RecordedSession, look
from workbench.live.parts import Best
from workbench.live.start import capture, optimize, resume

__all__ = ["Best", "LiveSession", "RecordedSession", "capture", "look", "optimize", "resume"]
