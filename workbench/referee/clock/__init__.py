"""The referee's clock: how long a kernel takes, and whether it is faster than what it is held against.

Owns sampling, statistics and verdicts of time. ``options``, ``samples``, ``statistics``, ``stopping``,
``verdicts``, ``suspicion``, ``simulated`` and ``store`` are pure of torch; the rest runs in a worker child
that has a GPU. Never decides whether a result is right.
"""
