"""Which function, class or instance a cell, a file or notebook objects mean."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from workbench.errors import ProblemError
from workbench.problem.capture import Capture, from_objects, read_cell, read_file
from workbench.problem.intake import open_problem
from workbench.problem.payload import unpack

FUNCTION = "def softmax(x):\n    return torch.softmax(x, 1)\n"
INPUTS = "inputs = [torch.randn(4, 5)]\n"


def what(source: str, entry: str | None = None) -> tuple[str, str, str]:
    capture = read_cell(source, entry)
    return capture.entry, capture.kind, capture.inputs


def test_one_function() -> None:
    assert what(FUNCTION + INPUTS) == ("softmax", "function", "inputs")


def test_inputs_as_a_function() -> None:
    assert what(FUNCTION + "def inputs(): return [torch.randn(3)]") == ("softmax", "function", "inputs()")


def test_helpers_are_not_candidates() -> None:
    source = "def scale(x): return x * 2\ndef f(x): return scale(x)\ndef make(): return [1]\ninputs = make()"
    assert what(source)[0] == "f"


def test_private_functions_are_not_candidates() -> None:
    assert what("def _debug(x): print(x)\n" + FUNCTION + INPUTS)[0] == "softmax"


def test_lambda_is_a_function() -> None:
    assert what("f = lambda x: x * 2\n" + INPUTS) == ("f", "function", "inputs")


def test_module_class_with_constructor_arguments() -> None:
    capture = read_cell(
        "class Net(nn.Module):\n    def forward(self, x): return x\ninit_inputs = [3]\n" + INPUTS
    )
    assert (capture.entry, capture.kind, capture.init) == ("Net", "module_class", "init_inputs")


def test_instance_of_a_class_in_the_cell_is_preferred() -> None:
    source = "class Net(nn.Module):\n    def forward(self, x): return x\nmodel = Net().eval().cuda()\n"
    assert what(source + INPUTS) == ("model", "module_instance", "inputs")


def test_instance_of_a_torch_module() -> None:
    assert what("model = nn.Sequential(nn.ReLU())\n" + INPUTS) == ("model", "module_instance", "inputs")


def test_a_plain_call_is_no_candidate() -> None:
    assert what("scale = compute()\nweight = nn.Parameter(scale)\n" + FUNCTION + INPUTS)[0] == "softmax"


def test_kernelbench() -> None:
    capture = read_cell(
        "class Model(nn.Module):\n    def forward(self, x): return x\n"
        "def get_inputs(): return [torch.rand(3)]\ndef get_init_inputs(): return []\n"
        "def other(x): return x\n"
    )
    assert (capture.entry, capture.kind, capture.inputs, capture.init) == (
        "Model",
        "kernelbench",
        "get_inputs()",
        "get_init_inputs()",
    )


def test_no_function() -> None:
    with pytest.raises(ProblemError, match=r"^there is no function or nn\.Module in the cell"):
        read_cell("x = 1\n" + INPUTS)


def test_two_candidates_say_how_to_choose() -> None:
    source = "def f(x): return x\n\ndef g(x): return x\n" + INPUTS
    with pytest.raises(ProblemError, match=r"f \(line 1\) and g \(line 3\): choose one with --name"):
        read_cell(source)
    assert what(source, "g")[0] == "g"


def test_misspelt_choice() -> None:
    with pytest.raises(ProblemError, match=r"nothing named 'sofmax'.* Did you mean 'softmax'\?"):
        read_cell(FUNCTION + INPUTS, "sofmax")


def test_missing_inputs() -> None:
    with pytest.raises(ProblemError, match=r"no inputs for softmax: add a line such as\ninputs = "):
        read_cell(FUNCTION)


# ------------------------------------------------------------------------------------ the notebook's names


def test_names_of_the_notebook_travel() -> None:
    namespace = {"factor": 3, "table": torch.ones(2), "nn": nn, "tt": torch, "unused": object()}
    source = "def f(x): return x * factor + table + tt.exp(x)\n" + INPUTS
    found = unpack(read_cell(source, None, namespace).payload)
    assert found["factor"] == 3 and torch.equal(found["table"], torch.ones(2)) and found["tt"] is torch
    assert "unused" not in found


def test_missing_names_are_told_with_line_and_suggestion() -> None:
    with pytest.raises(ProblemError, match=r"^line 2: 'scal' is not defined .* Did you mean 'scale'\?"):
        read_cell("def f(x):\n    return x * scal\n" + INPUTS, None, {"scale": 1})


def test_a_cell_needs_no_payload_of_its_own() -> None:
    assert read_cell(FUNCTION + INPUTS, None, {"torch": torch}).payload == ""


def test_what_cannot_travel_is_named() -> None:
    namespace = {"lock": __import__("threading").Lock()}
    with pytest.raises(ProblemError, match="lock cannot be sent to a worker process"):
        read_cell("def f(x):\n    with lock:\n        return x * 2\n" + INPUTS, None, namespace)


# ------------------------------------------------------------------------------------ files


def test_file_with_a_module_beside_it(tmp_path: Path) -> None:
    (tmp_path / "own_scaling.py").write_text("def scale(x): return x * 2\n")
    (tmp_path / "op.py").write_text("import own_scaling\ndef f(x): return own_scaling.scale(x)\n" + INPUTS)
    assert open_problem(read_file(tmp_path / "op.py")).name == "f"


def test_missing_file() -> None:
    with pytest.raises(ProblemError, match=r"cannot read /nowhere/op\.py: No such file"):
        read_file("/nowhere/op.py")


# ------------------------------------------------------------------------------------ objects


def scaled(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    return x.exp() * factor


def notebook(source: str) -> dict[str, Any]:
    """Run cells as ipykernel does: functions know ``__main__`` and linecache knows their text."""
    import linecache

    file = f"/tmp/ipykernel_1/{abs(hash(source))}.py"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "__main__", "torch": torch, "nn": nn}
    exec(compile(source, file, "exec"), names)
    return names


def test_function_of_the_notebook_keeps_its_source_and_lines() -> None:
    names = notebook("k = 3\n\ndef f(x):\n    y = x * k\n    return y.exp()\na = torch.randn(4, 5)\n")
    capture = from_objects(names, "f", ["a"])
    assert capture.kind == "function" and capture.source.startswith("\n\ndef f(x)")
    problem = open_problem(capture)
    assert [node.line for node in problem.graph.nodes] == [4, 5]


def test_class_of_the_notebook_is_run_from_source() -> None:
    names = notebook("class Net(nn.Module):\n    def forward(self, x): return x * 2\na = torch.randn(4)\n")
    assert from_objects(names, "Net", ["a"]).kind == "module_class"


def test_instance_of_the_notebook_brings_its_parameters() -> None:
    names = notebook("net = nn.Sequential(nn.Linear(5, 3), nn.ReLU())\na = torch.randn(4, 5)\n")
    problem = open_problem(from_objects(names, "net", ["a"]))
    assert problem.kind == "pickled"
    assert [(s.name, s.role, s.path) for s in problem.tensors] == [
        ("input", "input", ""),
        ("layer0_weight", "parameter", "0.weight"),
        ("layer0_bias", "parameter", "0.bias"),
    ]


FAMILY = """
class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(5))
    def act(self, x): return torch.relu(x)

