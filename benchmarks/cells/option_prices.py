"""Prices of options by Black and Scholes."""

import torch


def option_prices(spot, strike, years, volatility):
    spread = volatility * years.sqrt()
    high = (torch.log(spot / strike) + 0.02 * years) / spread + 0.5 * spread
    low = high - spread
    above, below = (0.5 * (1 + torch.erf(x * 0.7071067811865476)) for x in (high, low))
    return spot * above - strike * torch.exp(-0.02 * years) * below


inputs = [
    torch.rand(4194304) * 50 + 75,
    torch.rand(4194304) * 50 + 75,
    torch.rand(4194304) + 0.1,
    torch.rand(4194304) * 0.4 + 0.1,
]
