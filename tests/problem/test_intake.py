"""Every bad input is told in a line or two, with the person's line; good ones become problems."""

import pytest
from problem.cells import opened

from workbench.errors import ProblemError
from workbench.numerics.inputs import draw
from workbench.playbook.generate import generate
from workbench.problem import intake
from workbench.problem.capture import read_cell
from workbench.problem.intake import open_problem
from workbench.workers import Limits

X = "inputs = [torch.randn(4, 5)]\n"
XY = "inputs = [torch.randn(4, 5), torch.randn(4, 5)]\n"

REFUSED = {
    "undefined name": (
        "def f(x):\n    return x * k\n" + X,
        r"^line 2: the reference raised NameError: name 'k'",
    ),
    "inputs raise": (
        "def f(x): return x\n\ninputs = [torch.rand(3) @ torch.rand(4)]\n",
        r"^line 3: the cell raised RuntimeError: inconsistent tensor size",
    ),
    "missing module": (
        "import nowhere\ndef f(x): return nowhere.g(x)\n" + X,
        r"^line 1: .*No module named 'nowhere'",
    ),
    "devices": (
        "def f(x, y): return x * y\ninputs = [torch.randn(4), torch.randn(4, device='cuda')]\n",
        r"different devices: x on cpu, y on cuda\. Put them on one",
    ),
    "devices, one without data": (
        "def f(x, y): return x * y\ninputs = [torch.randn(4), torch.randn(4, device='meta')]\n",
        r"different devices: x on cpu, y on meta\. Put them on one",
    ),
    "raises": (
        "def f(x, y):\n    z = x + 1\n    return z @ y\n" + XY,
        r"^line 3: the reference raised RuntimeError: mat1 and mat2 shapes cannot be multiplied",
    ),
    "raises although huge": (
        "def f(x, y):\n    return x @ y\ninputs = [torch.randn(90000, 90000), torch.randn(3, 5)]\n",
        r"^line 2: the reference raised RuntimeError: a and b must have same reduction dim",
    ),
    "keeps what it computes": (
        "kept = []\ndef f(x):\n    kept.append(x.mean())\n    return x * torch.stack(kept).sum()\n" + X,
        r"cannot be exported: it keeps a tensor that it has computed outside of itself",
    ),
    "asks for a gradient": (
        "def f(x):\n    y = x.requires_grad_(True)\n    return torch.autograd.grad(y.tanh().sum(), y)[0]\n"
        + X,
        r"^line 3: the reference raised RuntimeError: no gradients are recorded while it runs\. Write the",
    ),
    "a mean over a mask": (
        "def f(x):\n    return x[x > 0].mean()\n" + X,
        r"^line 2: the shape of a result depends on values .* x\[mask\]\.mean\(\) is torch\.where\(mask, x",
    ),
    "an alignment of labels": (
        "def f(x, y):\n    return F.ctc_loss(x.log_softmax(2), y, (50,) * 4, (12,) * 4)\n"
        "inputs = [torch.randn(50, 4, 20), torch.randint(1, 20, (4, 12))]\n",
        r"^line 2: .* exported: what _ctc_loss makes has a size that depends on values\. Leave it outside",
    ),
    "returns nothing": ("def f(x):\n    x + 1\n" + X, r"the reference returns nothing; return a tensor"),
    "returns a number by name": (
        "def f(x): return {'y': x + 1, 'n': 3}\n" + X,
        r"returns a dict of \('y': Tensor, 'n': int\); return a tensor, or tensors in tuples, lists, dicts",
    ),
    "returns a number too": ("def f(x): return x + 1, 3\n" + X, r"returns a tuple of \(Tensor, int\)"),
    "writes its input": (
        "def f(x):\n    y = x.view(-1)\n    y.mul_(2)\n    return x\n" + X,
        r"^line 3: the reference writes its input 'x' in place \(aten\.mul\)",
    ),
    "writes by index": (
        "def f(x):\n    x[0] = 0\n    return x + 1\n" + X,
        r"^line 2: .* writes its input 'x'",
    ),
    "writes a buffer": (
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.register_buffer('n', torch.zeros(()))\n    def forward(self, x):\n        self.n += 1\n"
        "        return x * self.n\n" + X,
        r"^line 6: the reference writes its buffer 'n' in place",
    ),
    "dropout": (
        "def f(x):\n    return F.dropout(x)\n" + X,
        r"^line 2: the reference draws random numbers \(aten\.bernoulli",
    ),
    "noise": ("def f(x):\n    return x + torch.randn_like(x)\n" + X, r"^line 2: .* draws random numbers"),
    "python's random": (
        "import random\ndef f(x): return x * random.random()\n" + X,
        r"two runs of the reference on the same inputs differ",
    ),
    "a counter": (
        "n = [0]\ndef f(x):\n    n[0] += 1\n    return x * n[0]\n" + X,
        r"two runs of the reference on the same inputs differ",
    ),
    "complex numbers of 16 bits": (
        "def f(x): return x.abs()\ninputs = [torch.zeros(4, dtype=torch.complex32)]\n",
        r"input 'x' is complex32, which is not supported\. Supported are float64, .* and bool",
    ),
    "float8": (
        "def f(x): return x.float() * 2\ninputs = [torch.randn(4).to(torch.float8_e4m3fn)]\n",
        r"input 'x' is float8_e4m3fn, which is not supported\..* hand over its bytes, \.view\(torch\.uint8\)",
    ),
    "sparse": (
        "def f(x): return x.to_dense() * 2\ninputs = [torch.eye(4).to_sparse()]\n",
        r"input 'x' is sparse",
    ),
    "meta": (
        "def f(x): return x * 2\ninputs = [torch.randn(4, 5, device='meta')]\n",
        r"input 'x' is on the meta device: it has a shape and no values",
    ),
    "meta beside a word": (
        "def f(x): return x * 2  # on cuda\ninputs = [torch.randn(4, 5, device='meta')]\n",
        r"input 'x' is on the meta device",
    ),
    "meta weight": (
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.fc = nn.Linear(5, 3, device='meta')\n    def forward(self, x): return self.fc(x)\n" + X,
        r"parameter 'fc.weight' is on the meta device",
    ),
    "lazy module": (
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.fc = nn.LazyLinear(3)\n    def forward(self, x): return self.fc(x)\n" + X,
        r"parameter 'fc.weight' has no size yet: .* Call it once on an input",
    ),
    "empty": (
        "def f(x): return x * 2\ninputs = [torch.randn(0, 5)]\n",
        r"input 'x' is empty, shape \(0, 5\)",
    ),
    "empty output": ("def f(x): return x[:0] * 2\n" + X, r"the output is empty, shape \(0, 5\)"),
    "unused input": ("def f(x, y): return x * 2\n" + XY, r"the output does not depend on input 'y'"),
    "input times zero": (
        "def f(x, y): return x * 2 + 0 * y\n" + XY,
        r"the output does not depend on input 'y'",
    ),
    "constant output": (
        "def f(x): return torch.softmax(x.sum(-1, keepdim=True), -1)\n" + X,
        r"the output does not depend on input 'x'",
    ),
    "zeros": ("def f(x): return x - x\n" + X, r"a kernel that does nothing would pass"),
    "infinite": (
        "def f(x): return (x.abs() + 1) * 1e30 * 1e30\n" + X,
        r"the output is NaN or infinite for every input tried",
    ),
    "a copy": (
        "def f(x): return x.clone()\n" + X,
        r"the output is a copy of x for every input tried: there is nothing to compute",
    ),
    "types that do not meet": (
        "net = nn.Linear(5, 3)\ninputs = [torch.randn(4, 5, dtype=torch.bfloat16)]\n",
        r"16-bit inputs meet float32 weights .*: convert these, a module with .to\(torch.bfloat16\)",
    ),
    "autocast as a decorator": (
        "@torch.autocast('cuda', dtype=torch.bfloat16)\ndef f(x): return x @ x.t()\n" + X,
        r"Write `with torch.autocast\(x.device.type, ...\):` around what it is for",
    ),
    "a view": ("def f(x): return x.t()\n" + X, r"the output is a view of x: there is nothing to compute"),
    "list of tensors": (
        "def f(xs): return torch.cat(xs)\ninputs = [[torch.randn(4), torch.randn(4)]]\n",
        r"input 'xs' is a list of tensors; inputs are tensors and python scalars",
    ),
    "inputs of no use": ("def f(x): return x * 2\ninputs = 3\n", r"inputs must be a list, a tuple or a dict"),
    "no tensor": ("def f(x): return x * 2\ninputs = [3]\n", r"none of the inputs is a tensor"),
    "too few inputs": (
        "def f(x, y): return x + y\n" + X,
        r"do not fit f\(x, y\): missing a required argument: 'y'",
    ),
    "constructor": (
        "class M(nn.Module):\n    def __init__(self, n): super().__init__()\n"
        "    def forward(self, x): return x\n" + X,
        r"M\(\.\.\.\) raised TypeError: .* missing 1 required positional argument: 'n'",
    ),
    "shapes of zero": (
        "def f(x): return x * 2\n" + X + "shapes = [(3, 0)]",
        r"shapes: \(3, 0\) is neither a shape",
    ),
    "shapes of no kind": ("def f(x): return x * 2\n" + X + "shapes = 5", r"shapes: 5 is neither a shape"),
    "shapes of other rank": (
        "def f(x): return x * 2\n" + X + "shapes = [(3,)]",
        r"\(3,\) has 1 size, but x has 2, as in \(",
    ),
    "shapes against a weight": (
        "model = nn.Linear(5, 3)\n" + X + "shapes = [(4, 6)]",
        r"axis 1 of input must be 5, it cannot vary on its own",
    ),
    "shapes on another path": (
        "def f(x):\n    if x.shape[1] > 1024:\n        return x.sum(-1)\n    return x.amax(-1)\n"
        "inputs = [torch.randn(4, 5000)]\nshapes = [(4, 6)]",
        r"4x6 cannot be part of the same problem as 4x5000: the reference takes another path",
    ),
}


