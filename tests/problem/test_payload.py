"""Notebook objects on their way to a worker."""

import torch
from torch import nn

from workbench.problem.payload import Payload, pack, split, unpack


def there_and_back(**values: object) -> dict[str, object]:
    return unpack(pack(split(values)))


def test_nothing_is_an_empty_string() -> None:
    assert pack(Payload()) == "" and unpack("") == {}


def test_modules_travel_by_name() -> None:
    assert there_and_back(nn=nn)["nn"] is nn


def test_small_tensors_keep_values_strides_and_type() -> None:
    for tensor in (torch.randn(3, 4).t(), torch.arange(6, dtype=torch.int16), torch.rand(3).bfloat16()):
        back = there_and_back(t=tensor)["t"]
        assert isinstance(back, torch.Tensor)
        assert torch.equal(back, tensor) and back.stride() == tensor.stride() and back.dtype == tensor.dtype


def test_large_tensors_travel_as_a_recipe() -> None:
    probabilities, labels = torch.rand(1000, 1000), torch.randint(3, 9, (200000,))
    text = pack(split({"p": probabilities, "n": labels}))
    back = unpack(text)
    assert len(text) < 2000
    assert back["p"].shape == (1000, 1000) and back["p"].min() >= 0 and back["p"].max() <= 1
    assert back["p"].max() > 0.9
    assert (int(back["n"].min()), int(back["n"].max())) == (3, 8)


def test_modules_with_parameters_keep_ties() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    back = there_and_back(m=model)["m"]
    assert isinstance(back, nn.Sequential) and back[0].weight is back[1].weight
    assert isinstance(back[0].weight, nn.Parameter) and torch.equal(back[0].bias, model[0].bias)


def test_functions_of_the_notebook_travel_by_value() -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    exec("def double(x): return 2 * x", names)
    assert there_and_back(f=names["double"])["f"](4) == 8  # type: ignore[operator]
