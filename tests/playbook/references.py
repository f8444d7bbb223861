"""Functions that the playbook must be able to write kernels for, with odd sizes and mixed types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.playbook.problems import Call

Case = tuple[Call, Callable[[], dict[str, Tensor]]]


def of(**tensors: Any) -> Callable[[], dict[str, Tensor]]:
    """Tensors by name, drawn anew from a fixed seed: a shape, or (shape, dtype), or a tensor."""

    def make() -> dict[str, Tensor]:
        torch.default_generator.manual_seed(0)  # hundreds of times, while tests are collected
        made = {}
        for name, spec in tensors.items():
            if isinstance(spec, Tensor):
                made[name] = spec
            elif spec and isinstance(spec[-1], torch.dtype):
                made[name] = torch.randn(spec[0]).to(spec[1])
            else:
                made[name] = torch.randn(spec)
        return made

    return make


half, bf16 = torch.float16, torch.bfloat16
labels = torch.tensor([3, 0, 8, 1, 5, 5])
indices = torch.tensor([[0, 3, -1], [2, 2, 4]])
mask = torch.tensor([[True, False, True] * 3] * 6)

REFERENCES: dict[str, Case] = {
    # pointwise, broadcasting, types
    "gelu_bias": (lambda t: F.gelu(t["x"] + t["b"]), of(x=(5, 36), b=(36,))),
    "gelu_bias_half": (
        lambda t: F.gelu(t["x"] + t["b"], approximate="tanh"),
        of(x=((5, 40), half), b=((40,), half)),
    ),
    "silu_mul": (lambda t: F.silu(t["x"]) * t["y"], of(x=((3, 7, 5), bf16), y=((3, 7, 5), bf16))),
    "outer": (lambda t: t["x"][:, None] * t["y"], of(x=(7,), y=(9,))),
    "scalar_input": (lambda t: t["x"] * t["scale"] + 1, of(x=(33,), scale=())),
    "mixed_types": (lambda t: t["x"] + t["i"] * 2, of(x=((4, 6), half), i=torch.arange(6))),
    "activations": (
        lambda t: F.softplus(t["x"]) + F.elu(t["x"]) + F.hardswish(t["x"]) - F.leaky_relu(F.mish(t["x"])),
        of(x=(5, 13)),
    ),
    "clamps": (lambda t: t["x"].clamp(-0.5, 0.5) + F.relu(t["x"]) + t["x"].clamp(min=0.1), of(x=(65,))),
    "whole_powers": (lambda t: (t["x"] ** 4 + t["x"] ** 7, t["h"] ** 8), of(x=(65,), h=((65,), half))),
    "where_mask": (lambda t: torch.where(t["m"], t["x"], t["x"].neg()), of(x=(6, 9), m=mask)),
    "masked_fill": (lambda t: t["x"].masked_fill(t["m"], -torch.inf).softmax(1), of(x=(6, 9), m=mask)),
    "comparisons": (lambda t: ((t["x"] > 0) & (t["x"] < 1), (t["x"] != t["x"]).logical_not()), of(x=(6, 9))),
    "integers": (lambda t: (t["i"] // 3 + t["i"] % 3) * 2 - t["i"].clamp(min=2), of(i=torch.arange(-9, 9))),
    "casts": (lambda t: t["x"].half().float() * t["x"].int().float(), of(x=(6, 9))),
    "powers_of_two": (lambda t: 2.0 ** t["x"] + 2 ** t["h"], of(x=(6, 9), h=((6, 9), half))),
    "powers": (lambda t: t["x"] ** 2 + t["x"].abs() ** 0.5 + t["x"].abs() ** 1.7 + t["x"] ** 3, of(x=(6, 9))),
    # views
    "transposed": (lambda t: t["x"].t() + t["y"], of(x=(8, 4), y=(4, 8))),
    "slices": (lambda t: t["x"][:, 1::2] * t["x"][:, :-1:2] + t["x"].flip(1)[:, :4], of(x=(5, 9))),
    "rope": (
        lambda t: torch.cat([-t["x"][..., 4:], t["x"][..., :4]], -1) * t["sin"] + t["x"] * t["cos"],
        of(x=(2, 3, 8), sin=(3, 8), cos=(3, 8)),
    ),
    "heads": (lambda t: (t["x"].view(2, 6, 3, 4).permute(0, 2, 1, 3) * 2).reshape(6, 24), of(x=(2, 6, 12))),
    "stack": (lambda t: torch.stack([t["x"], t["x"].exp()], 1), of(x=(4, 8))),
    "repeat": (lambda t: t["x"].repeat(2, 3) + 1, of(x=(3, 4))),
    "chunks": (lambda t: torch.sigmoid(t["x"].chunk(2, 1)[0]) * t["x"].chunk(2, 1)[1], of(x=(5, 8))),
    "odd_chunks": (lambda t: tuple(part * 2 for part in t["x"].chunk(2, 1)), of(x=(5, 9))),
    "tril_turned_over": (
        lambda t: t["x"].masked_fill(torch.ones(5, 9).tril().flip(0).bool(), -30.0).softmax(-1),
        of(x=(3, 5, 9)),
    ),
    "tril": (lambda t: torch.tril(t["x"]) + torch.arange(9, dtype=torch.float32), of(x=(9, 9))),
    "diagonal": (
        lambda t: t["x"].diagonal() * t["b"] + t["y"].diagonal(0, 0, 2).sum(),
        of(x=(9, 6), b=(6,), y=(4, 3, 4)),
    ),
    "unfolded_axis": (lambda t: t["x"].unfold(1, 5, 3).mean(2), of(x=(4, 33))),
    "slice_replaced": (lambda t: t["x"].slice_scatter(t["y"] * 2, 1, 2, 5) + 1, of(x=(4, 9), y=(4, 3))),
    "circular_padding": (lambda t: F.pad(t["x"], (1, 1, 1, 1), mode="circular"), of(x=(2, 3, 6, 5))),
    "hinge_embedding": (lambda t: F.hinge_embedding_loss(t["x"], t["x"].sign()), of(x=(6, 9))),
    # gathers
    "embedding": (lambda t: F.embedding(t["i"], t["w"]) * 2, of(i=indices.abs(), w=(5, 8))),
    "index": (lambda t: t["w"][t["i"]].sum(-1), of(i=indices, w=(5, 8))),
    "gather": (lambda t: (t["x"] * 2).gather(1, t["i"]), of(x=(2, 5), i=indices.abs())),
    # reductions along rows
    "softmax": (lambda t: torch.softmax(t["x"], 1), of(x=(5, 36))),
    "softmax_half": (lambda t: torch.softmax(t["x"], -1), of(x=((3, 2, 40), half))),
    "log_softmax": (lambda t: F.log_softmax(t["x"], 1), of(x=(5, 35))),
    "layer_norm": (lambda t: F.layer_norm(t["x"], (36,), t["w"], t["b"]), of(x=(5, 36), w=(36,), b=(36,))),
    "norm_bf16": (lambda t: F.layer_norm(t["x"], (33,), t["w"]), of(x=((5, 33), bf16), w=((33,), bf16))),
    "layer_norm_3d": (lambda t: F.layer_norm(t["x"], (3, 2, 5)), of(x=(4, 3, 2, 5))),
    "rms_norm": (
        lambda t: t["x"] * torch.rsqrt(t["x"].pow(2).mean(-1, keepdim=True) + 1e-6) * t["w"],
        of(x=(7, 20), w=(20,)),
    ),
    "l2_norm": (lambda t: F.normalize(t["x"], dim=1), of(x=(5, 36))),
    "logsumexp": (lambda t: t["x"].logsumexp(1), of(x=(6, 36))),
    "statistics": (lambda t: (t["x"].mean(1), t["x"].var(1), t["x"].std(1, correction=0)), of(x=(6, 37))),
    "extremes": (lambda t: (*t["x"].max(1), *t["x"].min(0), t["x"].argmax(), t["x"].prod(1)), of(x=(6, 9))),
    "places_as_numbers": (
        lambda t: torch.minimum(t["x"].argmax(1).float(), t["w"]) + t["x"].argmin(0),
        of(x=(9, 9), w=(9,)),
    ),
    "any_all": (lambda t: ((t["x"] > 2).any(1), (t["x"] > -5).all(), (t["x"] > 0).sum(1)), of(x=(6, 9))),
    "double": (lambda t: t["x"].softmax(1), of(x=((3, 17), torch.float64))),
    # other axes
    "softmax_columns": (lambda t: torch.softmax(t["x"], 0), of(x=(5, 36))),
    "channel_norm": (lambda t: t["x"] / t["x"].pow(2).mean(1, keepdim=True).sqrt(), of(x=(2, 8, 4, 4))),
    "group_norm": (lambda t: F.group_norm(t["x"], 4, t["w"], t["b"]), of(x=(2, 8, 4, 4), w=(8,), b=(8,))),
    "instance_norm": (lambda t: F.instance_norm(t["x"]), of(x=(2, 3, 5, 4))),
    "batch_norm_train": (lambda t: F.batch_norm(t["x"], None, None, training=True), of(x=(4, 3, 5, 4))),
    "centred": (lambda t: t["x"] - t["x"].mean(0) - t["x"].mean(1, keepdim=True), of(x=(6, 9))),
    "softmax_then_columns": (lambda t: torch.softmax(t["x"], 1).sum(0), of(x=(5, 36))),
    # to a scalar, and few long rows
    "mse_loss": (lambda t: F.mse_loss(t["x"], t["y"]), of(x=(70, 90), y=(70, 90))),
    "smooth_l1": (lambda t: F.smooth_l1_loss(t["x"], t["y"]), of(x=(6, 9), y=(6, 9))),
    "cross_entropy": (lambda t: F.cross_entropy(t["x"], t["t"]), of(x=(6, 9), t=labels)),
    "kl_div": (
        lambda t: F.kl_div(t["x"].log_softmax(1), t["y"].softmax(1), reduction="batchmean"),
        of(x=(6, 9), y=(6, 9)),
    ),
    "cosine": (lambda t: F.cosine_similarity(t["x"], t["y"], dim=1).mean(), of(x=(6, 19), y=(6, 19))),
    "frobenius": (lambda t: t["x"] / t["x"].norm(), of(x=(70, 90))),
    "long_rows": (lambda t: torch.softmax(t["x"], 1), of(x=(3, 5000))),
    "long_moments": (lambda t: F.layer_norm(t["x"], (5001,), t["w"]), of(x=(2, 5001), w=(5001,))),
    "tall_columns": (lambda t: (t["x"].sum(0), *t["x"].max(0)), of(x=(3000, 7))),
    # with the library
    "linear_gelu": (
        lambda t: F.gelu(F.linear(t["x"], t["w"], t["b"])).softmax(-1),
        of(x=(6, 9), w=(5, 9), b=(5,)),
    ),
    "linear_rowsum": (
        lambda t: F.linear(t["x"], t["w"], t["b"]).sum(1, keepdim=True),
        of(x=(6, 40), w=(20, 40), b=(20,)),
    ),
    "attention": (lambda t: F.scaled_dot_product_attention(t["x"], t["x"], t["x"]), of(x=(2, 3, 8, 16))),
    "conv_relu": (
        lambda t: F.relu(F.conv2d(t["x"], t["w"], t["b"])).mean((2, 3)),
        of(x=(2, 3, 6, 6), w=(4, 3, 3, 3), b=(4,)),
    ),
    "dot_of_channels": (
        lambda t: torch.einsum("bchw,bchw->bhw", t["x"], t["y"]).relu(),
        of(x=(2, 5, 3, 7), y=(2, 5, 3, 7)),
    ),
    "matrix_vector": (lambda t: (t["x"] @ t["v"][:, None]).tanh(), of(x=((9, 300), half), v=((300,), half))),
    "vector_matrix": (lambda t: torch.bmm(t["v"], t["x"]) + 1, of(v=(3, 1, 40), x=(3, 40, 9))),
    # scans
    "cumsum": (lambda t: (t["x"] * 2).cumsum(1) + 1, of(x=(3, 9))),
    "cumsum_long": (lambda t: t["x"].cumsum(1), of(x=(3, 4100))),
    "cumsum_half": (lambda t: t["x"].cumsum(-1), of(x=((3, 300), half))),
    "cumsum_of_rows": (lambda t: t["x"].cumsum(0), of(x=(37, 50))),
    "cumsum_middle": (lambda t: t["x"].cumsum(1), of(x=(3, 20, 7))),
    "cumsum_whole_numbers": (lambda t: t["m"].cumsum(1), of(m=mask)),
    "flipped_matmul": (lambda t: t["x"].flip(0, 1)[:2] @ t["y"], of(x=(5, 6), y=(6, 8))),
    "cumsum_reverse": (lambda t: t["x"].flip(1).cumsum(1).flip(1), of(x=(3, 2052))),
    "cumsum_flipped": (lambda t: t["x"].cumsum(1).flip(1), of(x=(3, 70))),
    "cumsum_reverse_rows": (lambda t: t["x"].flip(0).cumsum(0).flip(0), of(x=(30, 7))),
    "cumsum_exclusive": (lambda t: t["x"].cumsum(1) - t["x"], of(x=(3, 70))),
    "cumsum_shifted": (lambda t: F.pad(t["x"].cumsum(1), (1, 0))[:, :-1], of(x=((3, 72), half))),
    "cumsum_behind_zero": (
        lambda t: torch.cat([torch.zeros_like(t["x"][:, :1]), t["x"].cumsum(1)[:, :-1]], 1),
        of(x=(3, 70)),
    ),
    "cumsum_behind_row": (lambda t: F.pad(t["x"].cumsum(0), (0, 0, 1, 0))[:-1], of(x=(30, 7))),
    "cumsum_tail": (lambda t: (t["x"].cumsum(1) * t["x"]).tanh(), of(x=((3, 1032), bf16))),
    "cumsum_and_tail": (lambda t: (t["x"].cumsum(1), t["x"].cumsum(1).tanh()), of(x=(3, 72))),
    "cumsum_chosen": (lambda t: torch.where(t["m"], t["x"], 0.0).cumsum(1), of(x=(6, 9), m=mask)),
    "cumsum_back_exclusive": (lambda t: t["x"].flip(1).cumsum(1).flip(1) - t["x"], of(x=(3, 516))),
    "cummax": (lambda t: t["x"].cummax(1), of(x=(3, 300))),
    "cummin_rows": (lambda t: t["x"].cummin(0), of(x=((37, 5), half))),
    "cummax_of_equals": (lambda t: t["x"].round().cummax(1).indices, of(x=(3, 1030))),
    "logcumsumexp": (lambda t: t["x"].logcumsumexp(1), of(x=(3, 301))),
    "logcumsumexp_rows": (lambda t: t["x"].logcumsumexp(0), of(x=((50, 31), bf16))),
    "cumsum_masked": (lambda t: (t["x"] * t["m"]).cumsum(1), of(x=(6, 9), m=mask)),
    "cumsum_of_softmax": (lambda t: t["x"].softmax(1).cumsum(1), of(x=(3, 70))),
    "cumprod": (lambda t: t["x"].cumprod(1), of(x=(5, 40))),
    "cumsum_line": (lambda t: t["x"].cumsum(0), of(x=(5000,))),
    "sorted": (lambda t: t["x"].sort(1).values * 2, of(x=(3, 9))),
    # windows
    "pooled": (lambda t: F.max_pool2d(t["x"], 2).sigmoid(), of(x=(2, 3, 6, 6))),
    "max_pool_padded": (lambda t: F.max_pool2d(t["x"], 3, 2, 1), of(x=(2, 3, 7, 9))),
    "max_pool_dilated": (lambda t: F.max_pool1d(t["x"], 3, 1, 0, 2), of(x=(2, 3, 17))),
    "max_pool_ceil": (lambda t: F.max_pool2d(t["x"], 3, 2, 1, ceil_mode=True), of(x=(2, 3, 8, 6))),
    "max_pool_volume": (lambda t: F.max_pool3d(t["x"], 2, ceil_mode=True), of(x=(2, 3, 4, 5, 6))),
    "max_pool_places": (
        lambda t: F.max_pool2d(t["x"], 2, 1, return_indices=True)[1],
        of(x=(2, 3, 5, 6)),
    ),
    "max_pool_places_padded": (
        lambda t: F.max_pool2d(t["x"], 3, 2, 1, return_indices=True),
        of(x=(2, 3, 5, 6)),
    ),
    "avg_pool": (lambda t: F.avg_pool2d(t["x"] * 2, 2).relu(), of(x=((2, 3, 6, 9), half))),
    "avg_pool_wide": (lambda t: F.avg_pool2d(t["x"], (9, 10)).relu(), of(x=((2, 3, 18, 20), half))),
    "adaptive_pool": (lambda t: F.adaptive_avg_pool2d(t["x"], (3, 2)) + t["x"].mean(), of(x=(2, 3, 6, 8))),
    "global_pool": (lambda t: F.adaptive_avg_pool2d(t["x"], 1).flatten(1), of(x=((2, 3, 7, 9), bf16))),
    "avg_pool_padded": (lambda t: F.avg_pool2d(t["x"], 3, 2, 1, ceil_mode=True), of(x=(2, 3, 8, 9))),
    "avg_pool_inside": (
        lambda t: F.avg_pool2d(t["x"], 3, 2, 1, count_include_pad=False),
        of(x=(2, 3, 7, 9)),
    ),
    "avg_pool_line": (lambda t: F.avg_pool1d(t["x"], 4, 2, 1), of(x=(2, 3, 33))),
    "pool_of_softmax": (lambda t: F.avg_pool2d(t["x"].softmax(3), 2), of(x=(2, 3, 6, 8))),
    "conv_pool": (
        lambda t: F.max_pool2d(F.relu(F.conv2d(t["x"], t["w"])), 2),
        of(x=(2, 3, 8, 8), w=(4, 3, 3, 3)),
    ),
    "upsampled": (lambda t: F.interpolate(t["x"], scale_factor=2.0) + 1, of(x=(2, 3, 5, 4))),
    "upsampled_odd": (lambda t: F.interpolate(t["x"], size=(7, 9)), of(x=(2, 3, 5, 4))),
    "upsampled_smooth": (
        lambda t: F.interpolate(t["x"], scale_factor=2.0, mode="bilinear"),
        of(x=(2, 3, 5, 4)),
    ),
    "unfolded": (lambda t: F.unfold(t["x"], 3, padding=1), of(x=(2, 3, 5, 4))),
    "two_indices": (lambda t: t["x"][:, indices, indices + 1], of(x=(3, 6, 7))),
    "padded": (lambda t: F.pad(t["x"], (1, 2, 0, 1), value=2.0) * 3, of(x=(2, 3, 6, 5))),
    "cropped": (lambda t: F.pad(t["x"], (-1, 2)), of(x=(5, 6))),
    "padded_sum": (lambda t: F.pad(t["x"], (3, 0)).sum(1), of(x=(5, 36))),
}  # fmt: skip