@pytest.mark.many(11)
@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refused(case: str) -> None:
    source, message = REFUSED[case]
    with pytest.raises(ProblemError, match=message) as refused:
        opened(source)
    assert str(refused.value).count("\n") <= 1


NOT_EXPORTABLE = {
    "branch on values": (
        "def f(x):\n    y = x + 1\n    if y.sum() > 0:\n        return y\n    return -y\n",
        r"^line 3: the reference cannot be exported: it branches .* Use torch\.where",
    ),
    "shape from values": (
        "def f(x):\n    y = x + 1\n    return y[y > 0]\n",
        r"^line 3: the shape of a result depends on values",
    ),
    "number from values": (
        "def f(x):\n    y = x + 1\n    return y.sum().item()\n",
        r"^line 3: \.item\(\) or \.tolist\(\) turns values",
    ),
    "numpy": (
        "def f(x):\n    return torch.from_numpy(np.exp(x.numpy()))\n",
        r"^line 2: the reference cannot be exported: it leaves torch for numpy.* torch\.exp for np\.exp",
    ),
}


@pytest.mark.many(5)
@pytest.mark.parametrize("case", NOT_EXPORTABLE, ids=str)
def test_what_cannot_be_exported_is_told_with_line_and_remedy(case: str) -> None:
    source, message = NOT_EXPORTABLE[case]
    with pytest.raises(ProblemError, match=message):
        open_problem(read_cell(source + X))


