"""How a drawn module begins: layers with weights, products, lookups, recurrences, or nothing of the kind."""

from __future__ import annotations

from collections.abc import Callable

from module_text import CHANNELS, SIZES, Maker, Unfit

KERNELS = (1, 2, 3, 3, 4, 5)


def plain(m: Maker, x: str) -> str:
    """Just an input, of any rank."""
    rank = m.dice.choice((1, 2, 2, 3, 3, 4, 4, 5))
    if rank >= 3:
        return m.input(m.sized(rank, m.dice.choice(CHANNELS), 3))
    pool = (*SIZES, 33, 64, 129, 300) if rank == 2 else (1, 5, 64, 127, 1000)
    return m.input(tuple(m.dice.choice(pool) for _ in range(rank)))


def _values(m: Maker, x: str, ranks: tuple[int, ...]) -> str:
    """What is there, or a new input of one of these ranks."""
    if x:
        m.rank(x, *ranks)
        return m.real(x)
    rank = m.dice.choice(ranks)
    if rank < 3:
        return m.input(tuple(m.dice.choice((*SIZES, 33, 64)) for _ in range(rank)))
    return m.input(m.sized(rank, m.dice.choice(CHANNELS), 4))


def _given(m: Maker, name: str, value: int) -> str:
    """A number, sometimes by way of the constructor's arguments, as KernelBench has them."""
    if m.dice.random() < 0.6:
        return str(value)
    argument = f"{name}{len(m.parameters)}"
    m.parameters.append((argument, value))
    m.values[argument] = value
    return argument


def linear(m: Maker, x: str) -> str:
    """``nn.Linear`` over the last axis."""
    x = _values(m, x, (1, 2, 2, 2, 3, 4))
    inside, outside = m.shape(x)[-1], m.dice.choice((*SIZES, 32, 33, 48))
    bias = m.dice.choice(("", "", ", bias=False"))
    sizes = f"{_given(m, 'in_features', inside)}, {_given(m, 'out_features', outside)}"
    layer = m.held(f"nn.Linear({sizes}{bias})")
    return m.say(f"{layer}({x})")


def convolution(m: Maker, x: str) -> str:
    """A convolution, or a transposed one, over one to three axes."""
    x = _values(m, x, (3, 4, 4, 5))
    axes, channels = m.rank(x, 3, 4, 5) - 2, m.shape(x)[1]
    turned = m.dice.random() < 0.35
    groups = m.dice.choice((1, 1, 1, *(n for n in range(2, channels + 1) if channels % n == 0)))
    made = groups * m.dice.choice((1, 1, 2, 3)) if groups > 1 else m.dice.choice(CHANNELS)
    several = m.dice.random() < 0.2
    extents = tuple(m.dice.choice(KERNELS) for _ in range(axes)) if several else (m.dice.choice(KERNELS),)
    step, hole = m.dice.choice((1, 1, 1, 2, 3)), m.dice.choice((1, 1, 1, 2))
    extent = str(extents) if several else str(extents[0])
    options = [f"{_given(m, 'in_channels', channels)}, {_given(m, 'out_channels', made)}, {extent}"]
    options += [f"stride={step}"] if step > 1 else []
    pad = m.dice.choice((0, 0, 1, 2))
    if not turned and step == 1 and m.dice.random() < 0.2:
        options.append('padding="same"')
    elif pad:
        options.append(f"padding={pad}")
    options += [f"dilation={hole}"] if hole > 1 else []
    options += [f"groups={groups}"] if groups > 1 else []
    options += ["bias=False"] if m.dice.random() < 0.3 else []
    if turned and step > 1 and m.dice.random() < 0.5:
        options.append(f"output_padding={m.dice.randint(1, step - 1)}")
    if not turned and m.dice.random() < 0.08:
        options.append(f'padding_mode="{m.dice.choice(("reflect", "circular", "replicate"))}"')
    name = f"nn.Conv{'Transpose' if turned else ''}{axes}d"
    layer = m.held(f"{name}({', '.join(options)})")
    return m.say(f"{layer}({x})")


