"""Headers that kernels written for nvcc include, under NVRTC."""

from __future__ import annotations

import pytest

from workbench.compile import compile_kernel
from workbench.model import CompileReport

CHEAP = [
    "algorithm",
    "array",
    "assert.h",
    "cassert",
    "cfloat",
    "climits",
    "cmath",
    "cstddef",
    "cstdint",
    "cstdio",
    "cstdlib",
    "cstring",
    "cuda.h",
    "cuda_bf16.h",
    "cuda_fp16.h",
    "cuda_fp8.h",
    "cuda_pipeline.h",
    "cuda_runtime.h",
    "cuda_runtime_api.h",
    "device_launch_parameters.h",
    "float.h",
    "initializer_list",
    "limits",
    "limits.h",
    "math.h",
    "math_constants.h",
    "mma.h",
    "stddef.h",
    "stdint.h",
    "stdio.h",
    "stdlib.h",
    "string.h",
    "type_traits",
    "utility",
    "vector_types.h",
]
SLOW = ["cooperative_groups.h", "cub/block/block_reduce.cuh", "tuple", "functional"]


def assert_compiles(source: str) -> None:
    report = compile_kernel(source, [("k", ())])
    assert isinstance(report, CompileReport), report
    assert report.warnings == ()


@pytest.mark.many(6)
@pytest.mark.parametrize("header", CHEAP)
def test_header_alone(header: str) -> None:
    assert_compiles(f"#include <{header}>\n__global__ void k(float* x) {{ *x = 1; }}")


def test_all_headers_together() -> None:
    lines = "\n".join(f"#include <{header}>" for header in CHEAP + SLOW)
    assert_compiles(f"{lines}\n__global__ void k(float* x) {{ *x = 1; }}")


def test_names_that_nvcc_gives_without_a_header() -> None:
    assert_compiles("""__global__ void k(float* x) {
        uint32_t bits = UINT32_MAX; size_t n = sizeof(int8_t); std::size_t m = INT_MAX;
        x[0] = -INFINITY + NAN + FLT_MAX + M_PI + std::sqrt(x[1]) + std::isnan(x[2]) + bits + n + m;
    }""")


def test_values_are_right_at_compile_time() -> None:
    assert_compiles("""#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>
using std::numeric_limits;
static_assert(numeric_limits<int>::max() == INT_MAX && numeric_limits<int>::min() == INT_MIN);
static_assert(numeric_limits<long long>::min() == LLONG_MIN && numeric_limits<unsigned>::max() == UINT_MAX);
static_assert(numeric_limits<uint8_t>::max() == 255 && numeric_limits<int16_t>::lowest() == -32768);
static_assert(numeric_limits<uint64_t>::max() == ULLONG_MAX && numeric_limits<int>::digits == 31);
static_assert(numeric_limits<float>::infinity() > FLT_MAX && numeric_limits<float>::lowest() == -FLT_MAX);
static_assert(numeric_limits<float>::quiet_NaN() != numeric_limits<float>::quiet_NaN());
static_assert(1.0f + FLT_EPSILON > 1.0f && 1.0f + FLT_EPSILON / 2 == 1.0f);
static_assert(FLT_MIN > 0 && DBL_MAX < HUGE_VAL);
static_assert(std::is_same_v<std::decay_t<const float&>, float>);
static_assert(std::is_same_v<std::remove_pointer_t<int*>, int>);
static_assert(std::is_floating_point_v<const double> && !std::is_integral_v<float>);
static_assert(std::is_unsigned_v<uint8_t> && std::is_signed_v<int> && !std::is_unsigned_v<float>);
static_assert(std::is_same<std::conditional_t<sizeof(int) == 4, float, int>, float>::value);
static_assert(std::is_same_v<std::make_index_sequence<3>, std::index_sequence<0, 1, 2>>);
static_assert(std::max(1, 2) == 2 && std::min(1.f, 2.f) == 1.f && std::clamp(5, 0, 3) == 3);
constexpr int half_of(int n) { return n / 2; }
static_assert(half_of(4) == 2);
template <class T, std::enable_if_t<std::is_floating_point<T>::value, int> = 0>
__device__ T f(T a) { return a; }
__global__ void k(float* x) {
    float a[2] = {x[0], x[1]};
    std::swap(a[0], a[1]);
    std::array<float, 4> kept{};
    kept.fill(f(a[0]));
    x[0] = kept[half_of(4)] + std::move(a[1]);
}""")