def test_a_problem_through_a_worker() -> None:
    heard: list[str] = []
    problem = open_problem(
        read_cell(
            "\ndef softmax(x):\n    return torch.softmax(x, dim=1)\n"
            "inputs = [torch.randn(4096, 32768)]\nshapes = [(16, 16384), (1, 1048576)]\n"
        ),
        heard.append,
    )
    assert heard[0] == "reading the cell" and len(heard) >= 4
    assert (problem.name, problem.kind, problem.signature) == ("softmax", "function", ("x",))
    assert [case.label for case in problem.cases] == ["4096x32768", "16x16384", "1x1048576"]
    assert problem.tensors[0].dims == problem.outputs[0].dims == problem.symbols
    assert problem.proofs and problem.notes == () and not problem.own_inputs
    assert {node.line for node in problem.graph.nodes} == {3}


@pytest.mark.slow
def test_a_cell_that_never_ends_is_stopped() -> None:
    endless = read_cell("def f(x):\n    while True: pass\n    return x\n" + X)
    with pytest.raises(
        ProblemError, match=r"opening f took more than .* s and was stopped while reading the cell"
    ):
        open_problem(endless, limits=Limits(wall_s=6, cpu_s=60))


def test_a_cell_that_ends_the_process_costs_nothing() -> None:
    with pytest.raises(ProblemError, match="the process that ran f died"):
        open_problem(read_cell("import os\ndef f(x): os._exit(3)\n" + X))
    assert open_problem(read_cell("def f(x): return x * 2\n" + X)).name == "f"


