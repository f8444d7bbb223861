"""From a ``.cu`` text to shared libraries that run it, cached by content.

Owns the generated C++ around the kernel and the link step. Never loads what it builds.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from workbench.emulator import diagnostics, elf, toolchain
from workbench.emulator.host_code import is_math, of_runtime, refuse_host_object, refuse_host_text
from workbench.emulator.ptx import with_known
from workbench.emulator.unsupported import refuse_unsupported, without_comments
from workbench.emulator.values import Binary, Consts, Instance, Mode, Module
from workbench.emulator.view import expanded, nvrtc_view
from workbench.errors import EmulatorBuildError

# More than any GPU's 227 KB, so that an overrun of the size a launch asked for stays inside the area
# and is reported rather than fatal.
DYNAMIC_AREA_BYTES = 256 * 1024
_LINK = (
    "-shared", "-nodefaultlibs", "-Wl,--no-as-needed", "-Wl,-Bsymbolic", "-Wl,-z,now", "-Wl,-rpath,$ORIGIN",
)  # fmt: skip
# Without C++'s own library, which the runtime brings along: reading its names took most of a link.
_LIBRARIES = ("-lm", "-lgcc", "-lc")
# The runtime has all that most kernels call. Reading what else there is would be two thirds of a link.
_WITHOUT_MORE = ("-lgcc",)
_WITH_MATH = ("-lm", "-lgcc")
_PUT_TOGETHER = re.compile(r"##|%:|\\\r?\n")
"""Words that no text shows: pasted ones, and ones that go on in the next line."""
# Part of every kernel's name in the cache: changes with the fields of ``Binary``.
_LAYOUT = "5"


def build(source: str, instances: Iterable[Instance], mode: Mode) -> Module:
    """Build every (kernel expression, consts) of a source; a repeat takes a few milliseconds.

    Raises ``EmulatorUnsupported`` for CUDA that the emulator does not cover, ``EmulatorBuildError`` when
    g++ refuses the source, ``DeviceError`` when the machine has no usable compiler.
    """
    started = time.perf_counter()
    groups: dict[Consts, list[str]] = {}
    for kernel, consts in instances:
        groups.setdefault(consts, []).append(kernel)
    source = with_known(source)  # first, so that all that is refused is looked for in what is compiled
    refuse_unsupported(source)
    refuse_host_text(source)
    built = [
        _binary(source, consts, tuple(dict.fromkeys(kernels)), mode) for consts, kernels in groups.items()
    ]
    return Module(
        mode=mode,
        binaries=tuple(binary for binary, _ in built),
        seconds=time.perf_counter() - started,
        cached=all(cached for _, cached in built),
    )


def _binary(source: str, consts: Consts, kernels: tuple[str, ...], mode: Mode) -> tuple[Binary, bool]:
    runtime = toolchain.runtime_path()
    try:
        seen = nvrtc_view(source, consts)
        if _PUT_TOGETHER.search(seen):
            pasted = expanded(seen, consts)
            refuse_unsupported(pasted)
            refuse_host_text(pasted)
        text = translation_unit(seen, consts, kernels)
    except toolchain.CompilerFailed as error:
        raise EmulatorBuildError(diagnostics.parse(str(error), source, kernels)) from None
    if re.search(r"\bvolatile\b", without_comments(source)):
        mode = "checked"  # only there a loop that polls a volatile lets the others run
    name = toolchain.digest(_LAYOUT, toolchain.headers(), runtime.name, *toolchain.flags(mode), text)
    facts = toolchain.cache_folder() / f"kernel-{name}.json"
    known = _remembered(facts) if runtime.exists() else None
    if known is not None:
        return known, True
    toolchain.prepare(mode)
    header = toolchain.precompiled(mode)
    with toolchain.scratch() as folder:
        try:
            library, warnings = _compile(folder, text, header, mode, source)
        except toolchain.CompilerFailed as error:
            raise EmulatorBuildError(diagnostics.parse(str(error), source, kernels)) from None
        target = facts.with_suffix(".so")
        binary = _describe(library, target, source, consts, kernels)
        binary = binary.model_copy(update={"remarks": diagnostics.remarks(warnings)})
        library.rename(target)
        draft = folder / "facts.json"
        draft.write_text(binary.model_dump_json())
        draft.rename(facts)  # last: whoever sees it finds the library
    toolchain.prune()
    return binary, False


def _remembered(facts: Path) -> Binary | None:
    """What an earlier build left; None when there is none, or another process deletes it right now."""
    try:
        body = facts.read_bytes()
        os.utime(facts)  # the oldest are deleted first
    except FileNotFoundError:
        return None
    return Binary.model_validate_json(body)


def translation_unit(source: str, consts: Consts, kernels: Sequence[str]) -> str:
    """The C++ text around a kernel: macros, the person's own lines, one entry point a kernel."""
    macros = "".join(f"#define {name} {value}\n" for name, value in consts)
    exports = "".join(f"EMU_EXPORT({number}, ({kernel}))\n" for number, kernel in enumerate(kernels))
    return (
        f'{macros}#line 1 "{diagnostics.SOURCE_NAME}"\n{source}\n'
        f'#line 1 "{diagnostics.ENTRY_NAME}"\n{exports}'
        "#undef __shared__\n"
        "thread_local char emu_tls_anchor;\n"
        "EMU_EXPORTED void emu_touch() { *(volatile char*)&emu_tls_anchor = 1; }\n"
    )


