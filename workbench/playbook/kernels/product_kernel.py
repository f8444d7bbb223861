"""A product of float32 matrices on tensor cores.

Owns the text of such a kernel beyond tensor_core_kernel.py's: both factors lie in memory as matrices.
"""

from __future__ import annotations

from workbench.playbook.ir.program import MatrixProduct
from workbench.playbook.kernels.kernel_text import KernelText, Site, block
from workbench.playbook.kernels.result_frame import ResultFrame
from workbench.playbook.kernels.tensor_core_kernel import TensorCoreKernel
from workbench.playbook.text.scope import statement


def product_kernel(site: Site, made: MatrixProduct, name: str) -> KernelText:
    """Write the kernel of a product of matrices and of what is made of its results."""
    return _Matrices(site, made).finished(name)


class _Matrices(TensorCoreKernel):
    """The kernel of a product whose factors both lie in memory as matrices."""

    def __init__(self, site: Site, made: MatrixProduct) -> None:
        super().__init__(site, made, made.left)
        self.right = made.right
        self.right_from = self.first(made.right)
        self.copied_in_vectors(made.right, made.columns)
        self.frame.helpers.add("summed_alone")

    @property
    def right_by_terms(self) -> bool:
        return self.right.lies_by_terms

    @property
    def right_waits(self) -> bool:
        return True

    def right_brought(self) -> list[str]:
        to = "coming_right + stage * RIGHT"
        return [
            f"const float* const right = {self.right_from};",
            *self.brought("right", "WIDE", "first_column", self.columns, self.right, to),
        ]

    def right_read(self) -> list[str]:
        lines = [
            "// A thread takes four times four terms of a column of the right factor apart.",
            "float right_now[4];",
            "const auto read_right = [&](int stage, int part) {",
            "    const float* const from = coming_right + stage % STAGES * RIGHT;",
            "    const int at = part * BLOCK + threadIdx.x;",
        ]
        if self.right_by_terms:
            return [
                *lines,
                "    const float4 value = *reinterpret_cast<const float4*>(from + at * 4);",
                *(f"    right_now[{at}] = value.{axis};" for at, axis in enumerate("xyzw")),
                "};",
            ]
        return [
            *lines,
            "#pragma unroll",
            "    for (int t = 0; t < 4; ++t) {",
            "        right_now[t] = from[(at / WIDE * 4 + t) * WIDE + at % WIDE];",
            "    }",
            "};",
        ]

    def right_first(self) -> list[str]:
        first = ["read_right(0, part);", "write_right(0, part);"]
        return ["#pragma unroll", *block("for (int part = 0; part < 4; ++part)", first)]

    def right_begun(self) -> list[str]:
        return ["read_right(turn + stage + 1, 0);"]

    def right_quarter(self, quarter: str, is_last: bool) -> list[str]:
        following = str(int(quarter) + 1) if quarter.isdigit() else "part"
        found = [f"write_right(stage + 1, {quarter});"]
        return found if is_last else [*found, f"read_right(turn + stage + 1, {following});"]

    def right_ended(self) -> list[str]:
        return []

    @property
    def is_column(self) -> str:
        return f"column < {self.columns}"

    @property
    def is_row(self) -> str:
        return f"row < {self.rows}"

    def column_found(self) -> list[str]:
        return ["const int column = column_here + c * 32 + lane;"]

    def row_found(self) -> list[str]:
        return ["const int row = row_here + line;"]

    def made_anew(self) -> list[str]:
        starts = []
        for name, factor in (("row", self.left), ("column", self.right)):
            first = self.first(factor, "matrix_here")
            across, terms = self.frame.macros.text(factor.across), self.frame.macros.text(factor.terms)
            along = name if factor.across.is_one else f"size_t({name}) * {across}"
            starts.append(f"{first} + {along}, {terms}")
        return statement(f"result = summed_alone({', '.join(starts)}, {self.terms});")

    def at_place(self) -> ResultFrame:
        places = ("0" if self.batch.is_one else "matrix_here", "row", "column")
        return ResultFrame(self.frame, self.made, places)