def test_the_worker_that_waits_reads_the_next_problem_as_a_fresh_one_does() -> None:
    capture = read_cell(
        "def f(x, w):\n    return torch.softmax(x @ w, dim=1)\n"
        "inputs = [torch.randn(4, 5), torch.randn(5, 6)]\n"
    )
    intake.warm_up()
    waiting = intake._waiting
    assert waiting is not None and not waiting.over
    intake.warm_up()
    assert intake._waiting is waiting
    by_waiting = open_problem(capture)
    assert intake._waiting is None and waiting.over
    assert open_problem(capture) == by_waiting


def test_a_worker_that_died_while_it_waited_is_not_asked() -> None:
    intake.warm_up()
    assert intake._waiting is not None
    intake._waiting.end()
    assert open_problem(read_cell("def f(x): return x * 2\n" + X)).name == "f"


# ------------------------------------------------------------------------------------ good ones


def test_modules_run_in_evaluation_mode() -> None:
    problem = opened("model = nn.Sequential(nn.Linear(5, 4), nn.Dropout(), nn.BatchNorm1d(4))\n" + X)
    assert problem.kind == "module_instance" and any("evaluation mode" in note for note in problem.notes)
    for tracks in (True, False):
        made = f"model = nn.Sequential(nn.Linear(5, 4), nn.InstanceNorm1d(4, track_running_stats={tracks}))\n"
        problem = opened(made + "inputs = [torch.randn(3, 4, 5)]")
        assert any("evaluation mode (InstanceNorm1d)" in note for note in problem.notes) is tracks


def test_kernelbench_model() -> None:
    problem = opened(
        "import torch\nimport torch.nn as nn\n"
        "class Model(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n"
        "        self.linear = nn.Linear(n, 3)\n    def forward(self, x):\n"
        "        return torch.sigmoid(self.linear(x))\n"
        "batch = 8\ndef get_inputs():\n    return [torch.rand(batch, 5)]\n"
        "def get_init_inputs():\n    return [5]\n"
    )
    assert problem.kind == "kernelbench" and [s.name for s in problem.tensors] == [
        "x",
        "linear_weight",
        "linear_bias",
    ]


def test_code_for_a_gpu_opens_without_one() -> None:
    problem = opened(
        "model = nn.Linear(5, 3).cuda().to('cuda:0')\ninputs = [torch.randn(4, 5, device='cuda')]\n"
    )
    assert problem.tensors[0].dims[1] == 5
    opened("def f(x): return x * torch.arange(5, device='cuda')\ninputs = [torch.randn(4, 5).cuda()]\n")


