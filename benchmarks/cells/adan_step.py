"""One Adan optimiser step (Nesterov momentum estimation) over a flat parameter shard with bf16 gradients."""

import torch


class AdanStep(torch.nn.Module):
    def __init__(self, lr=1e-3, betas=(0.98, 0.92, 0.99), eps=1e-8, weight_decay=0.02, step=10, max_norm=1.0):
        super().__init__()
        self.lr, self.betas, self.eps, self.weight_decay, self.max_norm = (
            lr,
            betas,
            eps,
            weight_decay,
            max_norm,
        )
        self.bias1, self.bias2, self.bias3 = (1.0 - b**step for b in betas)

    def forward(self, param, grad, pre_grad, exp_avg, exp_avg_diff, exp_avg_sq):
        beta1, beta2, beta3 = self.betas
        grad = grad.float()
        global_norm = torch.sqrt(grad.pow(2).sum()) + self.eps
        grad = grad * torch.clamp(self.max_norm / global_norm, max=1.0)
        diff = grad - pre_grad
        update = grad + beta2 * diff
        exp_avg = exp_avg.mul(beta1).add_(grad, alpha=1 - beta1)
        exp_avg_diff = exp_avg_diff.mul(beta2).add_(diff, alpha=1 - beta2)
        exp_avg_sq = exp_avg_sq.mul(beta3).addcmul_(update, update, value=1 - beta3)
        denom = (exp_avg_sq.sqrt() / self.bias3**0.5).add_(self.eps)
        new = param.addcdiv(exp_avg, denom, value=-self.lr / self.bias1)
        new.addcdiv_(exp_avg_diff, denom, value=-self.lr * beta2 / self.bias2)
        new.div_(1 + self.lr * self.weight_decay)
        return new, new.to(torch.bfloat16), grad, exp_avg, exp_avg_diff, exp_avg_sq


inputs = [
    torch.randn(4000000),
    torch.randn(4000000).to(torch.bfloat16),
    torch.randn(4000000) * 1e-3,
    torch.randn(4000000) * 1e-3,
    torch.randn(4000000) * 1e-3,
    torch.rand(4000000) * 1e-6,
]
