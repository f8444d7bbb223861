"""Names never hide what the generated text calls."""

import re
from pathlib import Path

import pytest
import torch

from tests.playbook.problems import problem_of
from tests.playbook.running import check
from workbench import playbook
from workbench.playbook.device_functions import cuda_helpers
from workbench.playbook.generate import generate
from workbench.playbook.text import cuda_text
from workbench.playbook.text.names import Names


def test_helper_functions_keep_their_names() -> None:
    text = "\n".join(str(value) for value in vars(cuda_helpers).values())
    functions = set(re.findall(r"__device__ (?!static)(?:inline )?[\w<>, ]+ (\w+)\(", text))
    assert {"sign", "larger", "warp_reduce"} <= functions
    for function in (*functions, "isnan", "isinf"):
        assert Names().new(function) != function


def test_no_size_is_called_what_a_kernel_or_a_helper_calls_a_number_of_its_own() -> None:
    """Sizes are macros: one called SIZE would stand in ``template <int SIZE>``, too."""
    declared = re.compile(
        r"\b(?:int|bool|typename|size_t|unsigned)\s+((?:[A-Z][A-Z0-9_]+,\s*)*[A-Z][A-Z0-9_]+)\b"
    )
    package = Path(playbook.__file__).parent
    own = {
        name
        for folder in ("device_functions", "kernels")
        for file in (package / folder).glob("*.py")
        for names in declared.findall(file.read_text())
        for name in re.split(r",\s*", names)
    }
    assert {"SIZE", "VEC", "TILE", "PATCH_DEEP"} <= own
    handed_out = {"AHEAD"}  # as any other name, and in weights_kernel.py taken before a size is named
    assert {name for name in own if Names().new(name) == name} == handed_out


def test_functions_of_cuda_and_c_keep_their_names() -> None:
    """A value of float64 is named after its operation, and the operation has no f at its end there."""
    for function in (*cuda_text._MATH.values(), "ldexp", "frexp", "fma", "nextafter", "exit"):
        assert Names().new(function) != function


@pytest.mark.parametrize("name", ["lgamma", "acosh", "erfinv"])
def test_a_value_in_float64_does_not_hide_its_function(name: str) -> None:
    def call(t: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        made = getattr(torch, name)(t["x"])
        return made * made + made.sum(1, keepdim=True), made

    x = torch.rand(3, 7, dtype=torch.float64) / 2 + (name == "acosh")
    check(call, generate(problem_of(call, {"x": x}, name), ()).kernel.source, {"x": x})


def test_no_name_has_two_underscores_together() -> None:
    """An input called ``new`` is ``new_`` in a plan; its width would be NEW__WIDTH, which C++ keeps."""
    assert Names().new("NEW__WIDTH") == "NEW_WIDTH"


def deeper(t: dict[str, torch.Tensor]) -> torch.Tensor:
    """A size is halved three times: its expression is long."""
    x = t["x"]
    for _ in range(3):
        x = torch.nn.functional.avg_pool2d(x, 3, stride=2, padding=1)
    return torch.cat([x, x.exp()], 1).softmax(1)


def test_a_long_size_has_a_short_name() -> None:
    x = torch.randn(2, 6, 35, 37)
    source = generate(problem_of(deeper, {"x": x}, "deeper"), ()).kernel.source
    names = set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", source))
    assert max(map(len, names)) <= 40, max(names, key=len)
    assert any("_TIMES_" in name for name in names)
    check(deeper, source, {"x": x})


def test_a_tensor_may_be_called_what_a_kernel_calls_its_own_memory() -> None:
    def call(t: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.softmax(t["shared"] + t["on_chip"], -1)

    tensors = {"shared": torch.randn(5, 72), "on_chip": torch.randn(72)}
    vector = (("row_cache", "shared"), ("threads_per_row", "block"), ("vector_width", "4"))
    source = generate(problem_of(call, tensors), vector).kernel.source
    assert "extern __shared__" in source
    check(call, source, tensors)