def test_transposed_input_keeps_its_strides() -> None:
    problem = opened("def f(x): return x.exp()\ninputs = [torch.randn(6, 4).t()]\n")
    (meta,) = problem.metas(problem.cases[0]).values()
    assert (meta.shape, meta.strides) == ((4, 6), (1, 4))
    assert opened("def f(x): return x.exp()\n" + X).tensors[0].strides is None


def test_sixteen_bit_inputs_have_their_own_contract() -> None:
    problem = opened("def f(x): return x.exp()\ninputs = [torch.randn(4, 5).half()]\n")
    assert problem.contract == "16-bit io, fp32 accumulate"


def test_several_outputs_and_a_single_one_in_a_tuple() -> None:
    assert opened("def f(x): return x.exp(), x.amax(-1)\n" + X).returns_tuple
    assert not opened("def f(x): return x.exp()\n" + X).returns_tuple
    assert opened("def f(x): return (x.exp(),)\n" + X).returns_tuple


def test_several_outputs_of_a_reference_that_looks_at_values() -> None:
    """Without data it does not come to its end: one output of two was handed back then."""
    source = "def f(x, y, v):\n    return F.gaussian_nll_loss(x, y, v), x.sum(1)\n"
    inputs = "inputs = [torch.randn(4, 5), torch.randn(4, 5), torch.rand(4, 5) + 1]\n"
    assert opened(source + inputs).returns_tuple
    with pytest.raises(ProblemError, match=r"^line 2: the reference writes its input 'x' in place"):
        opened(source.replace("\n", "\n    x.mul_(2)\n", 1) + inputs)


def test_a_batch_of_one_varies_where_shapes_say_so() -> None:
    source = "def f(x, w): return x.softmax(-1) * w\ninputs = [torch.randn(1, 5), torch.randn(1, 5)]\n"
    assert opened(source).tensors[0].dims[0] == 1
    both = opened(source + "shapes = [((3, 5), (3, 5)), ((1, 7), (1, 7))]\n")
    assert [tensor.dims for tensor in both.tensors] == [("s0", "s1"), ("s0", "s1")]
    assert [case.label for case in both.cases] == ["1x5", "3x5", "1x7"]
    one = opened(source + "shapes = [(3, 5)]\n")
    assert [tensor.dims for tensor in one.tensors] == [("s0", "s1"), (1, "s1")]
    assert not one.notes and len(one.proofs) > 5
    check = {
        label: [tuple(t.shape) for t in draw(one, case, "normal", 0).values()]
        for label, case in ((case.label, case) for case in one.cases)
    }
    assert check == {"1x5": [(1, 5), (1, 5)], "3x5": [(3, 5), (1, 5)]}


@pytest.mark.parametrize(
    ("own", "shapes", "told"),
    [("4, 5", "(1, 5)", "1x5"), ("1, 5", "(4, 5)", "1x5"), ("4, 5", "(1, 2000000)", "1x2000000")],
)
def test_a_branch_for_a_batch_of_one_is_no_part_of_the_same_problem(own: str, shapes: str, told: str) -> None:
    """Results are of the same shape there, and a kernel of the other branch was right at every small size."""
    source = "def f(x):\n    if x.shape[0] == 1:\n        return x * 2\n    return x * 3\n"
    with pytest.raises(ProblemError, match=f"computes something else at {told} than at other sizes"):
        opened(f"{source}inputs = [torch.randn({own})]\nshapes = [{shapes}]\n")


def test_sizes_that_only_values_tie_follow_the_ones_that_shapes_name() -> None:
    source = (
        "def f(x, y):\n    z = torch.cat((x, y))\n"
        "    return z @ z.T + torch.arange(2 * x.shape[0]).float()\n" + XY
    )
    problem = opened(source + "shapes = [(7, 5)]\n")
    assert [case.label for case in problem.cases] == ["4x5,4x5", "7x5,7x5"]
    with pytest.raises(ProblemError, match=r"4x5,4x5.*line 3: the reference raised RuntimeError"):
        opened(source + "shapes = [((7, 5), (3, 5))]\n")


