"""TSDAE: restore each text from the vector of what is left of it once most of its tokens are deleted.

Wang, Reimers and Gurevych (2021), "TSDAE: Using Transformer-based Sequential Denoising Auto-Encoder for Unsupervised
Sentence Embedding Learning", sections 3 and 4. Tokens of a text x are deleted, the encoder turns the rest x~ into one
vector s, and a decoder restores the tokens x_1 ... x_l one by one from s. The loss is the mean over tokens of

    -log P(x_t | x~),   P = softmax over the vocabulary of the language modelling head on h_t          (section 3, J)
    H^(k) = Attention(H^(k-1), [s^T], [s^T])                    cross-attention of the decoder's layer k (section 3)

where h_t, the decoder's last state before token t, also depends on the tokens before t. The softmax over a single key
is 1, so the cross-attention adds W_o (W_v s) to every position of a layer, and its queries and keys do not matter.

Shape suffixes: R rows of a piece, T tokens of its longest row, K tokens of the longest row after deletion, D hidden,
M predicted positions, V vocabulary; B rows and N tokens of a batch.

Readings
  s is the state that the encoder's search vector reads (ranking/embedder.py): what the pooling of a modules.json says,
  else the mean. The paper's best is the first token. Linear layers behind the pooling are not trained.
  Encoder and decoder have the same weights, the paper's best setting: embeddings, layers and language modelling head.
  Cross-attention is new and drawn as the family draws its weights; its queries and keys are not trained.
  All tokens but the first are restored, the one that ends the row too. Texts longer than `max_tokens` become several.
  The checkpoint has the encoder alone: the head has learnt to restore texts, not masked tokens.
Deviations
  Each token is deleted on its own; the released code deletes words, by NLTK's tokenizer. Where all would go, the token
  with the largest draw stays, in the released code any.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import transformers
from torch import Tensor

from acclimate.core import ranks
from acclimate.core.randomness import seeded
from acclimate.core.types import NOT_PREDICTED, Batch, Checkpoint, Watch, unwatched
from acclimate.methods.domain import hidden_states, row_means
from acclimate.methods.mlm import load_adapted
from acclimate.methods.probe import ReadOut
from acclimate.methods.ranking.embedder import read_out_of
from acclimate.methods.recipes.mlm import with_steps
from acclimate.methods.recipes.tsdae import TsdaeRecipe, check
from acclimate.models.encoder import encoder_of, family, require_room, training_flops
from acclimate.models.heads import SPARSE_HEADS
from acclimate.models.loading import configuration, identity, load_tokenizer, quiet
from acclimate.text.corpus import Corpus
from acclimate.text.segments import segments
from acclimate.text.streams import masked_stream
from acclimate.training.checkpoint import finish
from acclimate.training.objective import Objective, masked_cross_entropy
from acclimate.training.pieces import Piece
from acclimate.training.run import finished, run, write_checkpoint

if TYPE_CHECKING:
    from transformers import PreTrainedModel

KEPT = "kept"  # of `Batch.tokens`: 1 at a token that the encoder sees, 0 at a deleted one
_DELETIONS = 6  # purpose of a generator, beside those of text/streams.py


class DenoisingLoss(Objective):
    """Term `denoising`: the cross-entropy of the original tokens, averaged over the step's tokens but each row's first.

    Batches have tokens["labels"] and tokens[KEPT], as `with_deletions` adds them.

    read_out  "mean" over the tokens that are left, or the "first" token's state
    seed      of the cross-attention's weights
    """

    def __init__(self, model: PreTrainedModel, read_out: ReadOut, *, seed: int = 0) -> None:
        super().__init__()
        self.model, self.read_out = model, read_out
        self.decoder = tied_decoder(model, seed=seed)
        self.weights = {"denoising": 1.0}

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"denoising": int(np.count_nonzero(batch.tokens["labels"] != NOT_PREDICTED))}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        hidden_RTD = self.decoder(
            input_ids=piece["input_ids"],  # padding is behind each row, where no token of the row sees it
            encoder_hidden_states=self.vectors(piece)[:, None],  # the single key and value of each row
            use_cache=False,
        ).last_hidden_state
        before_M = (piece["positions"] - 1).clamp(min=0)  # h_t is the state of the token before t
        logits_MV = SPARSE_HEADS[family(self.model)](self.model, hidden_RTD.flatten(0, 1).index_select(0, before_M))
        return {"denoising": masked_cross_entropy(logits_MV, piece)}

    def vectors(self, piece: Piece) -> Tensor:
        """(R, D) float32, s of each row: the vector of the tokens that are left of it."""
        kept_RT = piece[KEPT] > 0
        order_RK = (~kept_RT).to(torch.int8).argsort(dim=1, stable=True)[:, : int(kept_RT.sum(1).max())]
        kept_RK = kept_RT.gather(1, order_RK)
        ids_RK = piece["input_ids"].gather(1, order_RK).masked_fill(~kept_RK, self.model.config.pad_token_id or 0)
        noisy = {"input_ids": ids_RK, "attention_mask": kept_RK.long()}  # x~
        hidden_RKD = hidden_states(self.model, noisy)
        return row_means(hidden_RKD, noisy) if self.read_out == "mean" else hidden_RKD[:, 0].float()

    def flops(self, batch: Batch) -> float:
        kept_B = np.add.reduceat(batch.tokens[KEPT], batch.offsets[:-1])
        encoder = training_flops(self.model, kept_B, predicted=0)
        decoder = training_flops(self.model, batch.lengths, predicted=self.counts(batch)["denoising"])
        config = self.model.config
        crossed = 2 * config.num_hidden_layers * config.hidden_size**2  # W_q and W_o; W_k and W_v meet a vector a row
        return float(encoder + decoder + 6.0 * crossed * len(batch.ids))


def tied_decoder(model: PreTrainedModel, *, seed: int) -> PreTrainedModel:
    """Return a decoder whose weights are those of the model's encoder, the same Parameters, and a new cross-attention.

    seed: of the new weights
    """
    config = copy.deepcopy(model.config)
    config.is_decoder = config.add_cross_attention = True
    causal: Any = transformers.AutoModelForCausalLM  # its class methods are untyped in transformers
    with seeded(seed), quiet():
        decoder = encoder_of(causal.from_config(config, dtype=torch.float32))
    for name, weight in encoder_of(model).named_parameters():
        module, _, attribute = name.rpartition(".")
        setattr(decoder.get_submodule(module), attribute, weight)
    for name, weight in decoder.named_parameters():
        if ".crossattention.self.query." in name or ".crossattention.self.key." in name:
            weight.requires_grad_(False)
    return decoder


def with_deletions(batch: Batch, share: float, *, prefix: int, suffix: int, generator: np.random.Generator) -> Batch:
    """Return the batch with tokens[KEPT], 0 at deleted tokens, and tokens["labels"], each token but a row's first.

    share           probability that a token of the text is deleted; at least one of each row stays
    prefix, suffix  tokens at a row's ends that are not of the text, and stay
    """
    row_N = np.repeat(np.arange(len(batch)), batch.lengths)
    place_N = np.arange(len(batch.ids)) - batch.offsets[row_N]
    is_text_N = (place_N >= prefix) & (place_N < batch.lengths[row_N] - suffix)
    draws_N = np.where(is_text_N, generator.random(len(batch.ids)), 0.0)
    least_N = np.minimum(share, np.maximum.reduceat(draws_N, batch.offsets[:-1]))[row_N]
    kept_N = ~is_text_N | (draws_N >= least_N)
    labels_N = np.where(place_N > 0, batch.ids, NOT_PREDICTED)
    return replace(batch, tokens={KEPT: kept_N.astype(np.int64), "labels": labels_N})


def adapt(recipe: TsdaeRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Train and write `out/checkpoint`, the encoder; a run that was stopped goes on, one that ended is returned.

    Raises ValueError where the corpus has no text, or the model cannot be loaded, is of a family without a decoder, or
    has a pooling that is not known here.
    """
    if not recipe.model:
        raise ValueError("no model given. Add model=PATH or model=HUB_ID")
    check(recipe, configuration(recipe.model), "")
    read_out = read_out_of(recipe.model)
    corpus = Corpus(recipe.corpus)
    sources = {"corpus": corpus.hash, "model": identity(recipe.model)}
    if checkpoint := finished(out, recipe, sources, extends=recipe.epochs == 0):
        return checkpoint
    model, tokenizer = load_adapted(recipe, watch), load_tokenizer(recipe.model)
    require_room(model, recipe.max_tokens)
    tokens = ranks.first_then_all(lambda: corpus.tokens(tokenizer, watch=watch))
    plan = with_steps(recipe.plan, recipe.epochs, len(segments(tokens, recipe.max_tokens)) - 1)
    # nothing is replaced, so these are the texts themselves
    texts = masked_stream(tokens, batch=plan.batch, longest=recipe.max_tokens, seed=plan.seed, masked=0.0, random=0.0)

    def stream(step: int) -> Batch:
        generator = np.random.default_rng([plan.seed, step, _DELETIONS])
        frame = {"prefix": len(tokens.prefix), "suffix": len(tokens.suffix)}
        return with_deletions(texts(step), recipe.deletion, **frame, generator=generator)

    run(DenoisingLoss(model, read_out, seed=plan.seed), stream, plan, out, stage="adapt", watch=watch)
    checkpoint = write_checkpoint(out, encoder_of(model), tokenizer, recipe, sources)
    finish(out)
    return checkpoint
