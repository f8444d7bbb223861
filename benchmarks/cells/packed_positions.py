"""Batch preparation for packed language-model training: segments, positions, labels, lengths."""

import torch


class PackedPositions(torch.nn.Module):
    def __init__(self, eos=2, pad=0, prompt_sep=3, max_docs=64, ignore_index=-100):
        super().__init__()
        self.eos, self.pad, self.sep, self.max_docs, self.ignore_index = (
            eos,
            pad,
            prompt_sep,
            max_docs,
            ignore_index,
        )

    def forward(self, input_ids):
        b, s = input_ids.shape
        is_pad = input_ids == self.pad
        starts = torch.zeros_like(is_pad)
        starts[:, 0] = True
        starts[:, 1:] = input_ids[:, :-1] == self.eos
        segment = torch.cumsum(starts.int(), dim=1) - 1
        index = torch.arange(s, device=input_ids.device).expand(b, s)
        doc_start = torch.cummax(torch.where(starts, index, torch.zeros_like(index)), dim=1).values
        positions = index - doc_start
        seps = torch.cumsum((input_ids == self.sep).int(), dim=1)
        in_answer = seps > seps.gather(1, doc_start)
        labels = torch.full_like(input_ids, self.ignore_index)
        labels[:, :-1] = input_ids[:, 1:]
        keep = in_answer & ~is_pad & (input_ids != self.eos)
        labels = torch.where(keep, labels, self.ignore_index)
        lengths = torch.zeros(b, self.max_docs, dtype=torch.int32, device=input_ids.device)
        lengths = lengths.scatter_add(1, segment.clamp(max=self.max_docs - 1).long(), (~is_pad).int())
        segment = segment.masked_fill(is_pad, -1)
        return positions.masked_fill(is_pad, 0), segment, labels, lengths, keep.sum(dim=1)


inputs = [torch.randint(0, 600, (192, 8192))]
