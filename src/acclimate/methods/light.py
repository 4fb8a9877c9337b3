"""Adapters and prompts: go on with masked language modelling on raw text of the domain, with the model itself frozen.

Two of DGA's baselines (Ke et al., 2022, section 4.1, baselines 3 and 4). "MLM (Adapter)" puts two fully connected
layers with a skip connection, bottleneck 64, behind each attention and each feed-forward layer (Houlsby et al., 2019,
"Parameter-Efficient Transfer Learning for NLP"). "MLM (Prompt)" puts 100 tokens at the end of every sequence (Lester et
al., 2021, "The Power of Scale for Parameter-Efficient Prompt Tuning"):

    adapter   x + W_2 gelu(W_1 x + b_1) + b_2            W_1: (bottleneck, D), W_2: (D, bottleneck)
    prompt    [CLS] text [SEP] p_1 ... p_100             p: (D,) each

The loss is L_MLM of `training.objective.MaskedLanguageLoss`, minimised over these new weights alone; fine-tuning then
trains all weights of the checkpoint. The weights themselves are in models/light.py.

Shape suffixes: L lines, W width of a line in tokens, D hidden, P tokens of the prompt.

Readings
  An adapter is as in Houlsby et al. and their code: GELU, weights from a normal of deviation .001 cut off at two of
  them, biases 0, so that it begins as the identity; it stands after the dropout, before the residual is added. In
  DistilBERT, whose attention has no dropout behind it, it stands after the projection; in ModernBERT, whose layers
  normalise first, at the end of the branches. Layer normalisation, which Houlsby et al. train too, stays frozen: "only
  the adapters are trained".
  Prompt tokens begin uniformly between -.5 and .5 and learn at .3 (both from Lester et al.; here with AdamW and the
  plan's schedule, there with Adafactor at a constant rate). Adapters learn at the plan's rate.
  `max_tokens` does not count the prompt: every method gets the same text.
  A checkpoint that already has adapters, or a prompt, goes on with them.
  A language modelling head that the checkpoint lacks is new, as for every method, and is trained too: a frozen random
  head would make the new weights adapt to noise.
Deviations
  The released code feeds the embedding layer's output to it again as if it were word embeddings, so that positions and
  layer normalisation are applied twice. Here a prompt is pieces of the vocabulary, which the tokenizer puts behind each
  row: they have positions and normalisation as any other token has. Nothing is predicted at them, and no head predicts
  them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from acclimate.core.types import Batch, Checkpoint, Progress, Watch, unwatched
from acclimate.methods.mlm import RunStart, adapt_with
from acclimate.methods.recipes.light import LightRecipe
from acclimate.models.encoder import weights_by_part, word_embeddings
from acclimate.models.heads import has_sparse_head
from acclimate.models.light import adapters_of, add_adapters, add_prompt, prompt_ids
from acclimate.models.loading import drawn_weights
from acclimate.training.objective import MaskedLanguageLoss

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class LightLoss(MaskedLanguageLoss):
    """L_MLM, minimised over the adapters or the prompt's embeddings, and over a head that the checkpoint lacked.

    All other weights are frozen.

    prompt       the ids of the prompt, consecutive; (): adapters are trained
    prompt_rate  the prompt's rate in multiples of the plan's
    """

    def __init__(self, model: PreTrainedModel, prompt: Sequence[int] = (), *, prompt_rate: float = 1.0) -> None:
        super().__init__(model)
        self.prompt_rate = prompt_rate
        model.requires_grad_(False)
        drawn = drawn_weights(model)
        for name, weight in model.named_parameters(remove_duplicate=False):
            if name in drawn and weight is not word_embeddings(model):
                weight.requires_grad_(True)
        if not prompt:
            for adapter in adapters_of(model):
                adapter.requires_grad_(True)
            self.prompt_PD = None
            return
        # a parameter beside the embedding matrix, copied there after each step, so that neither the matrix's other rows
        # nor the output layer that shares them can move
        self.rows = slice(prompt[0], prompt[0] + len(prompt))
        self.prompt_PD = nn.Parameter(word_embeddings(model)[self.rows].clone())
        model.get_input_embeddings().register_forward_hook(self._with_prompt)

    def _with_prompt(self, _: nn.Module, inputs: Any, embedded_LWD: Tensor) -> Tensor:
        """Return the word embeddings with those of the prompt's ids replaced by `prompt_PD`."""
        assert self.prompt_PD is not None
        numbers_LW = inputs[0] - self.rows.start  # a prompt token's number within the prompt
        within_LW = (numbers_LW >= 0) & (numbers_LW < len(self.prompt_PD))
        learnt_LWD = self.prompt_PD[numbers_LW.clamp(0, len(self.prompt_PD) - 1)]
        return torch.where(within_LW[..., None], learnt_LWD.to(embedded_LWD.dtype), embedded_LWD)

    def rate_multiple(self, name: str) -> float:
        return self.prompt_rate if name == "prompt_PD" else 1.0

    @torch.no_grad()
    def on_update(self) -> None:
        if self.prompt_PD is not None:
            word_embeddings(self.model)[self.rows] = self.prompt_PD

    def flops(self, batch: Batch) -> float:
        """As masked language modelling without the gradients of frozen weights: 4 operations a weight, not 6. What lies
        before the first adapter needs no gradient of its input either, but is counted as if it did.
        """
        body, head = weights_by_part(self.model, among=lambda weight: not weight.requires_grad)
        predicted = self.counts(batch)["mlm"] if has_sparse_head(self.model) else len(batch.ids)
        return super().flops(batch) - 2.0 * (body * len(batch.ids) + head * predicted)


def adapt(recipe: LightRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Train and write `out/checkpoint`; a run that was stopped goes on, one that ended is returned as it is.

    Raises ValueError where the corpus has no text, or the model cannot be loaded, is of a family whose places for
    adapters are not known, has adapters or a prompt of another size, or has no room for a prompt behind `max_tokens`.
    """

    def ready(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
        if recipe.kind == "prompt":
            return add_prompt(model, tokenizer, recipe.prompt_tokens, seed=recipe.plan.seed)
        add_adapters(model, recipe.bottleneck, seed=recipe.plan.seed)
        return tokenizer

    def objective(start: RunStart) -> LightLoss:
        if recipe.kind == "adapter":
            return LightLoss(start.model)
        return LightLoss(start.model, prompt_ids(start.tokenizer), prompt_rate=recipe.prompt_rate / recipe.plan.rate)

    checkpoint = adapt_with(recipe, out, objective, ready=ready, watch=watch)
    if recipe.kind == "adapter":
        note = "transformers loads this checkpoint without its adapters"
        watch(Progress("adapt", 0, 0, "steps", {"note": note}))
    return checkpoint
