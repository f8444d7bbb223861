"""Fresh inputs, error bounds and comparisons against float64. Runs in worker children.

All of it imports torch but ``digits``, ``flags`` and ``kinds``, which others read without it.
"""
