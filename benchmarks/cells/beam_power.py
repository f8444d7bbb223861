"""Power of each beam: complex weights meet the microphones' spectra, as in MVDR beamforming."""

import torch


def beam_power(spectra, weights):
    beams = (weights.conj()[None, :, :, :] * spectra[:, :, None, :]).sum(-1)
    return beams.abs() ** 2


inputs = [torch.randn(500, 257, 8, dtype=torch.cfloat), torch.randn(257, 16, 8, dtype=torch.cfloat)]
