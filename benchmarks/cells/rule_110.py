"""Sixteen generations of the cellular automaton of rule 110, on rings of cells."""

import torch


def rule_110(cells):
    for _ in range(16):
        left, right = torch.roll(cells, 1, 1), torch.roll(cells, -1, 1)
        cells = (cells | right) & ~(left & cells & right)
    return cells


inputs = [torch.randint(0, 2, (16384, 1024), dtype=torch.uint8).bool()]
