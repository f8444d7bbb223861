"""The referee's clock: how long a kernel takes, and whether it is faster than what it is held against.

Owns sampling, statistics and verdicts of time. ``contestants``, ``gpu``, ``graphs``, ``measure``,
``rotation`` and ``sanity`` import torch, and ``tracing`` loads CUPTI: they run in a worker child. All else is
pure of both. Never decides whether a result is right.
"""
