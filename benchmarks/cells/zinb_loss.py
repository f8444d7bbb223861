"""Zero-inflated negative binomial reconstruction loss of a single-cell variational autoencoder."""

import torch
import torch.nn.functional as F


class ZINBLoss(torch.nn.Module):
    def __init__(self, genes=3000, batches=6, eps=1e-8):
        super().__init__()
        self.eps = eps
        self.px_r = torch.nn.Parameter(torch.linspace(-1, 1, genes * batches).view(batches, genes))

    def forward(self, counts, scale_logits, dropout_logits, batch_index):
        x = counts.float()
        library = torch.log(x.sum(1, keepdim=True).clamp(min=1.0))
        mu = torch.exp(library) * F.softmax(scale_logits, dim=-1)
        theta = torch.exp(self.px_r)[batch_index]
        pi = dropout_logits
        softplus_pi = F.softplus(-pi)
        log_theta_eps = torch.log(theta + self.eps)
        log_theta_mu_eps = torch.log(theta + mu + self.eps)
        pi_theta_log = -pi + theta * (log_theta_eps - log_theta_mu_eps)
        case_zero = F.softplus(pi_theta_log) - softplus_pi
        mul_case_zero = torch.mul((x < self.eps).type(torch.float32), case_zero)
        case_non_zero = (
            -softplus_pi
            + pi_theta_log
            + x * (torch.log(mu + self.eps) - log_theta_mu_eps)
            + torch.lgamma(x + theta)
            - torch.lgamma(theta)
            - torch.lgamma(x + 1)
        )
        mul_case_non_zero = torch.mul((x > self.eps).type(torch.float32), case_non_zero)
        res = mul_case_zero + mul_case_non_zero
        return -res.sum(-1), (x < self.eps).float().mean(0) - torch.sigmoid(pi).mean(0)


inputs = [
    (torch.randint(0, 40, (3000, 3000)) * (torch.rand(3000, 3000) > 0.8)).to(torch.int16),
    torch.randn(3000, 3000),
    torch.randn(3000, 3000),
    torch.randint(0, 6, (3000,)),
]
