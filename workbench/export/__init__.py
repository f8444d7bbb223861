"""Kernels that leave the workbench: one file that other harnesses can run and judge.

Text only: never compiles or runs what it writes.
"""

from workbench.export.kernelbench import kernelbench_file

__all__ = ["kernelbench_file"]