def test_shapes_against_a_size_that_was_fixed_are_told_why() -> None:
    source = "def f(x): return x / (x.norm() / x.numel() ** 0.5)\n" + X + "shapes = [(3, 7)]\n"
    with pytest.raises(ProblemError, match=r"axis 0 of x must be 4.*\n\(.* enters the arithmetic as \(x\.sh"):
        opened(source)


COUNTS = "def f(x, w):\n    return torch.bincount(x, w{}) / w.sum()\n"
COUNTED = "inputs = [torch.tensor([0, 2, 2, 7, 1]), torch.rand(5)]\n"


def test_counts_of_as_many_numbers_as_are_said() -> None:
    problem = opened(COUNTS.format(", minlength=8") + COUNTED)
    assert problem.outputs[0].dims == (8,) and problem.outputs[0].dtype == "f32"
    assert "library(" not in generate(problem, ()).kernel.source
    with pytest.raises(ProblemError, match=r"^line 2: torch.bincount meets 7, beyond its minlength of 3"):
        opened(COUNTS.format(", 3") + COUNTED)
    with pytest.raises(ProblemError, match=r"^line 2: the shape of a result .* bincount without minlength"):
        opened(COUNTS.format("") + COUNTED)


@pytest.mark.slow
def test_attention_without_dropout_is_no_random_operation() -> None:
    problem = opened(
        "def f(q, k, v): return F.scaled_dot_product_attention(q, k, v)\n"
        "inputs = [torch.randn(2, 4, 5, 8) for _ in range(3)]\n"
    )
    assert len(problem.tensors) == 3


def test_lines_that_are_not_run_are_named() -> None:
    source = '"""Why."""\nimport math\nscale = 2\n1 / 0\nprint("hi")\ndef f(x): return x * scale\n' + X
    problem = opened(source + 'if __name__ == "__main__":\n    print(f(*inputs))\n')
    assert problem.notes == ("lines 4, 5 were not run: neither the reference nor its inputs need it",)


def test_a_scale_that_changes_where_something_overflows_is_no_copy() -> None:
    """Seen where there is an infinity beside a scale that is a number."""
    problem = opened(
        "def unscale(grads, scale):\n    bad = ~grads.isfinite().all()\n"
        "    return torch.where(bad, 0.0, grads / scale), torch.where(bad, scale * 0.5, scale)\n"
        "inputs = [torch.randn(40, 30, dtype=torch.float16), torch.tensor(128.0)]\n"
    )
    assert len(problem.outputs) == 2


def test_a_copy_of_a_view_is_work() -> None:
    opened("def f(x): return x.t().contiguous()\ninputs = [torch.randn(6, 4)]\n")


def test_views_of_copies_are_no_doubt_about_the_graph() -> None:
    product = opened(
        "def f(x, w):\n    return (x @ w).relu().t().contiguous().view(-1)\n"
        "inputs = [torch.randn(8, 16), torch.randn(16, 12)]"
    )
    assert product.notes == () and len(product.proofs) > 4


def test_sizes_that_no_view_exists_for_are_left_out() -> None:
    problem = opened(
        "def f(x):\n    return x.t().contiguous().view(-1, 4) * 2\ninputs = [torch.randn(8, 12)]"
    )
    assert problem.notes == ()
    assert all(case.sizes[0][1] * case.sizes[1][1] % 4 == 0 for case in problem.proofs)


def test_sizes_the_export_does_not_hold_for_are_left_out() -> None:
    problem = opened(
        "def f(x):\n    return x.sum(1) if x.shape[1] % 2 == 0 else x.amax(1)\n"
        "inputs = [torch.randn(4, 64)]\n"
    )
    columns = problem.symbols[1]
    assert problem.proofs and all(
        case.size_map[columns] % 2 == 0 or case.size_map[columns] == 1 for case in problem.proofs
    )