class Child(Base):
    def forward(self, x): return self.act(x) * self.w + offset

offset, a = 3.0, torch.randn(4, 5)
Child_object = Child()
"""


@pytest.mark.parametrize("name", ["Child", "Child_object"])
def test_base_classes_of_the_notebook_come_along(name: str) -> None:
    problem = open_problem(from_objects(notebook(FAMILY), name, ["a"]))
    assert [spec.name for spec in problem.tensors] == ["x", "w"]


def test_an_object_under_its_class_name_is_not_defined_again() -> None:
    names = notebook(FAMILY)
    names["Child"] = names["Child_object"]
    problem = open_problem(from_objects(names, "Child", ["a"]))
    assert problem.kind == "pickled" and problem.tensors[1].path == "w"


def test_captured_variables_become_tensors() -> None:
    names = notebook(
        "def make(k):\n    def f(x): return x * k\n    return f\n"
        "f = make(torch.randn(5))\na = torch.randn(4, 5)\n"
    )
    problem = open_problem(from_objects(names, "f", ["a"]))
    assert [(s.name, s.role) for s in problem.tensors] == [("x", "input"), ("k", "buffer")]


def test_literals_are_inputs_too_and_shapes_add_cases() -> None:
    names = notebook("def f(x, k): return x * k\na = torch.randn(4, 5)")
    problem = open_problem(from_objects(names, "f", ["a", "2.5"], shapes=[(7, 9)]))
    assert [(s.name, s.value) for s in problem.statics] == [("k", 2.5)]
    assert [case.label for case in problem.cases] == ["4x5", "7x9"]


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "op.py").write_text("def f(x): return x\ninputs = [1]\n", encoding="utf-8-sig")
    assert read_file(tmp_path / "op.py").source.startswith("def f")


def test_inputs_under_a_near_name_are_pointed_at() -> None:
    with pytest.raises(ProblemError, match="rename input to inputs"):
        read_cell("def f(x): return x\ninput = [1]\n")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile's own
def test_compiled_functions_are_unwrapped() -> None:
    names = notebook("def f(x): return x.exp()\ncompiled = torch.compile(f)\na = torch.randn(4)")
    assert from_objects(names, "compiled", ["a"]).entry == "f"


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("nope", ["a"], "nothing named 'nope' is defined in the notebook"),
        ("f", ["b"], "--inputs names 'b', which is not defined"),
        ("f", [], "there are no inputs for f: add --inputs"),
        ("a", ["a"], "Tensor is not a function or an nn.Module"),
        ("f", ["a", "elsewhere"], "on different devices: a on cpu, elsewhere on meta"),
    ],
)
def test_refused_objects(name: str, inputs: list[str], message: str) -> None:
    names = {"f": scaled, "a": torch.randn(3), "elsewhere": torch.randn(3, device="meta")}
    with pytest.raises(ProblemError, match=message):
        from_objects(names, name, inputs)


def test_capturing_imports_no_torch() -> None:
    code = (
        "import sys; from workbench.problem.capture import read_cell; import workbench.problem.intake; "
        "read_cell('def f(x): return x\\ninputs = [torch.randn(3)]', None, {}); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_captures_cross_processes_as_json() -> None:
    capture = read_cell(FUNCTION + INPUTS)
    assert Capture.model_validate_json(capture.model_dump_json()) == capture
