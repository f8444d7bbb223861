"""What must come of a check, kept for the next kernel: made once, refused once, never believed unsigned."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest
import torch

from workbench.errors import ProblemError
from workbench.numerics.bounds import OutputBound
from workbench.referee.expectation import Expectation
from workbench.referee.kept_expectations import MOST_BYTES, kept
from workbench.referee.protocol import Kept

CHECK = ("problem", "case", "normal", 7)


class Maker:
    """Counts how often something is made."""

    def __init__(self, size: int = 4, refuses: bool = False) -> None:
        self.size, self.refuses, self.made = size, refuses, 0

    def __call__(self) -> Expectation:
        self.made += 1
        if self.refuses:
            raise ProblemError("the reference refuses these")
        x = torch.arange(float(self.size)).view(2, -1).T
        bound = OutputBound("f32", x.double(), torch.zeros_like(x, dtype=torch.float64), None, "by hand")
        return Expectation({"x": x}, (bound,), "")


@pytest.fixture
def where(tmp_path: Path) -> Kept:
    return Kept(folder=str(tmp_path), secret="hush")


def test_made_once_with_strides_and_types(where: Kept) -> None:
    make = Maker()
    for _ in range(3):
        found = kept(where, CHECK, make)
        assert found is not None and found.tensors["x"].stride() == (1, 2)
        assert found.bounds[0].expected.dtype == torch.float64
    assert make.made == 1
    kept(where, (*CHECK, "another"), make)
    assert make.made == 2


def test_a_refusal_is_kept_too(where: Kept) -> None:
    make = Maker(refuses=True)
    for _ in range(2):
        with pytest.raises(ProblemError, match="refuses these"):
            kept(where, CHECK, make)
    assert make.made == 1


def test_what_was_written_by_others_is_not_believed(where: Kept, tmp_path: Path) -> None:
    make = Maker()
    kept(where, CHECK, make)
    (path,) = (path for path in tmp_path.iterdir() if path.suffix != ".lock")
    told = path.read_bytes()
    path.write_bytes(told[:-1] + bytes([told[-1] ^ 1]))
    kept(where, CHECK, make)
    kept(where.model_copy(update={"secret": "other"}), CHECK, make)
    assert make.made == 3


def test_two_at_once_make_it_once(where: Kept) -> None:
    make = Maker()
    threads = [Thread(target=kept, args=(where, CHECK, make)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert make.made == 1


def test_what_is_large_or_has_no_folder_is_made_again(where: Kept, tmp_path: Path) -> None:
    large, homeless = Maker(size=MOST_BYTES // 8), Maker()
    gone = where.model_copy(update={"folder": str(tmp_path / "gone")})
    for _ in range(2):
        kept(where, CHECK, large)
        kept(gone, CHECK, homeless)
    assert large.made == homeless.made == 2
