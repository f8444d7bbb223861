"""Complex numbers: pairs at the border, parts within, and the same numbers as torch's."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.export import export

from tests.problem.cells import opened
from workbench.errors import ProblemError
from workbench.problem.complex_rules import RULES
from workbench.problem.decompositions import kept_for_the_table
from workbench.problem.form import Form, bind
from workbench.problem.in_parts import has_complex
from workbench.problem.lowering import lowered
from workbench.problem.pairs import as_complex, as_pairs, results_as_pairs

Function = Callable[[Tensor, Tensor], Tensor]


def zeros_but_the_first(z: Tensor, r: Tensor) -> Tensor:
    out = torch.zeros(4, 9, dtype=torch.cdouble)
    out[:, :3] = z[:, :3] * 2
    out[:, 5] = 1.5
    return out


FUNCTIONS: dict[str, Function] = {
    "sums": lambda z, r: z + r - z.conj() * (2 - 1j) - 3,
    "alpha": lambda z, r: torch.sub(z, z.mT.mT * 1j, alpha=2),
    "products": lambda z, r: z * r * z * 1j * -1,
    "quotients": lambda z, r: z / (r + 3) + r / z + z / 2j + 1 / z,
    "powers": lambda z, r: z**3 + z**-2 + z**0.5 + 2**z + (r.abs() + 1) ** (z * 0.3),
    "lengths": lambda z, r: z.abs() + z.angle() + (z.real * 1j).abs() + z.norm(dim=1, keepdim=True),
    "unit": lambda z, r: z.sgn() + torch.zeros_like(z).sgn() + r.to(z.dtype),
    "turned": lambda z, r: torch.polar(r.abs(), r) * torch.exp(1j * r) + torch.exp(z * 0.1),
    "turned by a number": lambda z, r: (
        torch.exp(r + 2j) * torch.exp(2 + 1j * r) + (r + 1j).abs() + (r * 0 + 1j) ** r
    ),
    "roots": lambda z, r: z.sqrt() + (z * z).log() + z.cos() + z.sin(),
    "sideways": lambda z, r: torch.cat([z, r.to(z.dtype)], 1).flip(1).roll(2, 0)[:, ::2],
    "stacked": lambda z, r: torch.stack([z, z.conj()], -1).flatten(1).reshape(-1, 3),
    "real ones": lambda z, r: torch.view_as_real(torch.view_as_complex(torch.view_as_real(z) * 2)).sum(-1),
    "totals": lambda z, r: z.sum(1) + z.mean() + z.cumsum(1)[:, 2] + z.var(1) + z.std(),
    "chosen": lambda z, r: torch.where(r > 0, z, 0.5j) + torch.where(z == z.conj(), r, z),
    "equal": lambda z, r: (z == z.conj()) | (z.real.to(z.dtype) != z),
    "products of matrices": lambda z, r: z @ z.mT @ r.to(z.dtype) + torch.einsum("ij,kj->ik", z, z).real @ r,
    "products of matrices with one part": lambda z, r: (
        (r * 1j) @ z.mT + z @ (r.mT + 0j) + (1j * r) @ (1j * r.mT)
    ),
    "products of vectors": lambda z, r: (
        z @ z[0] + torch.vdot(z[1], z[2]) + torch.outer(z[0], z[1])[:, 0].sum()
    ),
    "gathered": lambda z, r: z[torch.tensor([2, 0])] + z.index_select(0, torch.tensor([1, 3])),
    "padded": lambda z, r: torch.nn.functional.pad(z, (1, 2)) + torch.full((4, 9), 2 - 1j),
    "pieces": lambda z, r: z.split([2, 4], 1)[1] * z.unbind(1)[0][:, None] + z.chunk(2, 1)[0][:, :1],
    "written": zeros_but_the_first,
    "cast": lambda z, r: z.to(torch.complex64).to(torch.complex128) + torch.tensor(1 + 2j),
    "spectrum": lambda z, r: torch.fft.fft(z, norm="ortho") + torch.fft.ifft2(z) + torch.fft.fft(r),
    "half a spectrum": lambda z, r: (
        torch.fft.irfft(torch.fft.rfft(r, n=16) * 2, n=15) + torch.fft.hfft(z, n=15)
    ),
    "spectra of images": lambda z, r: (
        torch.fft.irfft2(torch.fft.rfft2(r), s=r.shape).abs() + torch.fft.fftn(z).abs()
    ),
    "frames": lambda z, r: torch.stft(r, 4, window=torch.ones(4, dtype=r.dtype), return_complex=True).abs(),
}


class OfPairs(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, pairs: Tensor, r: Tensor) -> Tensor:
        return as_pairs(self.function(as_complex(pairs), r))


@pytest.mark.many(2)
@pytest.mark.filterwarnings("ignore::FutureWarning")  # of torch's own, where a constant is copied
@pytest.mark.parametrize("name", FUNCTIONS)
def test_parts_are_what_torch_makes_of_complex_numbers(name: str) -> None:
    torch.manual_seed(0)
    pairs, r = torch.randn(4, 6, 2, dtype=torch.double), torch.randn(4, 6, dtype=torch.double)
    module = OfPairs(FUNCTIONS[name])
    with torch.no_grad(), kept_for_the_table():
        program = lowered(export(module, (pairs, r), strict=False))
        made = torch.fx.Interpreter(program.graph_module).run(
            *(t.clone() for t in program.constants.values()), pairs, r
        )
        own = module(pairs, r)
    assert not has_complex(program.graph)
    assert made[0].dtype == own.dtype
    torch.testing.assert_close(made[0], own, rtol=1e-11, atol=1e-11)


ROTARY = """
import torch
def turned(q, turns):
    z = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
    return torch.view_as_real(z * turns[:, None]).flatten(2).type_as(q)

