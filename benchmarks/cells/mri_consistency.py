"""Data consistency of an MRI reconstruction: measured k-space replaces what the network made up."""

import torch


def consistency(image, sensitivities, measured, mask):
    k = torch.fft.fft2(image[:, None] * sensitivities, norm="ortho")
    k = torch.where(mask, measured, k)
    coils = torch.fft.ifft2(k, norm="ortho")
    return (coils * sensitivities.conj()).sum(1)


inputs = [
    torch.randn(4, 320, 320, dtype=torch.cfloat),
    torch.randn(4, 8, 320, 320, dtype=torch.cfloat),
    torch.randn(4, 8, 320, 320, dtype=torch.cfloat),
    torch.rand(320) > 0.5,
]
