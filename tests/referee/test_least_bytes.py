"""The bytes a result is made of: tables as far as they are looked up in, views as far as they are read."""

from __future__ import annotations

import pytest

from workbench.model import H100
from workbench.problem.capture import read_cell
from workbench.problem.intake import open_problem
from workbench.referee.clock.physics import physics_of
from workbench.referee.least_bytes import Moved, least_moved

CELLS = {
    "a table, looked up in": (
        "inputs = (torch.tensor([3, 1, 3, 0]), torch.randn(1000, 8))\n"
        "def f(rows, table):\n    return torch.nn.functional.embedding(rows, table)\n",
        Moved(4 * 8 + 4 * 8 * 4, 4 * 8 * 4),
    ),
    "a table smaller than what is looked up": (
        "inputs = (torch.arange(100) % 3, torch.randn(3, 8))\ndef f(rows, table):\n    return table[rows]\n",
        Moved(100 * 8 + 3 * 8 * 4, 100 * 8 * 4),
    ),
    "half of a tensor": (
        "inputs = (torch.randn(6, 10),)\ndef f(x):\n    return x[:, 5:] * 2\n",
        Moved(30 * 4, 30 * 4),
    ),
    "both halves, one of them twice": (
        "inputs = (torch.randn(6, 10),)\ndef f(x):\n    return x[:, 5:] * x[:, :5] + x[:, 5:]\n",
        Moved(60 * 4, 30 * 4),
    ),
    "both pieces of a split": (
        "inputs = (torch.randn(6, 10),)\n"
        "def f(x):\n    one, other = x.chunk(2, -1)\n    return one * other\n",
        Moved(60 * 4, 30 * 4),
    ),
    "one piece of a split, twice": (
        "inputs = (torch.randn(6, 9),)\n"
        "def f(x):\n    one, other, last = x.chunk(3, -1)\n    return last * last.exp()\n",
        Moved(18 * 4, 18 * 4),
    ),
    "a piece that is returned, and another": (
        "inputs = (torch.randn(6, 10),)\n"
        "def f(x):\n    one, other = x.split([4, 6], -1)\n    return one.exp(), other.sum(1)\n",
        Moved(60 * 4, (24 + 6) * 4),
    ),
    "a row given to all": (
        "inputs = (torch.randn(6, 10), torch.randn(1, 10))\n"
        "def f(x, row):\n    return (x + row.expand(6, 10)).sum(1)\n",
        Moved((60 + 10) * 4, 6 * 4),
    ),
    "the first row of each, when all have been normalised": (
        "inputs = (torch.randn(6, 10, 8),)\n"
        "def f(x):\n    return torch.nn.functional.layer_norm(x, (8,))[:, 0]\n",
        Moved(6 * 8 * 4, 6 * 8 * 4),
    ),
    "all rows but the first, of a softmax and of its row sums": (
        "inputs = (torch.randn(6, 10), torch.randn(6, 1))\n"
        "def f(x, y):\n    return (x.softmax(1) * y)[1:], x.sum(1)[1:]\n",
        Moved((50 + 5) * 4, (50 + 5) * 4),
    ),
    "all of a normalised axis that is cut": (
        "inputs = (torch.randn(6, 10),)\ndef f(x):\n    return x.softmax(1)[:, 1:]\n",
        Moved(60 * 4, 54 * 4),
    ),
    "the head of the last token": (
        "inputs = (torch.randn(6, 10, 8), torch.randn(12, 8), torch.randn(12))\n"
        "def f(x, w, b):\n"
        "    return torch.nn.functional.linear(torch.nn.functional.layer_norm(x, (8,)), w, b)[:, -1]\n",
        Moved((6 * 8 + 12 * 8 + 12) * 4, 6 * 12 * 4),
    ),
    "some columns of a product": (
        "inputs = (torch.randn(6, 10), torch.randn(10, 12))\ndef f(a, b):\n    return (a @ b)[:, 3:7]\n",
        Moved((60 + 40) * 4, 24 * 4),
    ),
    "half precision": (
        "inputs = (torch.randn(6, 10, dtype=torch.float16),)\ndef f(x):\n    return x.float().sum(1)\n",
        Moved(60 * 2, 6 * 4),
    ),
}


@pytest.mark.many(3)
@pytest.mark.parametrize("what", CELLS)
def test_what_a_result_is_made_of(what: str) -> None:
    source, wanted = CELLS[what]
    problem = open_problem(read_cell("import torch\n" + source))
    assert least_moved(problem, problem.cases[0]) == wanted


def test_a_kernel_is_held_to_the_rows_that_are_wanted() -> None:
    """Read in the order in which they are wanted, the others are not read at all: that is no fraud."""
    cell = "inputs = (torch.randn(256, 197, 768),)\ndef f(x):\n    return F.layer_norm(x, (768,))[:, {}]\n"
    needed = {}
    for rows in ("0", "1:", ":"):
        problem = open_problem(
            read_cell("import torch\nimport torch.nn.functional as F\n" + cell.format(rows))
        )
        needed[rows] = physics_of(problem, problem.cases[0], H100).dram_bytes
    assert needed["0"] == 256 * 768 * 4
    assert needed["1:"] == 2 * 256 * 196 * 768 * 4 - H100.l2_bytes
    assert needed[":"] == 2 * 256 * 197 * 768 * 4 - H100.l2_bytes