inputs = [torch.randn(6, 4, 16), torch.polar(torch.ones(6, 8), torch.randn(6, 8))]
shapes = [((12, 4, 16), (12, 8))]
"""


def test_a_complex_input_is_pairs_to_the_workbench() -> None:
    problem = opened(ROTARY)
    turns = problem.tensors[1]
    assert turns.in_pairs and turns.dtype == "f32" and turns.dims[-1] == 2
    assert not problem.tensors[0].in_pairs and not problem.outputs[0].in_pairs
    assert problem.cases[1].label.startswith("12x4x16")
    assert "complex" not in {spec.dtype for node in problem.graph.nodes for spec in node.outs}


def test_a_complex_result_is_marked_and_pairs_that_a_reference_returns_are_not() -> None:
    source = (
        "def f(x): return x * 2, torch.view_as_real(x) + 1\ninputs = [torch.randn(4, 6, dtype=torch.cfloat)]"
    )
    first, second = opened(f"import torch\n{source}").outputs
    assert first.in_pairs and not second.in_pairs
    assert first.dims == second.dims


def test_complex_weights_are_held_as_pairs() -> None:
    problem = opened(
        "import torch\nfrom torch import nn\nclass M(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.w = nn.Parameter(torch.randn(6, dtype=torch.cfloat))\n"
        "    def forward(self, x):\n        return (x * self.w).abs()\n"
        "inputs = [torch.randn(4, 6, dtype=torch.cfloat)]\n"
    )
    assert {spec.name: spec.in_pairs for spec in problem.tensors} == {"x": True, "w": True}


def test_what_has_no_parts_is_refused_with_its_line() -> None:
    f = "def f(x):\n    y = x * 1j\n    return torch.linalg.inv(y).abs()"
    source = f"import torch\n{f}\ninputs = [torch.randn(4, 4)]"
    with pytest.raises(
        ProblemError, match=r"^line 4: \w+ of complex numbers is not supported\. Write this step"
    ):
        opened(source)


def test_pairs_that_do_not_lie_together_are_complex_numbers_all_the_same() -> None:
    parts = torch.randn(2, 5)
    assert torch.equal(as_complex(parts.T), torch.complex(*parts))
    assert as_complex(as_pairs(z := torch.randn(3, dtype=torch.cfloat))).data_ptr() == z.data_ptr()
    assert torch.equal(as_pairs(z.conj()), torch.view_as_real(z.conj().resolve_conj()))


def test_a_reference_is_called_with_complex_numbers_and_answers_in_pairs() -> None:
    z = torch.randn(3, 4, dtype=torch.cfloat)
    form = Form(lambda x: (x * x, x.real), bind(lambda x: x, [z]))
    square, real = form({"x": as_pairs(z)})
    assert torch.equal(as_complex(square), z * z) and torch.equal(real, z.real)
    assert form.complex_results == (True, False)


def test_results_with_names_are_pairs_too() -> None:
    z = torch.randn(3, dtype=torch.cfloat)
    found = results_as_pairs(torch.return_types.max((z, z.real)))
    assert torch.equal(found[0], torch.view_as_real(z)) and torch.equal(found[1], z.real)
    assert results_as_pairs([z.real])[0].dtype == torch.float32


def test_names_of_the_rules_are_torchs_own() -> None:
    packets = [name for name in RULES if re.fullmatch(r"\w+", name)]
    assert all(hasattr(torch.ops.aten, name) for name in packets)