def test_a_model_of_40_gigabytes_allocates_nothing() -> None:
    problem = opened("model = nn.Linear(100_000, 100_000)\ninputs = [torch.randn(2, 100_000)]\n")
    assert any("nothing was tried" in note for note in problem.notes)
    assert problem.graph.nodes and problem.tensors[1].dims == (100_000, 100_000)


def test_sizes_at_which_the_reference_fails_on_data_are_left_out() -> None:
    """No export sees that the sixth column is asked for."""
    problem = opened(
        "def f(x):\n    i, j = torch.triu_indices(6, 6)\n    return x[:, i] * x[:, j]\n"
        "inputs = [torch.randn(9, 6)]\n"
    )
    assert len(problem.proofs) > 2 and all(case.sizes[1][1] >= 6 for case in problem.proofs)
    (note,) = problem.notes
    assert note.startswith("sizes at which the reference fails on data are not checked: line 3: ")


@pytest.mark.slow
def test_labels_that_do_not_count_are_drawn_beside_those_that_do() -> None:
    problem = opened(
        "def f(x, y):\n    keep = y != -100\n    safe = torch.where(keep, y, 0)\n"
        "    return x.gather(1, safe[:, None])[:, 0] * keep\n"
        "inputs = [torch.randn(40, 7), torch.tensor([0, 6, -100, 3] * 10)]\n"
    )
    labels = draw(problem, problem.cases[0], "normal", 1)["y"]
    assert problem.tensors[1].sampler.kind == "labels"
    assert {-100, 0, 6} <= set(labels.tolist()) <= {-100, *range(7)}


def test_a_mask_that_leaves_nothing_out_may_be_given() -> None:
    problem = opened(
        "def f(x, mask):\n    return (x * mask).sum(-1) / mask.sum(-1).clamp(min=1)\n"
        "inputs = [torch.randn(4, 9), torch.ones(4, 9, dtype=torch.long)]\n"
    )
    assert set(draw(problem, problem.cases[0], "normal", 1)["mask"].flatten().tolist()) == {0, 1}


def test_an_integer_output_does_not_hide_values_outside_the_domain() -> None:
    """An argmax of NaN is a place like any other: uniform noise must stay between 0 and 1."""
    problem = opened(
        "def f(x, u):\n    return (x - torch.log(-torch.log(u))).argmax(-1)\n"
        "inputs = [torch.randn(6, 40), torch.rand(6, 40) * 0.9 + 0.05]\n"
    )
    assert problem.tensors[1].sampler.kind == "uniform" and not problem.tensors[1].sampler.scalable


def test_what_does_not_matter_at_small_sizes_is_asked_at_the_declared_one() -> None:
    """A hundred indices into five columns are all of them; seven into forty are not."""
    problem = opened(
        "def f(x, ids):\n    return x.scatter(1, ids, x.gather(1, ids) / 2)\n"
        "inputs = [torch.randn(3, 40), torch.stack([torch.randperm(40)[:7] for _ in range(3)])]\n"
    )
    assert problem.proofs


@pytest.mark.slow
def test_scales_of_blocks_are_as_many_as_blocks_at_small_sizes_too() -> None:
    problem = opened(
        "def f(codes, table, scale): return table[codes.long()].view(-1, 64) * scale[:, None]\n"
        "codes = torch.randint(0, 16, (64 * 65536,), dtype=torch.uint8)\n"
        "inputs = [codes, torch.randn(16), torch.rand(65536)]"
    )
    codes, _, scales = (str(spec.dims[0]) for spec in problem.tensors)
    assert len(problem.proofs) > 4
    assert all(case.size_map[codes] == 64 * case.size_map[scales] for case in problem.proofs)


NEAREST = "def f(a, b):\n    return (a[:, None] - b[None]).square().sum(-1).{after}\n"


