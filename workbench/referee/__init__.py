"""Judges a kernel: compile, run, compare, model of time. The parent side imports no torch."""
