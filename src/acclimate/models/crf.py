"""A linear-chain conditional random field over the tags of a sentence's words (Lafferty et al., 2001).

    score(y) = starts[y_1] + sum over w of emissions[w, y_w] + sum over w > 1 of transitions[y_(w-1), y_w] + ends[y_W]
    log p(y) = score(y) - log of the sum of exp(score) over all sequences of tags

All weights start at 0, where this is the softmax of each word on its own. Everything is float32, sums of exponentials
are taken in log space.

Adam moves every weight by about its rate in a step, however large the gradient. At an encoder's rates (3e-5) these few
weights, which start at 0 and are to become log odds of some units, would stay near 0. So they may have a rate of their
own, a multiple of that of all others: the parameters are the weights divided by it.

Shape suffixes: B sentences, W words of the longest (words first, then padding), C tags.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ConditionalRandomField(nn.Module):
    """Its parameters, transitions[from, to], (C, C), starts and ends, (C,), times `rate` are the formula's weights."""

    def __init__(self, tags: int, *, rate: float = 1.0) -> None:
        super().__init__()
        self.rate = rate
        self.transitions = nn.Parameter(torch.zeros(tags, tags))
        self.starts = nn.Parameter(torch.zeros(tags))
        self.ends = nn.Parameter(torch.zeros(tags))

    def weights(self) -> tuple[Tensor, Tensor, Tensor]:
        """Transitions, starts and ends as they score.

        To the parameters they hand on the gradient of the weights, not `rate` times as much: it would outweigh all
        others where gradients are clipped to one norm.
        """
        parameters = (self.transitions, self.starts, self.ends)
        scaled = (own if self.rate == 1 else own + (self.rate - 1) * own.detach() for own in parameters)
        transitions, starts, ends = scaled
        return transitions, starts, ends

    def log_likelihood(self, emissions_BWC: Tensor, tags_BW: Tensor, lengths_B: Tensor, edges_B2: Tensor) -> Tensor:
        """(B,) log p(tags); 0 where there are no words.

        tags_BW   any tag in the padding
        edges_B2  whether the sentence begins with the first word, and ends with the last; where it does not, as in a
                  part of a long sentence, nothing is known of the tag beyond, and no start or end scores
        """
        there_BW = torch.arange(tags_BW.shape[1], device=tags_BW.device) < lengths_B[:, None]
        transitions, starts, ends = self.weights()
        starts_BC, ends_BC = edges_B2[:, :1] * starts, edges_B2[:, 1:] * ends
        last_B1 = tags_BW.gather(1, (lengths_B - 1).clamp(min=0)[:, None])
        steps_BW = emissions_BWC.gather(2, tags_BW[..., None]).squeeze(-1)
        steps_BW = torch.cat([steps_BW[:, :1], steps_BW[:, 1:] + transitions[tags_BW[:, :-1], tags_BW[:, 1:]]], 1)
        ends_B2 = torch.cat([starts_BC.gather(1, tags_BW[:, :1]), ends_BC.gather(1, last_B1)], 1)
        score_B = (steps_BW * there_BW).sum(1) + ends_B2.sum(1)
        # of all sequences up to a word that end in a tag: the log of the sum of their exp(score)
        forward_BC = starts_BC + emissions_BWC[:, 0]
        for word in range(1, tags_BW.shape[1]):
            onward_BC = torch.logsumexp(forward_BC[:, :, None] + transitions, dim=1) + emissions_BWC[:, word]
            forward_BC = torch.where(there_BW[:, word, None], onward_BC, forward_BC)
        every_B = torch.logsumexp(forward_BC + ends_BC, dim=1)
        return torch.where(lengths_B > 0, score_B - every_B, 0.0)

    @torch.no_grad()
    def most_probable(self, emissions_BWC: Tensor, lengths_B: Tensor, allowed: Tensor | None = None) -> Tensor:
        """(B, W) the tags of the most probable sequence of whole sentences (Viterbi); the last one's in the padding.

        allowed: (C + 1, C + 1) bool, [from, to], which tags may follow which; C stands for what is before the first
        word and after the last. Some sequence must be allowed.
        """
        transitions, starts, ends = self.weights()
        if allowed is not None:
            transitions = transitions.masked_fill(~allowed[:-1, :-1], -torch.inf)
            starts = starts.masked_fill(~allowed[-1, :-1], -torch.inf)
            ends = ends.masked_fill(~allowed[:-1, -1], -torch.inf)
        best_BC = starts + emissions_BWC[:, 0]
        itself_C = torch.arange(len(starts), device=best_BC.device)
        came: list[Tensor] = []  # from which tag the best sequence came to each
        for word in range(1, emissions_BWC.shape[1]):
            onward_BC, from_BC = (best_BC[:, :, None] + transitions).max(dim=1)
            there_B1 = (word < lengths_B)[:, None]
            best_BC = torch.where(there_B1, onward_BC + emissions_BWC[:, word], best_BC)
            came.append(torch.where(there_B1, from_BC, itself_C))
        path = [(best_BC + ends).argmax(dim=1, keepdim=True)]
        for from_BC in reversed(came):
            path.append(from_BC.gather(1, path[-1]))
        return torch.cat(path[::-1], dim=1)
