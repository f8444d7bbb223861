"""One self-contained Python file with a class ``ModelNew`` that KernelBench and others can run.

Owns the order of the file. The reference's class is taken over with its constructor; ``forward`` carries
out the kernel's plan at the problem's declared sizes and is plain torch for everything else.
"""

from __future__ import annotations

import hashlib
import re
import textwrap
from collections.abc import Container, Sequence

from workbench.errors import UsageError
from workbench.export.launchers import (
    Launcher,
    device_text,
    headers_text,
    host_text,
    launchers_of,
    refuse_repeated_c_names,
    spaces_of,
)
from workbench.export.reference import IN_TORCH, ReferenceText, reference_text
from workbench.export.steps import StepText
from workbench.model import Case, Kernel, Problem, Target
from workbench.plan.parse import parse
from workbench.plan.steps import Library, Plan
from workbench.referee.planning import plan_cases

_CONVOLUTION = "aten.convolution.default"
_MODES = re.compile(r"BatchNorm|batch_norm|[Dd]ropout|\.training\b|track_running_stats")


def kernelbench_file(problem: Problem, kernel: Kernel, target: Target) -> str:
    """The text of the file. ``target`` is the card the plan is laid out for.

    Raises ``UsageError`` in one or two lines for a reference that is not all in its text, for kernels that
    cover no declared size, and for a plan without a kernel of its own.
    """
    reference = reference_text(problem)
    plans = _plans(problem, kernel, target)
    launchers = launchers_of(
        [step for _, plan in plans for step in plan.launches], parse(kernel.source).kernels
    )
    if not launchers:
        raise UsageError(f"{problem.name}: the plan starts no kernel; there is nothing to export")
    parts = [_introduction(problem, plans), _imports(reference)]
    parts += [_cuda(kernel, launchers), _CHECKS]
    parts += [part for part in (reference.others,) if part]
    parts.append(f"{reference.body}\n\n{_methods(problem, kernel, plans, launchers, reference)}")
    text = "\n\n".join(part.strip("\n") for part in parts) + "\n"
    return re.sub(r"\n+(?=\n\n\n(?:def|class) )|(?<=[^\n]\n)(?=\n(?:def|class) )", "\n", text)


Plans = Sequence[tuple[Case, Plan]]


def _plans(problem: Problem, kernel: Kernel, target: Target) -> Plans:
    wanted = [(case, tuple(problem.metas(case).items())) for case in problem.cases]
    planned = plan_cases(parse(kernel.source), wanted, target)
    found = [(one.case, one.plan) for one in planned if one.plan is not None]
    if not found:
        why = next((f" Line {d.line}: {d.message}" for one in planned for d in one.diagnostics), "")
        raise UsageError(f"{problem.name}: the kernel covers none of the declared sizes.{why}")
    return found


def _introduction(problem: Problem, plans: Plans) -> str:
    calls = dict.fromkeys(s.op for _, plan in plans for s in plan.steps if isinstance(s, Library))
    library = f"Library calls: {', '.join(calls)}." if calls else "No library calls."
    text = (
        "The constructor is the reference's own: the same seed gives the same weights. forward carries out "
        f"the kernel's plan at {', '.join(case.label for case, _ in plans)}; other sizes, other devices"
        f"{' and training mode' if _mode_matters(problem) else ''} run in plain torch. "
        f"Forward only: no gradients. {library}"
    )
    if _convolves(problem, calls):
        text += (
            " A kernel makes the convolution as exactly as float32 is; PyTorch's own is rounded to TF32 "
            "unless torch.backends.cudnn.allow_tf32 is False."
        )
    return (
        f'"""{problem.name} with CUDA kernels, exported by the workbench.\n\n{textwrap.fill(text, 100)}\n"""'
    )


def _convolves(problem: Problem, calls: Container[str]) -> bool:
    """True where a convolution of the reference is no library call of the plan."""
    asked = any(node.op == _CONVOLUTION for node in problem.graph.nodes)
    return asked and _CONVOLUTION not in calls and _CONVOLUTION.removesuffix(".default") not in calls


def _imports(reference: ReferenceText) -> str:
    own = reference.imports.splitlines()
    wanted = ["import torch", "import torch.nn as nn", "from torch.utils.cpp_extension import load_inline"]
    return "\n".join([*(line for line in own if line not in wanted), *wanted])


# ------------------------------------------------------------------------------------ kernels


