"""What a drawn module does further on: activations, norms, pools, reductions, joins, moves, losses."""

from __future__ import annotations

from collections.abc import Callable

from module_heads import convolution, linear, product
from module_text import Maker, Unfit

ACTIVATIONS = (
    "ReLU()", "ReLU6()", "LeakyReLU(0.2)", "ELU(alpha=0.7)", "SELU()", "CELU(1.3)", "GELU()",
    'GELU(approximate="tanh")', "SiLU()", "Mish()", "Hardswish()", "Hardsigmoid()", "Hardtanh(-2, 1.5)",
    "Softplus()", "Softplus(beta=2, threshold=5)", "Softsign()", "Tanh()", "Sigmoid()", "LogSigmoid()",
    "Tanhshrink()", "Hardshrink(0.3)", "Softshrink(0.2)", "Threshold(0.1, -0.5)", "PReLU()", "RReLU()",
    "Dropout(0.3)", "Identity()", "ReLU(inplace=True)", "SiLU(inplace=True)", "AlphaDropout(0.1)",
)  # fmt: skip
FUNCTIONS = (
    "torch.tanh({x})", "torch.sigmoid({x})", "{x}.relu()", "torch.exp(-{x}.abs())",
    "torch.sqrt({x}.abs() + 1e-3)",
    "torch.rsqrt({x} * {x} + 0.5)", "torch.log1p({x}.abs())", "torch.erf({x})", "torch.sin({x})",
    "{x} ** 2 / 8",
    "torch.clamp({x}, -1, 1)", "{x}.clamp(min=0.1)", "torch.sign({x}) * {x}", "-{x}", "1 - {x}",
    "{x} / 3 + 1",
    "2.5 * {x}", "torch.abs({x})", "F.softplus({x}) * {x}", "{x} * torch.sigmoid({x})",
    "torch.nan_to_num({x})",
    "0.5 * {x} * (1 + torch.tanh(math.sqrt(2 / math.pi) * ({x} + 0.044715 * torch.tanh({x}))))",
    "torch.atan({x})", "{x} % 1.5", "torch.floor({x} * 2)", "torch.round({x})",
    "torch.reciprocal({x}.abs() + 1)",
    "torch.lerp({x}, -{x}, 0.25)", "F.normalize({x}, dim=-1)", "torch.where({x} > 0, {x}, 0.1 * {x})",
    "torch.square({x}).clamp(max=9)", "torch.logit(torch.sigmoid({x}) * 0.9 + 0.05)",
    "torch.expm1(-{x}.abs())",
    "torch.addcmul({x}, {x}, {x}.tanh(), value=0.5)", "{x}.softmax(-1) * {x}", "F.gelu({x}) + {x}",
)  # fmt: skip


def activation(m: Maker, x: str) -> str:
    """Any activation of ``torch.nn``."""
    x = m.real(x)
    chosen = m.dice.choice((*ACTIVATIONS, "GLU", "PReLU", "Dropout2d(0.2)"))
    shape = m.shape(x)
    if chosen == "PReLU" and len(shape) > 1:
        chosen = f"PReLU({shape[1]})"
    if chosen == "GLU":
        chosen = f"GLU({m.axis(x)})"
    if "inplace" in chosen:
        x = m.say(f"{x} * 1.5")
    return m.say(f"{m.held(f'nn.{chosen}')}({x})")


def function(m: Maker, x: str) -> str:
    """A line of arithmetic on one value."""
    return m.say(m.dice.choice(FUNCTIONS).format(x=m.real(x)))


