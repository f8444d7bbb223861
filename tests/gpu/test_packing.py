"""Scalars packed for a launch, compared with ctypes and torch."""

from __future__ import annotations

import ctypes
import math
import struct

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workbench.gpu.packing import CELL_BYTES, cell_of
from workbench.plan.steps import ScalarArg

INTEGERS = {
    "signed char": ctypes.c_int8,
    "short": ctypes.c_int16,
    "int": ctypes.c_int32,
    "unsigned int": ctypes.c_uint32,
    "long": ctypes.c_int64,
    "unsigned long long": ctypes.c_uint64,
}


@given(st.sampled_from(sorted(INTEGERS)), st.data())
def test_integers_are_packed_as_ctypes_does(ctype: str, data: st.DataObject) -> None:
    kind = INTEGERS[ctype]
    bits = 8 * ctypes.sizeof(kind)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if kind(-1).value < 0 else (0, 2**bits - 1)
    value = data.draw(st.integers(low, high))
    cell = cell_of(ScalarArg(value=value, ctype=ctype), ctypes.sizeof(kind))
    assert cell == bytes(kind(value)).ljust(CELL_BYTES, b"\0")


@given(st.floats(width=32))
def test_floats_are_packed_as_ctypes_does(value: float) -> None:
    assert cell_of(ScalarArg(value=value, ctype="float"), 4)[:4] == bytes(ctypes.c_float(value))
    assert cell_of(ScalarArg(value=value, ctype="double"), 8) == bytes(ctypes.c_double(value))


@given(st.floats(width=32))
def test_bfloat16_is_rounded_as_torch_does(value: float) -> None:
    (bits,) = struct.unpack("<H", cell_of(ScalarArg(value=value, ctype="__nv_bfloat16"), 2)[:2])
    got = torch.tensor(bits, dtype=torch.uint16).view(torch.bfloat16)
    expected = torch.tensor(value).bfloat16()
    assert got == expected or (math.isnan(got) and math.isnan(expected))


def test_a_type_only_the_compiler_knows_goes_by_the_parameters_size() -> None:
    assert cell_of(ScalarArg(value=-2, ctype="index_t"), 8) == bytes(ctypes.c_int64(-2))
    assert cell_of(ScalarArg(value=0.5, ctype="acc_t"), 8) == bytes(ctypes.c_double(0.5))
    assert cell_of(ScalarArg(value=True, ctype="flag"), 1)[0] == 1


@pytest.mark.parametrize(
    ("value", "ctype", "size"), [(300, "index_t", 1), (1, "pair", 16), (0.5, "acc_t", 3)]
)
def test_what_does_not_fit_is_refused(value: float, ctype: str, size: int) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        cell_of(ScalarArg(value=value, ctype=ctype), size)
