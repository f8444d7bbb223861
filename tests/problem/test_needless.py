"""Needless work in a reference is told at intake; ordinary references get no remark."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.problem.capture import read_file
from workbench.problem.needless import needless_work
from workbench.problem.opening import open_capture

HEAD = "import torch\nfrom torch.nn import functional as F\n\n"
X = "inputs = [torch.randn(512, 1024)]\n"
PRODUCT = "inputs = [torch.randn(512, 1024), torch.randn(1024, 256)]\n"
NEEDLESS = {
    "a matrix product is only added up": "def f(a, b):\n    return (2 * (a @ b)).sum(dim=1)\n" + PRODUCT,
    "elements are computed and": "def f(x):\n    return torch.softmax(x, 1)[:3]\n" + X,
    "relu of relu changes nothing": "def f(x):\n    return torch.relu(torch.relu(x))\n" + X,
    "undoes the exp before it": "def f(x):\n    return torch.log(torch.exp(x)) * x\n" + X,
}


def notes_of(tmp_path: Path, cell: str) -> tuple[str, ...]:
    path = tmp_path / "f.py"
    path.write_text(HEAD + cell)
    return open_capture(read_file(path), lambda note: None).notes


@pytest.mark.many(7)
@pytest.mark.parametrize("words", NEEDLESS)
def test_needless_work_is_told(tmp_path: Path, words: str) -> None:
    told = [note for note in notes_of(tmp_path, NEEDLESS[words]) if "needless work" in note]
    assert len(told) == 1
    assert words in told[0]
    assert "line 5" in told[0]


def test_the_factor_is_named(tmp_path: Path) -> None:
    (told,) = (n for n in notes_of(tmp_path, next(iter(NEEDLESS.values()))) if "needless" in n)
    assert f"up to {512 * 1024 * 256 / (512 * 1024 + 1024 * 256):.0f}," in told


def test_a_product_that_several_sums_read_is_told(tmp_path: Path) -> None:
    cell = "def f(a, b):\n    h = a @ b\n    return h.sum(dim=1), (h * 2).mean(dim=0)\n" + PRODUCT
    assert any("only added up" in note for note in notes_of(tmp_path, cell))


@pytest.mark.many(11)
@pytest.mark.parametrize(
    "cell",
    [
        "def f(x):\n    return torch.softmax(x, 1)\n" + X,
        "def f(x):\n    return x[:, :1000] * 2\n" + X,
        "def f(x):\n    return F.layer_norm(x, (1024,)).relu()\n" + X,
        "def f(a, b):\n    return (a @ b).relu().sum(dim=1)\n" + PRODUCT,
        "def f(a, b):\n    return (a @ b).amax(dim=1)\n" + PRODUCT,
        # the product is needed itself
        "def f(a, b):\n    return F.layer_norm(a @ b, (256,))\n" + PRODUCT,
        "def f(a, b):\n    h = a @ b\n    return h, h.sum(dim=1)\n" + PRODUCT,
        "def f(a, b):\n    h = a @ b + 1\n    return torch.softmax(h - h.mean(1, keepdim=True), 1)\n"
        + PRODUCT,
        # a sum over batches saves no multiplication
        "def f(a, b):\n    return torch.bmm(a, b).sum(dim=0)\n"
        "inputs = [torch.randn(9, 128, 64), torch.randn(9, 64, 128)]\n",
        # parts of what a list of tensors reads as well
        "def f(x):\n    y = torch.exp(x)\n    return torch.cat([y, x]), y[:3]\n" + X,
    ],
)
def test_ordinary_references_get_no_remark(tmp_path: Path, cell: str) -> None:
    assert not [note for note in notes_of(tmp_path, cell) if "needless" in note]


def test_sample_ops_that_are_no_lesson_get_no_remark() -> None:
    from workbench.problem.intake import open_problem

    folder = Path(__file__).parents[2] / "sample_ops"
    assert needless_work(open_problem(read_file(folder / "linear_rowsum.py")))
    assert not needless_work(open_problem(read_file(folder / "cross_entropy.py")))