def with_parameter(m: Maker, x: str) -> str:
    """Arithmetic with a parameter of a shape that is broadcast."""
    x = m.real(x)
    shape = m.shape(x)
    first = m.dice.choice((0, 0, len(shape) // 2, max(len(shape) - 1, 0)))
    small = tuple(1 if m.dice.random() < 0.4 else size for size in shape[first:])
    if len(shape) > 2 and m.dice.random() < 0.3:
        small = (shape[1], *(1,) * (len(shape) - 2))
    other = m.parameter(small)
    if m.dice.random() < 0.15:
        other = m.buffer(f"torch.rand({', '.join(map(str, small))})" if small else "torch.tensor(0.7)")
    form = m.dice.choice(
        ("{x} + {p}", "{x} * {p}", "{x} - {p}", "{p} - {x}", "{x} / ({p}.abs() + 0.5)",
        "torch.max({x}, {p})",
         "torch.minimum({x}, {p})", "torch.where({x} > {p}, {x}, {p})", "torch.sigmoid({p}) * {x}",
         "torch.addcmul({x}, {x}, {p})", "torch.lerp({x}, {p}, 0.3)", "torch.add({x}, {p}, alpha=0.5)",
         "torch.maximum({x} * {p}, {x})", "torch.atan2({x}, {p}.exp())")
    )  # fmt: skip
    return m.say(form.format(x=x, p=other))


def in_place(m: Maker, x: str) -> str:
    """A value that is changed where it is."""
    x = m.say(m.dice.choice(("{x} + 1", "{x}.clone()", "{x} * 0.5")).format(x=m.real(x)))
    shape = m.shape(x)
    forms = ["{x} += 1.5", "{x} *= 0.5", "{x}.clamp_(min=-1)", "{x}.mul_({x})", "{x}.add_({x}.mean())"]
    if shape:
        forms += [
            "{x}[0] = 0",
            "{x}[..., -1] += 1",
            "{x}[:1] = {x}[-1:]",
            "{x}[..., ::2] *= 2",
            "{x}[{x} < 0] = 0",
        ]
    m.do(m.dice.choice(forms).format(x=x))
    return x


def norm(m: Maker, x: str) -> str:
    """A normalisation layer."""
    x = m.real(x)
    shape = m.shape(x)
    m.rank(x, 2, 3, 4, 5)
    channels, rank = shape[1], len(shape)
    name = f"{max(rank - 2, 1)}d"
    several = [n for n in range(1, channels + 1) if channels % n == 0]
    last = f"({', '.join(map(str, shape[m.dice.randint(1, rank - 1) :]))},)"
    forms = [
        f"nn.LayerNorm({last})",
        f"nn.LayerNorm({shape[-1]}, bias=False)",
        f"nn.RMSNorm({last}, eps=1e-5)",
    ]
    forms += [
        f"nn.LayerNorm({last}, elementwise_affine=False)",
        f"nn.GroupNorm({m.dice.choice(several)}, {channels})",
    ]
    forms += [f"nn.BatchNorm{name}({channels})", f"nn.BatchNorm{name}({channels}, affine=False)"]
    forms += [f"nn.BatchNorm{name}({channels}, track_running_stats=False)"] * 2
    if rank > 2:
        forms += [f"nn.InstanceNorm{name}({channels}{more})" for more in ("", ", affine=True")] * 2
        forms += [
            f"nn.LocalResponseNorm({m.dice.choice((2, 3, 5))}, alpha=0.1)",
            f"nn.GroupNorm(1, {channels}, affine=False)",
        ]
    forms += ["training"]
    chosen = m.dice.choice(forms)
    if chosen == "training":
        parameters = f"{m.parameter((channels,))}, {m.parameter((channels,))}"
        return m.say(f"F.batch_norm({x}, None, None, {parameters}, training=True)")
    return m.say(f"{m.held(chosen)}({x})")


def pool(m: Maker, x: str) -> str:
    """A pooling layer over the last one to three axes."""
    x = m.real(x)
    axes = m.rank(x, 3, 4, 5) - 2
    dice = m.dice
    extent, step, pad = dice.choice(
        ((2, 2, 0), (3, 1, 1), (3, 2, 1), (2, 1, 0), (3, 2, 0), (4, 3, 2), (5, 1, 2))
    )
    options = f"{extent}, stride={step}" + (f", padding={pad}" if pad else "")
    targets = tuple(dice.randint(1, size) for size in m.shape(x)[2:])
    target = dice.choice((1, 1, targets if axes > 1 else targets[0]))
    forms = [
        f"nn.MaxPool{axes}d({options})", f"nn.MaxPool{axes}d({options}, ceil_mode=True)",
        f"nn.AvgPool{axes}d({options})", f"nn.AvgPool{axes}d({options}, count_include_pad=False)",
        f"nn.AvgPool{axes}d({options}, ceil_mode=True)", f"nn.AdaptiveAvgPool{axes}d({target})",
        f"nn.AdaptiveMaxPool{axes}d({target})", f"nn.MaxPool{axes}d({extent})",
        f"nn.AvgPool{axes}d({extent})",
        f"nn.MaxPool{axes}d(2, stride=1, dilation=2)",
    ]  # fmt: skip
    forms += [f"nn.LPPool{axes}d(2, {extent})"] if axes < 3 else []
    return m.say(f"{m.held(dice.choice(forms))}({x})")


def softmax(m: Maker, x: str) -> str:
    """Softmax and what is like it."""
    x, axis = m.real(x), m.axis(x)
    form = m.dice.choice(
        ("F.softmax({x}, dim={a})", "torch.log_softmax({x}, dim={a})", "nn.Softmin(dim={a})({x})",
         "torch.softmax({x} / 2, {a})", "torch.logsumexp({x}, dim={a})",
         "torch.logsumexp({x}, {a}, keepdim=True)",
         "{x}.softmax({a})")
    )  # fmt: skip
    return m.say(form.format(x=x, a=axis))


def reduction(m: Maker, x: str) -> str:
    """A reduction over some axes."""
    x, rank = m.real(x), m.at(x).ndim
    dice = m.dice
    axis = m.axis(x)
    axes = sorted(dice.sample(range(rank), dice.randint(1, rank)))
    some = dice.choice((str(axis), f"({', '.join(map(str, axes))},)"))
    keep = dice.choice((", keepdim=True", ", keepdim=True", ""))
    forms = [
        "torch.mean({x}, dim={s}{k})", "{x}.sum(dim={s}{k}) / 4", "torch.amax({x}, dim={s}{k})",
        "torch.amin({x}, dim={s}{k})", "torch.max({x}, dim={a}{k})[0]", "torch.min({x}, dim={a}{k}).values",
        "{x} - {x}.mean(dim={s}, keepdim=True)", "torch.norm({x}, dim={a}{k})", "{x}.norm(p=1, dim={a}{k})",
        "torch.std({x}, dim={s}{k}, unbiased=False)", "torch.var({x}, dim={s}{k}, correction=0)",
        "torch.var({x}, dim={s}{k})", "torch.linalg.vector_norm({x}, ord=float('inf'), dim={s}{k})",
        "torch.prod(torch.tanh({x}), dim={a}{k})", "torch.argmax({x}, dim={a}{k})",
        "torch.argmin({x}, dim={a}{k})",
        "torch.median({x}, dim={a}{k})[0]", "({x} > 0).any(dim={a}{k})",
        "({x} > 0).float().mean(dim={s}{k})",
        "torch.all({x} < 2, dim={a}{k})", "({x} > 0.5).sum(dim={a}{k})", "torch.topk({x}, 1, dim={a})[0]",
        "torch.max({x}, dim={a}{k})[1]", "torch.count_nonzero({x} > 0, dim={a})", "{x} / {x}.norm()",
        "{x} * torch.rsqrt({x}.pow(2).mean({a}, keepdim=True) + 1e-5)",
        "torch.std_mean({x}, dim={a}{k})[1]",
        "torch.aminmax({x}, dim={a}{k})[0]", "{x} - torch.max({x}, dim={a}, keepdim=True)[0]",
    ]  # fmt: skip
    return m.say(dice.choice(forms).format(x=x, a=axis, s=some, k=keep))


def scan(m: Maker, x: str) -> str:
    """A running total or the like."""
    x, axis = m.real(x), m.axis(x)
    forms = (
        "torch.cumsum({x}, dim={a}) / 8", "torch.cumprod(torch.tanh({x}), dim={a})",
        "torch.cummax({x}, dim={a})[0]",
        "torch.flip(torch.cumsum(torch.flip({x}, ({a},)), {a}), ({a},)) / 8",
        "torch.logcumsumexp({x}, dim={a})",
        "torch.cumsum({x}, dim={a}) - {x}", "torch.cumsum(torch.softmax({x}, {a}), {a})",
        "torch.diff({x}, dim={a})",
    )  # fmt: skip
    return m.say(m.dice.choice(forms).format(x=x, a=axis))


def join(m: Maker, x: str) -> str:
    """The value with an earlier one of its shape: a residual connection, ``cat``, ``stack``."""
    x = m.real(x)
    alike = [
        n for n in m.values if n[0] in "hx" and n != x and getattr(m.values[n], "shape", 0) == m.at(x).shape
    ]
    other = m.real(m.dice.choice([*alike, *alike, x]))
    axis = m.axis(x)
    forms = (
        "{x} + {o}", "{x} * {o}", "{x} - 0.5 * {o}", "torch.maximum({x}, {o})",
        "torch.cat([{x}, {o}], dim={a})",
        "torch.stack([{x}, {o}], dim={a})", "torch.cat(({x}, {o}, {x}), {a})",
        "{x} + torch.sigmoid({o}) * {x}",
        "torch.stack([{x}, {o}]).mean(0)", "F.cosine_similarity({x}, {o}, dim={a})",
        "torch.hypot({x}, {o})",
        "torch.where({o} > 0, {x}, {o})", "F.pairwise_distance({x}, {o})",
        "torch.stack(({x}, {o}), -1).flatten(-2)",
    )  # fmt: skip
    return m.say(m.dice.choice(forms).format(x=x, o=other, a=axis))


def parts(m: Maker, x: str) -> str:
    """The value in pieces, and what is made of them."""
    x, axis = m.real(x), m.axis(x)
    size = m.shape(x)[axis]
    if size < 2:
        raise Unfit
    if m.dice.random() < 0.6:
        if size % 2:
            raise Unfit
        left, right = m.unpack(2, f"torch.chunk({x}, 2, dim={axis})")
        forms = (
            "{l} * torch.sigmoid({r})",
            "torch.cat([{r}, {l}], dim={a})",
            "{l} - {r}",
            "torch.cat((-{r}, {l}), {a})",
        )
        return m.say(m.dice.choice(forms).format(l=left, r=right, a=axis))
    first = m.dice.randint(1, size - 1)
    left, right = m.unpack(2, f"torch.split({x}, [{first}, {size - first}], dim={axis})")
    forms = ("torch.cat([{r}, {l}.relu()], dim={a})", "{l}", "{r} * 2")
    return m.say(m.dice.choice(forms).format(l=left, r=right, a=axis))


def move(m: Maker, x: str) -> str:
    """The same elements in another order or shape, or some of them."""
    dice, rank, shape = m.dice, m.at(x).ndim, m.shape(x)
    axis, other = m.axis(x), m.axis(x)
    order = ", ".join(map(str, dice.sample(range(rank), rank)))
    forms = [
        "{x}.permute({p})", "{x}.transpose({a}, {b})", "{x}.transpose({a}, {b}).contiguous()",
        "torch.flatten({x}, 1)",
        "{x}.view({x}.size(0), -1)", "{x}.reshape(-1, {x}.shape[-1])", "{x}.unsqueeze({a})",
        "{x}.squeeze()",
        "torch.roll({x}, 1, dims={a})", "torch.flip({x}, dims=[{a}])", "{x}.flatten()", "{x}.reshape(-1)",
        "{x}[..., 0]", "{x}[:, ::2]", "{x}[..., 1:]", "{x}.select({a}, -1)", "{x}.narrow({a}, 0, 1)",
        "{x}[:, -1]",
        "{x}.unsqueeze(1).expand(-1, 2, *{x}.shape[1:])", "{x}.repeat_interleave(2, dim={a})", "{x}[None]",
        "torch.movedim({x}, {a}, {b})", "{x}.unflatten(-1, (-1, 1))", "{x}.repeat(2, *[1] * {r})",
        "{x}[:, [0, -1]]",
        "torch.swapaxes({x}, {a}, {b}) * 2", "{x}.unfold({a}, 2, 1)",
        "{x}.view(*{x}.shape[:-1], -1, 1).squeeze(-1)",
        "torch.rot90({x}, 1, (0, 1))", "{x}.contiguous().view(-1, {l})", "{x}.mT",
    ]  # fmt: skip
    if rank >= 3:
        forms += [
            "F.pixel_unshuffle({x}, 2)",
            "F.pixel_shuffle({x}, 2)",
            "nn.ChannelShuffle(2)({x})",
            "F.unfold({x}, 2)",
        ]
        forms += ['F.interpolate({x}, scale_factor=2, mode="nearest")', "{x}.mean((-1, -2))"]
        forms += ["F.interpolate({x}, size=5)"]
    if rank == 4:
        forms += [
            'F.interpolate({x}, scale_factor=2, mode="bilinear", align_corners=False)',
            "F.pixel_shuffle({x}, 2)",
        ]
        forms += ['F.interpolate({x}, size=(5, 4), mode="bilinear", align_corners=True)']
        forms += [
            "{x}.permute(0, 2, 3, 1)",
            "{x}.permute(0, 2, 3, 1).contiguous()",
            "F.unfold({x}, 3, padding=1)",
        ]
        forms += ["{x}.to(memory_format=torch.channels_last)", "F.pixel_unshuffle({x}, 2)"]
    sides = [dice.randint(0, 2) for _ in range(2 * dice.randint(1, min(rank, 2)))]
    modes = ("", ", value=1.5", ', mode="reflect"', ', mode="replicate"', ', mode="circular"')
    forms += [f"F.pad({{x}}, {sides}{mode})" for mode in modes]
    text = dice.choice(forms).format(x=x, a=axis, b=other, p=order, r=rank - 1, l=shape[-1])
    return m.say(text)


def mask(m: Maker, x: str) -> str:
    """Some elements replaced, or looked up."""
    x, axis = m.real(x), m.axis(x)
    shape = m.shape(x)
    size = shape[axis]
    dice = m.dice
    if dice.random() < 0.35:
        count = dice.randint(1, 5)
        held = m.buffer(f"torch.randint(0, {size}, ({count},))")
        forms = ["torch.index_select({x}, {a}, {i})"]
        if len(shape) == 1:
            forms += ["{x}[{i}]", "torch.gather({x}, 0, {i})"]
        return m.say(dice.choice(forms).format(x=x, a=axis, i=held))
    if dice.random() < 0.25 and len(m.inputs) < 4:
        wide = (*shape[:axis], dice.randint(1, 4), *shape[axis:][1:]) if axis >= 0 else shape
        return m.say(f"torch.gather({x}, {axis}, {m.input(wide, size)})")
    forms = [
        "{x}.masked_fill({x} < 0, -1.0)", "torch.where({x} > 0.5, {x}, torch.zeros_like({x}))",
        "{x} * ({x} > 0)", "{x}.masked_fill({x} > 1, float('-inf')).amax(-1)", "torch.heaviside({x}, {x})",
    ]  # fmt: skip
    if len(shape) >= 2:
        forms += [
            "torch.tril({x})",
            "torch.triu({x}, diagonal=1)",
            "torch.tril({x}, -1) + {x}",
            "torch.tril({x}, 1)",
        ]
        length = shape[-1]
        if shape[-2] == length:
            causal = f"torch.ones({length}, {length}).triu(1).bool()"
            forms += ["{x}.masked_fill(" + m.buffer(causal) + ", float('-inf')).softmax(-1)"]
            forms += [
                "torch.diagonal({x}, dim1=-2, dim2=-1)",
                "{x} + torch.eye(" + str(length) + ", dtype={x}.dtype)",
            ]
        forms += ["{x} * torch.arange({x}.shape[-1], dtype={x}.dtype)"]
    return m.say(dice.choice(forms).format(x=x))


def loss(m: Maker, x: str) -> str:
    """A loss against another input, mostly to a scalar."""
    x = m.real(x)
    shape, dice = m.shape(x), m.dice
    if not shape or len(m.inputs) > 3:
        raise Unfit
    reduction = dice.choice(("", "", "", ', reduction="sum"', ', reduction="none"'))
    if len(shape) in (2, 3, 4) and shape[1] > 1 and dice.random() < 0.4:
        labels = m.input((shape[0], *shape[2:]), shape[1])
        forms = ["F.cross_entropy({x}, {t}{r})", "F.nll_loss(F.log_softmax({x}, dim=1), {t}{r})"]
        forms += [
            "F.cross_entropy({x}, {t}, label_smoothing=0.1{r})",
            "F.cross_entropy({x}, {t}, ignore_index=0{r})",
        ]
        forms += ["F.multi_margin_loss({x}, {t}{r})"] if len(shape) == 2 else []
        return m.say(dice.choice(forms).format(x=x, t=labels, r=reduction))
    target = m.input(shape, how="rand")
    forms = [
        "F.mse_loss({x}, {t}{r})", "F.l1_loss({x}, {t}{r})", "F.smooth_l1_loss({x}, {t}{r})",
        "F.huber_loss({x}, {t}{r})",
        "F.binary_cross_entropy_with_logits({x}, {t}{r})",
        "F.binary_cross_entropy(torch.sigmoid({x}), {t}{r})",
        'F.kl_div(F.log_softmax({x}, -1), {t}, reduction="batchmean")', "torch.mean(({x} - {t}) ** 2)",
        "F.poisson_nll_loss({x}.tanh(), {t}{r})", "torch.mean(torch.clamp(1 - {x} * {t}, min=0))",
        "F.soft_margin_loss({x}, {t}.sign(){r})", "F.gaussian_nll_loss({x}, {t}, torch.ones_like({x}){r})",
        "F.triplet_margin_loss({x}, {t}, -{x}{r})", "F.hinge_embedding_loss({x}, 2 * {t}.round() - 1{r})",
    ]  # fmt: skip
    return m.say(dice.choice(forms).format(x=x, t=target, r=reduction))


STEPS: dict[str, tuple[int, Callable[[Maker, str], str]]] = {
    "activation": (10, activation), "function": (8, function), "with parameter": (7, with_parameter),
    "in place": (2, in_place), "norm": (6, norm), "pool": (4, pool), "softmax": (3, softmax),
    "reduction": (6, reduction), "scan": (2, scan), "join": (5, join), "parts": (2, parts), "move": (7, move),
    "mask": (3, mask), "loss": (2, loss), "linear": (1, linear), "convolution": (1, convolution),
    "product": (1, product),
}  # fmt: skip
