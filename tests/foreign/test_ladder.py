"""Which rung takes a build, and what the thin rung compiles."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from workbench.foreign import ladder, provenance, thin

CPP = "torch::Tensor twice(torch::Tensor x);"
CUDA = '#include <torch/extension.h>\n#include "own.h"\ntorch::Tensor twice(torch::Tensor x) { return x; }'


@pytest.fixture
def rungs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Attempts in order; each fails unless a test says otherwise."""
    tried: list[str] = []

    def attempt(name: str) -> Any:
        def fail(*args: Any, **kwargs: Any) -> Any:
            tried.append(name)
            raise RuntimeError(f"{name} does not compile")

        return fail

    monkeypatch.setattr(ladder, "_thin", attempt("thin"))
    monkeypatch.setattr(ladder, "_with_types", attempt("types"))
    monkeypatch.setattr(ladder, "_unmodified", attempt("original"))
    monkeypatch.setattr(ladder, "taken", [])
    return tried


def test_the_last_rung_tells_what_is_wrong(rungs: list[str]) -> None:
    with pytest.raises(RuntimeError, match="original does not compile"):
        ladder.load_inline("name", CPP, CUDA, functions=["twice"])
    assert rungs == ["thin", "types", "original"]


def test_types_only_where_the_text_has_the_whole_header(rungs: list[str]) -> None:
    with pytest.raises(RuntimeError):
        ladder.load_inline("name", CPP, "int x;", functions=["twice"])
    assert rungs == ["thin", "original"]


def test_the_first_that_works_is_told(rungs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder, "_with_types", lambda *args: "module")
    assert ladder.load_inline("name", CPP, CUDA, functions="twice") == "module"
    assert ladder.told() == ladder.TYPES


def test_what_torch_alone_understands_is_left_to_it(rungs: list[str]) -> None:
    with pytest.raises(RuntimeError):
        ladder.load_inline("name", CPP, CUDA, no_implicit_headers=True)
    assert rungs == ["original"]


def test_thin_text() -> None:
    text = thin.source([CPP], [CUDA], ["twice"])
    assert "torch/extension.h" not in text and '#include "own.h"' in text
    assert text.count("THIN_EXPORT(twice)") == 1 and str(thin.HEADER) in text


@pytest.mark.parametrize("body", ["PYBIND11_MODULE(name, m) {}", "TORCH_LIBRARY(name, m) {}"])
def test_own_bindings_are_not_for_the_thin_rung(body: str) -> None:
    with pytest.raises(thin.Unfit):
        thin.source([body], [], ["twice"])


def test_no_functions_no_thin_rung() -> None:
    with pytest.raises(thin.Unfit):
        thin.source([CPP], [], [])


def test_an_unknown_option_is_not_for_the_thin_rung() -> None:
    with pytest.raises(thin.Unfit):
        ladder._thin("name", [CPP], [], {"functions": ["twice"], "build_directory": "elsewhere"})


def test_tensors_cross_by_handle() -> None:
    sent = torch.arange(6.0).reshape(2, 3)
    value = thin._value(sent)
    back = thin._tensor(value.of.tensor)
    assert back.data_ptr() == sent.data_ptr() and torch.equal(back, sent)


@pytest.mark.parametrize(("argument", "kind"), [(3, thin.WHOLE), (True, thin.WHOLE), (0.5, thin.REAL)])
def test_numbers(argument: float, kind: int) -> None:
    assert thin._value(argument).kind == kind


def test_other_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="not list"):
        thin._value([1, 2])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("m = load_inline('a', '')", ["load_inline"]),
        ("@triton.jit\ndef f(): pass", ["jit"]),
        ("@triton.jit(debug=True)\ndef f(): pass", ["jit"]),
        ("# load_inline\nx = 'triton.jit'", []),
    ],
)
def test_claims(text: str, found: list[str]) -> None:
    assert provenance.claims(text) == found


def test_whoever_forks_has_not_imported_the_builder() -> None:
    code = (
        "import sys, workbench.foreign.trial, workbench.foreign.judge, torch; "
        "print('torch.utils.cpp_extension' in sys.modules, torch.cuda.is_initialized())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
