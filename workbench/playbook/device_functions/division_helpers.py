"""Device functions that divide without the jump of an exact division, and how near to it they are.

Owns their text. analysis/divisions.py and analysis/shared_divisors.py say which division becomes which.
"""

from __future__ import annotations

from collections.abc import Mapping

DIVISIONS: Mapping[str, str] = {
    "quotient": """
// a / b, off by at most two last places. An exact division jumps away for numbers that are very large or very
// small; a jump an element keeps a thread from working on the elements of a vector side by side.
__device__ inline float quotient(float a, float b) {
    const float scale = fabsf(b) > 0x1p126f ? 0.25f : 1.0f;  // the hardware's 1 / b is 0 beyond 2^126
    return __fdividef(a * scale, b * scale);
}
""",
    "over": """
// a / number, rounded as an exact division is and without its jump: a product with 1 / number, which the
// compiler knows, and a correction by what that leaves.
__device__ inline float over(float a, float number) {
    const float inverse = 1.0f / number;
    const float product = a * inverse;
    const float rest = fmaf(-product, number, a);
    return isfinite(product) ? fmaf(rest, inverse, product) : product;
}
""",
    "usual_scale": """
// The power of two by which a divisor is a number whose reciprocal is neither too large nor too small to have
// all of its digits. Nothing is rounded by it.
__device__ inline float usual_scale(float divisor) {
    const float size = fabsf(divisor);
    return size < 0x1p-64f ? 0x1p64f : size > 0x1p64f ? 0x1p-64f : 1.0f;
}
""",
    "over_shared": """
// a / divisor where many are divided by the same, rounded as an exact division is: a product with the
// reciprocal, and a correction by what that leaves (Markstein, 1990). No jump, and no reciprocal each.
__device__ inline float over_shared(float a, float divisor, float inverse) {
    const float product = a * inverse;
    const float rest = fmaf(-product, divisor, a);
    return isfinite(rest) ? fmaf(rest, inverse, product) : product;
}
""",
}
