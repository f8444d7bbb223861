"""Negative log likelihood of a linear-chain CRF for sequence tagging (forward algorithm, masked)."""

import torch


class LinearChainCRF(torch.nn.Module):
    def __init__(self, num_tags=17, steps=32):
        super().__init__()
        self.steps = steps
        self.start_transitions = torch.nn.Parameter(torch.linspace(-0.1, 0.1, num_tags))
        self.end_transitions = torch.nn.Parameter(torch.linspace(0.1, -0.1, num_tags))
        self.transitions = torch.nn.Parameter(
            torch.sin(torch.arange(num_tags * num_tags).float()).view(num_tags, num_tags) * 0.1
        )

    def gold_score(self, emissions, tags, mask):
        m = mask.to(emissions.dtype)
        unary = emissions.gather(2, tags.unsqueeze(-1)).squeeze(-1)
        pair = self.transitions[tags[:-1], tags[1:]]
        score = self.start_transitions[tags[0]] + unary[0] + ((unary[1:] + pair) * m[1:]).sum(0)
        ends = mask.long().sum(dim=0) - 1
        last = tags.gather(0, ends.unsqueeze(0)).squeeze(0)
        return score + self.end_transitions[last]

    def forward(self, emissions, tags, lengths):
        mask = torch.arange(self.steps, device=emissions.device)[:, None] < lengths[None, :]
        score = self.start_transitions + emissions[0]
        for i in range(1, self.steps):
            broadcast_score = score.unsqueeze(2)
            broadcast_emissions = emissions[i].unsqueeze(1)
            next_score = broadcast_score + self.transitions + broadcast_emissions
            next_score = torch.logsumexp(next_score, dim=1)
            score = torch.where(mask[i].unsqueeze(1), next_score, score)
        log_z = torch.logsumexp(score + self.end_transitions, dim=1)
        llh = self.gold_score(emissions, tags, mask) - log_z
        return -llh.sum() / mask.sum(), llh


inputs = [torch.randn(32, 8192, 17), torch.randint(0, 17, (32, 8192)), torch.randint(1, 33, (8192,))]