@pytest.mark.many(5)
@pytest.mark.parametrize(
    ("after", "last", "shapes", "fixed"),
    [
        ("amin(1)", 3, "", True),
        ("sqrt().amin(1)", 4, "[((8, 4), (9, 4))]", True),
        ("amin(1)", 3, "[((8, 2), (9, 2))]", False),
        ("amin(1)", 5, "", False),
        ("sqrt()", 3, "", False),
    ],
)
def test_components_summed_up_inside_another_reduction_are_fixed(
    after: str, last: int, shapes: str, fixed: bool
) -> None:
    cell = f"{NEAREST.format(after=after)}inputs = [torch.randn(37, {last}), torch.randn(29, {last})]\n"
    problem = opened(cell + (f"shapes = {shapes}\n" if shapes else ""))
    assert all((spec.dims[1] == last) == fixed and isinstance(spec.dims[0], str) for spec in problem.tensors)
    assert (
        any(
            note.startswith("fixed, as components") and f"{last} along axis 1 of b" in note
            for note in problem.notes
        )
        == fixed
    )


@pytest.mark.many(6)
@pytest.mark.parametrize(
    ("before", "windows", "shapes", "fixed"),
    [
        ("x", "(3, 4)", "", [6, 8]),
        ("F.max_pool2d(x, 2)", "(3, 2)", "", [6, 8]),
        ("x", "(3, 4)", "[((2, 3, 6, 8),), ((5, 3, 6, 8),)]", [6, 8]),
        ("x", "(3, 4)", "[((2, 3, 6, 8),), ((2, 3, 12, 8),)]", [8]),
        ("x", "(5, 4)", "", [8]),
        ("x", "1", "", []),
    ],
)
def test_axes_that_an_adaptive_pool_cuts_evenly_are_fixed(
    before: str, windows: str, shapes: str, fixed: list[int]
) -> None:
    source = f"def f(x):\n    return F.adaptive_avg_pool2d({before}, {windows})\n"
    cell = f"{source}inputs = [torch.randn(2, 3, 6, 8)]\n" + (f"shapes = {shapes}\n" if shapes else "")
    problem = opened(f"from torch.nn import functional as F\n{cell}")
    assert [dim for dim in problem.tensors[0].dims if isinstance(dim, int)] == fixed
    told = [note for note in problem.notes if note.startswith("fixed, so that an adaptive pool")]
    assert bool(told) == bool(fixed) and all(f"{size} along axis" in told[0] for size in fixed)


@pytest.mark.many(2)
@pytest.mark.parametrize(("windows", "fixed"), [(6, [6]), (12, [])])
def test_as_many_windows_as_channels_are_a_depthwise_convolution(windows: int, fixed: list[int]) -> None:
    source = "def f(x, w):\n    return F.conv1d(x, w, padding=3, groups=x.shape[1])[..., : x.shape[-1]]\n"
    cell = f"{source}inputs = [torch.randn(2, 6, 11), torch.randn({windows}, 1, 4)]\n"
    problem = opened(f"from torch.nn import functional as F\n{cell}")
    assert [dim for dim in problem.tensors[0].dims if isinstance(dim, int)] == fixed
    assert bool([note for note in problem.notes if "each its own" in note]) == bool(fixed)
    assert ("aten.convolution" in generate(problem, ()).note) != bool(fixed)


def test_rows_of_four_that_lie_in_memory_stay_rows() -> None:
    cell = "def f(a, b):\n    return (a - b).square().sum(-1).amax()\n"
    problem = opened(cell + "inputs = [torch.randn(37, 4), torch.randn(37, 4)]\n")
    assert all(spec.dims == ("s0", "s1") for spec in problem.tensors)


def test_a_softmax_of_three_is_no_sum_inside_another() -> None:
    problem = opened("def f(x):\n    return (2 * x).softmax(-1)\ninputs = [torch.randn(37, 3)]\n")
    assert problem.tensors[0].dims == ("s0", "s1")
