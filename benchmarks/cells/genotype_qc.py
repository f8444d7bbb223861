"""Genotype quality control from int8 dosages: call rate, frequency, Hardy-Weinberg test, matrix."""

import torch


class GenotypeQC(torch.nn.Module):
    def __init__(self, min_maf=0.01, min_call=0.95, max_chi2=28.37):
        super().__init__()
        self.min_maf, self.min_call, self.max_chi2 = min_maf, min_call, max_chi2

    def forward(self, dosage):
        n = dosage.shape[1]
        called = dosage >= 0
        hom_ref = (dosage == 0).sum(dim=1).float()
        het = (dosage == 1).sum(dim=1).float()
        hom_alt = (dosage == 2).sum(dim=1).float()
        total = (hom_ref + het + hom_alt).clamp(min=1)
        p = (2 * hom_alt + het) / (2 * total)
        q = 1 - p
        expected = torch.stack([q * q, 2 * p * q, p * p], dim=-1) * total[:, None]
        observed = torch.stack([hom_ref, het, hom_alt], dim=-1)
        chi2 = ((observed - expected) ** 2 / expected.clamp(min=1e-6)).sum(-1)
        call_rate = called.sum(1) / n
        maf = torch.minimum(p, q)
        passed = (maf >= self.min_maf) & (call_rate >= self.min_call) & (chi2 <= self.max_chi2)
        g = torch.where(called, dosage.to(torch.float32), (2 * p)[:, None])
        z = (g - 2 * p[:, None]) * torch.rsqrt((2 * p * q).clamp(min=1e-8))[:, None]
        z = z * passed[:, None]
        sample_missing = 1.0 - called.float().mean(dim=0)
        heterozygosity = ((dosage == 1) & passed[:, None]).sum(0) / (called & passed[:, None]).sum(0).clamp(
            min=1
        )
        return z.to(torch.float16), maf, chi2, passed, sample_missing, heterozygosity


inputs = [
    torch.where(
        torch.rand(16384, 2000) < 0.02,
        -1,
        torch.randint(0, 2, (16384, 2000)) + torch.randint(0, 2, (16384, 2000)),
    ).to(torch.int8)
]
