"""Runs in a worker child: one NVRTC program from a request.

The only module that imports the CUDA bindings; the notebook process never imports it.
"""

from __future__ import annotations

import io

from cuda.core import Program, ProgramOptions
from cuda.core._utils.cuda_utils import NVRTCError  # not exported; cuda-core is pinned to one minor version

from workbench.compile.options import PRELUDE, SEED, STD, include_folders
from workbench.compile.request import FILE, Answer, Request


def compile_request(payload: bytes) -> bytes:
    """Compile a ``Request`` (JSON) into an ``Answer`` (JSON). A refusal is an answer, not an exception."""
    return _compile(Request.model_validate_json(payload)).model_dump_json().encode()


def warm_up() -> None:
    """Compile a trivial kernel in the server, so that its children find the compiler initialised."""
    _compile(Request(source="__global__ void warm_up() {}", kernels=("warm_up",), arch="sm_90a"))


def _compile(request: Request) -> Answer:
    log = io.StringIO()
    try:
        program = Program(request.source, "c++", _options(request))
        compiled = program.compile("cubin", name_expressions=request.kernels, logs=log)
    except NVRTCError as refusal:
        return Answer(log=_text(str(refusal).partition("compilation log:")[2]) or str(refusal))
    names = {expression: mangled.decode() for expression, mangled in compiled.symbol_mapping.items()}
    return Answer(
        log=_text(log.getvalue()),
        image=bytes(compiled.code),
        names=tuple((kernel, names[kernel]) for kernel in request.kernels),
    )


def _text(log: str) -> str:
    """NVRTC ends the parts of its log, the compiler's and the assembler's, with NUL characters."""
    return log.replace("\0", "").strip("\n ")


def _options(request: Request) -> ProgramOptions:
    return ProgramOptions(
        name=FILE,
        arch=request.arch,
        std=STD,
        ptxas_options=["-v"],
        lineinfo=request.lineinfo or None,
        include_path=list(include_folders()),
        pre_include=PRELUDE,
        define_macro=list(request.consts) or None,
        frandom_seed=SEED,
        # Kernels are optimised side by side, on all cores: the machine code is the same.
        split_compile=0 if len(request.kernels) > 1 else None,
        # A plain constexpr function may be called from a kernel, as in nvcc's relaxed mode.
        device_as_default_execution_space=True,
        # NVRTC's own cache initialises the GPU driver, which takes 0.17 s and starts a thread; a server
        # with threads must not fork. Measured with 13.0.88 and driver 580.159.
        no_cache=True,
    )
