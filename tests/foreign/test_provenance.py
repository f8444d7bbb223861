"""Whose kernel a name is, what a text defines, and what is said of the device's time."""

from __future__ import annotations

import pytest

from workbench.foreign import verdicts
from workbench.foreign.provenance import brought, defined, family_of, shares_of
from workbench.foreign.values import Provenance, Share

OWN = ("my_gemm_kernel", "row_softmax")


@pytest.mark.parametrize(
    ("kernel", "family"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, at::native::f>(int)", "PyTorch"),
        ("nvjet_tst_128x64_64x8_h_bz_TNN", "cuBLAS"),
        ("ampere_sgemm_128x64_tn", "cuBLAS"),
        ("sm80_xmma_fprop_implicit_gemm_f32f32", "cuDNN"),
        ("triton_per_fused__softmax_0", "torch.compile"),
        ("Memcpy DtoD (Device -> Device)", "copy"),
        ("row_softmax(float const*, float*, int)", ""),
        ("void (anonymous namespace)::my_gemm_kernel<128>(float*)", ""),
        ("unheard_of(float*)", "other"),
        ("void (anonymous namespace)::softmax_warp_forward<float, float>(float*)", "PyTorch"),
    ],
)
def test_families(kernel: str, family: str) -> None:
    assert family_of(kernel, OWN) == family


def test_without_known_definitions_a_kernel_of_no_library_is_the_solutions_own() -> None:
    assert family_of("unheard_of(float*)", None) == ""
    assert brought("module = load_inline(cuda_sources=text)") is None


def test_a_text_that_can_bring_no_kernel_has_none_of_its_own() -> None:
    text = "import torch\n\nclass ModelNew:\n    def forward(self, x):\n        return torch.softmax(x, 1)\n"
    assert brought(text) == [] and family_of("unheard_of(float*)", brought(text)) == "other"
    ran = {"void (anonymous namespace)::softmax_warp_forward<float, float>(float*)": 5.0}
    assert shares_of(ran, brought(text))["own_kernels"] == []


def test_names_that_a_macro_makes_are_not_known() -> None:
    macro = "#define KERNEL(name) \\\\\n  __global__ void name(float* x) { x[0] = 1; }\n"
    text = f'SOURCE = r"""\n{macro}KERNEL(mine)\n"""\n'
    assert defined(text) == []
    assert defined(text.replace("#define KERNEL(name)", "")) == ["name"]


def test_a_library_kernel_without_a_namespace_is_no_excuse() -> None:
    ran = {"void (anonymous namespace)::softmax_warp_forward<float, float>(float*)": 5.0}
    told = shares_of(ran, ["row_softmax"])
    shares = tuple(Share.model_validate(share) for share in told["shares"])
    seen = Provenance(
        clock="device",
        shares=shares,
        own_kernels=tuple(told["own_kernels"]),
        defined=("row_softmax",),
        launches=1,
    )
    assert verdicts.ghost(seen) is not None


def test_what_a_text_defines() -> None:
    text = '''
import triton

@triton.jit
def doubled(x): pass

def plain(x): pass

CUDA = """
template <int N> __global__ void __launch_bounds__(256, 2) row_softmax(const float* x) {}
extern "C" __global__ void other(float* y) {}
__device__ float helper(float x) { return x; }
"""
'''
    assert set(defined(text)) == {"doubled", "row_softmax", "other"}


def of(times: dict[str, float], names: tuple[str, ...] = OWN, claims: tuple[str, ...] = ()) -> Provenance:
    found = shares_of(times, names)
    return Provenance(
        shares=tuple(Share.model_validate(share) for share in found["shares"]),
        own_kernels=tuple(found["own_kernels"]),
        defined=names,
        claims=claims,
        clock="device",
        launches=len(times),
        own_calls=("module.run",),
    )


def test_device_time_in_words() -> None:
    told = of({"nvjet_tst_128x64": 62.0, "row_softmax(float*)": 38.0}).sentence
    assert told.startswith(
        "62% of device time in a cuBLAS kernel (nvjet_tst_128x64); 38% of device time in a "
    )
    assert "kernel of its own" in told and told.endswith("2 kernels and copies a call")


def test_a_kernel_that_never_runs_is_a_ghost_whatever_host_function_was_called() -> None:
    assert verdicts.ghost(of({"row_softmax(float*)": 1.0, "nvjet_tst": 9.0})) is None
    ghost = verdicts.ghost(of({"nvjet_tst": 9.0}))
    assert ghost is not None and "100% of device time in a cuBLAS kernel" in ghost.message
    assert verdicts.ghost(of({"nvjet_tst": 9.0}, names=())) is None


def test_a_profiler_that_saw_nothing_accuses_nobody() -> None:
    blind = Provenance(clock="blind", defined=OWN, claims=("load_inline",))
    assert verdicts.ghost(blind) is None and "the profiler saw none" in blind.sentence