def _compile(folder: Path, text: str, header: Path, mode: Mode, source: str) -> tuple[Path, str]:
    """Compile and link in a folder: the library and the warnings. ``source`` is for the lines of refusals."""
    runtime = toolchain.runtime_path()
    unit, object_file, library = folder / "unit.cpp", folder / "unit.o", folder / "module.so"
    unit.write_text(text)
    include = [*toolchain.include_flags(), "-include", str(header)]
    command = [toolchain.compiler(), *toolchain.flags(mode), *include]
    warnings = toolchain.run([*command, "-c", unit.name, "-o", object_file.name], folder)
    inputs = [object_file.name]
    contents = elf.contents(object_file)
    refuse_host_object(contents, source)
    if contents.open_arrays:
        (folder / "dynamic.s").write_text(_dynamic_shared(contents.open_arrays))
        inputs.append("dynamic.s")
    libraries = _libraries(contents.undefined)
    toolchain.run(
        [toolchain.compiler(), *_LINK, *inputs, str(runtime), *libraries, "-o", library.name], folder
    )
    return library, warnings


def _libraries(undefined: Iterable[str]) -> tuple[str, ...]:
    """What has to be linked for these names, beside the runtime."""
    outside = [name for name in undefined if not of_runtime(name)]
    if not outside:
        return _WITHOUT_MORE
    return _WITH_MATH if all(map(is_math, outside)) else _LIBRARIES


def _dynamic_shared(names: Sequence[str]) -> str:
    """Assembly that defines every ``extern __shared__`` array at the start of one thread-local area."""
    labels = "".join(
        f".globl {name}\n.hidden {name}\n.type {name},@object\n{name}:\n"
        for name in (*names, elf.DYNAMIC_SYMBOL)
    )
    return (
        f'.section .tbss,"awT",@nobits\n.balign 1024\n{labels}.zero {DYNAMIC_AREA_BYTES}\n'
        '.section .note.GNU-stack,"",@progbits\n'
    )


def _describe(library: Path, target: Path, source: str, consts: Consts, kernels: tuple[str, ...]) -> Binary:
    layout = elf.layout(library)
    return Binary(
        consts=consts,
        kernels=kernels,
        path=str(target),
        text_bytes=layout.text_end,
        touch_offset=layout.touch,
        shared_arrays=layout.shared_arrays,
        guards=layout.guards,
        dynamic_offset=layout.dynamic,
        data=layout.data,
        variables=layout.variables,
        shadow_shift=_shadow_shift(source),
    )


def _shadow_shift(source: str) -> int:
    """log2 of the smallest element the source mentions. Too coarse only costs a restart at run time."""
    code = without_comments(source)
    if re.search(r"char\b|int8_t|fp8|bool\b.*\[", code):
        return 0
    return 1 if re.search(r"half|bfloat16|bf16|short|int16", code) else 2
