"""What a plan reads its sizes off: the axes of arguments, one by one."""

import torch

from tests.playbook.running import run
from tests.problem.test_intake import opened
from workbench.playbook.generate import generate


def test_a_size_that_is_a_sum_is_read_where_its_parts_are() -> None:
    """``h`` is two shorter than ``g`` and ``b`` together: neither is read off its one axis."""
    source = "def f(h, g, b):\n    return torch.nn.functional.pad(h, (0, 2)) + torch.cat([g, b])\n"
    problem = opened(f"{source}inputs = [torch.rand(30), torch.randn(20), torch.randn(12)]\n")
    tensors = {"h": torch.rand(40), "g": torch.randn(25), "b": torch.randn(17)}
    source = generate(problem, ()).kernel.source
    (found,) = run(source, tensors, "checked").outputs
    right = torch.nn.functional.pad(tensors["h"], (0, 2)) + torch.cat([tensors["g"], tensors["b"]])
    torch.testing.assert_close(found, right)
