"""From a person's PyTorch code to a ``Problem``: capture, intake, trace, the reference itself.

``capture`` and ``intake`` run in the notebook process and never import torch; everything that runs
the person's code lives in modules that only worker children import.
"""