def _cuda(kernel: Kernel, launchers: Sequence[Launcher]) -> str:
    kernels, headers = device_text(kernel.source)
    refuse_repeated_c_names(kernels, launchers)
    if '"""' in kernels:
        raise UsageError('the kernels hold """, which cannot stand in a Python file: write it another way')
    host = host_text(launchers)
    spaces = ",\n".join(
        f'    "{space}": {{{", ".join(f"{name!r}: {value!r}" for name, value in consts)}}}'
        for space, consts in spaces_of(launchers).items()
    ).replace("'", '"')
    names = ", ".join(f'"{one.name}"' for one in launchers)
    declarations = "\n".join(f"{one.declaration};" for one in launchers)
    texts = (
        f'_HEADERS = """\n{headers_text(headers)}\n"""\n\n'
        f'_KERNELS = r"""\n{kernels}\n"""\n\n'
        f"# Sizes that the kernels are compiled for, by namespace.\n_SIZES = {{\n{spaces},\n}}\n\n"
        f'_LAUNCHERS = r"""\n{host}\n"""\n\n'
        f'_DECLARATIONS = """\n#include <cstdint>\n#include <pybind11/pybind11.h>\n{declarations}\n"""\n'
    )
    digest = hashlib.sha256(texts.encode()).hexdigest()[:12]
    found = _HALF_FLAGS if re.search(r"half|bfloat16", kernels) else []
    found = [*found, *(_HOPPER_FLAGS if "wgmma" in kernels else [])]
    flags = "".join(f"            {flag}\n" for flag in found)
    flags = f"        extra_cuda_cflags=[\n{flags}        ],\n" if flags else ""
    return f"{texts}\n{_BUILD.format(name=f'workbench_{digest}', functions=names, flags=flags)}"


_HALF_FLAGS = [
    "# torch switches these off; the kernels were compiled with them",
    '"-U__CUDA_NO_HALF_OPERATORS__",',
    '"-U__CUDA_NO_HALF_CONVERSIONS__",',
    '"-U__CUDA_NO_HALF2_OPERATORS__",',
    '"-U__CUDA_NO_BFLOAT16_CONVERSIONS__",',
]
_HOPPER_FLAGS = [
    "# multiplications of warp groups are instructions of Hopper alone: torch does not ask for them itself",
    '"-gencode=arch=compute_90a,code=sm_90a",',
]
_BUILD = '''\

def _compiled_for(space, sizes):
    """The kernels in a namespace of their own, with their sizes as macros."""
    defined = "\\n".join(f"#define {{name}} {{value}}" for name, value in sizes.items())
    undefined = "\\n".join(f"#undef {{name}}" for name in sizes)
    return f"{{defined}}\\nnamespace {{space}} {{{{\\n{{_KERNELS}}\\n}}}}\\n{{undefined}}"


def _build():
    # Kernels and launchers need no header of torch: they compile in seconds.
    compiled = [_compiled_for(space, sizes) for space, sizes in _SIZES.items()]
    return load_inline(
        name="{name}",
        cpp_sources=[_DECLARATIONS],
        cuda_sources=[_HEADERS, *compiled, _LAUNCHERS],
        functions=[{functions}],
{flags}        with_pytorch_error_handling=False,
        no_implicit_headers=True,
    )


_kernels = _build() if torch.cuda.is_available() else None'''

_CHECKS = '''
def _fits(tensor, dtype, shape, strides=None):
    """True for a tensor that the kernels can read as it lies in memory."""
    return (
        tensor.is_cuda
        and tensor.dtype == dtype
        and tuple(tensor.shape) == shape
        and (tensor.is_contiguous() if strides is None else tensor.stride() == strides)
        and tensor.data_ptr() % 256 == 0
    )


def _is(given, value):
    """True for the very scalar that the kernels were written for."""
    return type(given) is type(value) and given == value


def _laid_out(tensor, shape, strides=None):
    """A library's result as the next kernel reads it; copied only where it lies differently."""
    if strides is None:
        return tensor.contiguous().view(shape)
    return tensor if tensor.stride() == strides else tensor.new_empty_strided(shape, strides).copy_(tensor)
'''

# ------------------------------------------------------------------------------------ the class


def _mode_matters(problem: Problem) -> bool:
    """True where a module in training mode may compute something else than the kernel was judged on."""
    return _MODES.search(problem.source) is not None


def _methods(
    problem: Problem, kernel: Kernel, plans: Plans, launchers: Sequence[Launcher], reference: ReferenceText
) -> str:
    """``forward`` and, for several sizes, a method for each."""
    program = parse(kernel.source)
    choices: list[str] = []
    methods: list[str] = []
    for number, (case, plan) in enumerate(plans):
        text = StepText(problem, program, launchers, reference.parameters)
        bindings = text.bindings()
        covered = [*(["not self.training"] if _mode_matters(problem) else []), *text.covered(plan)]
        name = f"_at_{re.sub(r'[^0-9a-zA-Z]+', '_', case.label).strip('_') or number}"
        tensors = ", ".join(dict.fromkeys(text.names[name] for name, _ in plan.arguments))
        check = f"{name}_covered"
        methods += [
            f"def {check}({reference.signature}):",
            *_indented(
                [*bindings, "return (", *_indented([covered[0], *(f"and {c}" for c in covered[1:])]), ")"]
            ),
            "",
            f"def {name}({reference.signature}):",
            f'    """The plan at {case.label}."""',
            *_indented(bindings),
            f"    with torch.cuda.device({tensors.partition(',')[0]}.device):",
            "        stream = torch.cuda.current_stream().cuda_stream",
            *_indented(text.lines(plan), 2),
            "",
        ]
        choices += [f"if self.{check}({reference.call}):", f"    return self.{name}({reference.call})"]
    body = [*methods, "@torch.no_grad()", f"def forward({reference.signature}):"]
    body += _indented([*choices, f"return self.{IN_TORCH}({reference.call})"])
    return "\n".join(line and f"    {line}" for line in body)


def _indented(lines: Sequence[str], by: int = 1) -> list[str]:
    return [line and "    " * by + line for line in lines]