def product(m: Maker, x: str) -> str:
    """``matmul``, ``bmm`` or ``einsum`` with a parameter, another input or itself."""
    x = _values(m, x, (2, 2, 3, 4))
    shape = m.shape(x)
    size = m.dice.choice((*SIZES, 32))
    fresh = m.dice.random() < 0.5 and len(m.inputs) < 4

    def other(*dims: int) -> str:
        return m.input(dims) if fresh else m.parameter(dims)

    ways: list[Callable[[], str]] = [
        lambda: f"torch.matmul({x}, {other(shape[-1], size)})",
        lambda: f"{x} @ {other(shape[-1], size)}",
        lambda: f"torch.matmul({x}, {x}.transpose(-1, -2))",
        lambda: f"{x}.matmul({other(shape[-1])})",
    ]
    if len(shape) == 2:
        ways += [
            lambda: f'torch.einsum("ij,jk->ik", {x}, {other(shape[1], size)})',
            lambda: f'torch.einsum("ij,kj->ki", {x}, {other(size, shape[1])})',
            lambda: f"torch.mm({x}.t(), {other(shape[0], size)})",
            lambda: f"torch.addmm({other(size)}, {x}, {other(shape[1], size)}, beta=0.5, alpha=2)",
        ]
    if len(shape) == 3:
        ways += [
            lambda: f"torch.bmm({x}, {other(shape[0], shape[2], size)})",
            lambda: f'torch.einsum("bij,bkj->bik", {x}, {other(shape[0], size, shape[2])})',
            lambda: f'torch.einsum("bij,j->bi", {x}, {other(shape[2])})',
            lambda: f"torch.baddbmm({other(shape[1], size)}, {x}, {other(shape[0], shape[2], size)})",
        ]
    if len(shape) == 4:
        ways += [
            lambda: f'torch.einsum("bchw,dc->bdhw", {x}, {other(size, shape[1])})',
            lambda: f'torch.einsum("bihw,bjhw->bij", {x}, {x})',
        ]
    return m.say(m.dice.choice(ways)())


def embedding(m: Maker, x: str) -> str:
    """``nn.Embedding`` of integers that are an input."""
    if x:
        raise Unfit
    rows, width = m.dice.choice((5, 10, 33)), m.dice.choice(SIZES)
    shape = m.dice.choice(((4,), (2, 5), (3, 7), (1, 16), (2, 3, 4)))
    pad = m.dice.choice(("", "", ", padding_idx=0"))
    return m.say(f"{m.held(f'nn.Embedding({rows}, {width}{pad})')}({m.input(shape, rows)})")


def attention(m: Maker, x: str) -> str:
    """``nn.MultiheadAttention`` or ``scaled_dot_product_attention``."""
    dice = m.dice
    heads, part, length = dice.choice((1, 2, 3)), dice.choice((2, 4, 8)), dice.choice((1, 3, 5, 8))
    if dice.random() < 0.5:
        if x:
            shape = m.shape(x)
            m.rank(x, 3)
            x, heads = m.real(x), dice.choice([n for n in (1, 2, 3, 4) if shape[2] % n == 0])
            width = shape[2]
        else:
            width = heads * part
            x = m.input((dice.choice((1, 2)), length, width))
        held = m.held(f"nn.MultiheadAttention({width}, {heads}, batch_first=True)")
        weights = dice.choice((", need_weights=False", ""))
        return m.say(f"{held}({x}, {x}, {x}{weights})[{0 if weights or dice.random() < 0.6 else 1}]")
    if x:
        raise Unfit
    shape = (dice.choice((1, 2)), heads, length, part)
    keys = shape if dice.random() < 0.6 else (*shape[:2], dice.choice((2, 6, 9)), part)
    q, k = m.input(shape), m.input(keys)
    v = m.input(keys) if dice.random() < 0.7 else k
    options = dice.choice(("", ", is_causal=True", ", scale=0.3"))
    if dice.random() < 0.25:
        options = f", attn_mask={m.input((length, keys[2]))}"
    return m.say(f"F.scaled_dot_product_attention({q}, {k}, {v}{options})")


def recurrence(m: Maker, x: str) -> str:
    """A small LSTM, GRU or RNN."""
    dice = m.dice
    if x:
        m.rank(x, 3)
        x = m.real(x)
    else:
        x = m.input((dice.choice((1, 2)), dice.choice((1, 3, 5)), dice.choice((2, 3, 8))))
    if m.shape(x)[1] > 8:
        raise Unfit
    options = dice.choice(("", "", ", num_layers=2", ", bidirectional=True", ", bias=False"))
    kind = dice.choice(("LSTM", "GRU", "GRU", "RNN"))
    held = m.held(f"nn.{kind}({m.shape(x)[2]}, {dice.choice((2, 3, 5, 8))}, batch_first=True{options})")
    if dice.random() < 0.7:
        return m.say(f"{held}({x})[0]")
    return m.say(f"{held}({x})[1]" + ("[0]" if kind == "LSTM" else ""))


HEADS: dict[str, tuple[int, Callable[[Maker, str], str]]] = {
    "plain": (5, plain),
    "linear": (4, linear),
    "convolution": (7, convolution),
    "product": (3, product),
    "embedding": (1, embedding),
    "attention": (2, attention),
    "recurrence": (1, recurrence),
}
