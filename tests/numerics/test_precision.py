"""One contract for everything: the flags are held, nested, and put back."""

from __future__ import annotations

import pytest
import torch

from workbench.numerics.flags import flags_of
from workbench.numerics.precision import flags, precision


def test_flags_follow_the_contract_and_come_back() -> None:
    before = flags()
    with precision("tf32"):
        assert flags() == flags_of("tf32")
        assert flags()["cudnn.allow_tf32"]
        with precision("ieee-fp32"):
            assert not any(flags().values())
        assert flags() == flags_of("tf32")
    assert flags() == before


def test_flags_come_back_after_an_error() -> None:
    before = flags()
    with pytest.raises(ValueError, match="stop"), precision("16-bit io, fp32 accumulate"):
        raise ValueError("stop")
    assert flags() == before


def test_flags_that_torch_has_frozen_are_held_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    names = torch.backends.flags_frozen.__globals__
    monkeypatch.setitem(names, "__allow_nonbracketed_mutation_flag", False)
    before = flags()
    with precision("tf32"):
        assert flags()["cudnn.allow_tf32"]
    assert flags() == before
    assert not names["__allow_nonbracketed_mutation_flag"]
