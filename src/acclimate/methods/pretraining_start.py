"""What a run of `scratch` starts from and minimises: the model, the objective, the looks at held-out text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from acclimate.core import ranks
from acclimate.core.types import Progress, Watch
from acclimate.methods import next_sentence
from acclimate.methods.adversarial_loss import AdversarialLoss
from acclimate.methods.loss_curve import LossCurve
from acclimate.methods.mlm import NO_HEAD
from acclimate.models.encoder import (
    dropout_known,
    load_masked_language_model,
    new_encoder,
    require_room,
)
from acclimate.models.loading import head_drawn
from acclimate.text.corpus import Corpus
from acclimate.text.streams import evaluation_batches
from acclimate.training.objective import MaskedLanguageLoss, Objective
from acclimate.training.plan import Plan

if TYPE_CHECKING:
    from acclimate.methods.scratch import Recipe

STAGE = "pretrain"
DEV_SEGMENTS = 512  # of dev, drawn by a seed where there are more


def positions(recipe: Recipe) -> int:
    """How many tokens the encoder can read at once."""
    return max(512, recipe.max_tokens, recipe.long_tokens if recipe.long_share else 0)


def encoder_for(recipe: Recipe, tokenizer: PreTrainedTokenizerBase, *, vocabulary_size: int) -> PreTrainedModel:
    """With random weights, drawn under the plan's seed."""
    return new_encoder(
        **vars(recipe.shape),
        vocabulary_size=vocabulary_size,
        longest=positions(recipe),
        pad=tokenizer.pad_token_id,
        seed=recipe.plan.seed,
        hidden_dropout=recipe.dropout,
        attention_dropout=recipe.attention_dropout,
        initializer_range=recipe.initializer_range,
        architecture=recipe.architecture,
        ends=(tokenizer.cls_token_id, tokenizer.sep_token_id),
    )


def model_of(recipe: Recipe, tokenizer: PreTrainedTokenizerBase, *, watch: Watch) -> PreTrainedModel:
    """What is trained, in place.

    Raises ValueError where a given one cannot be loaded, or reads fewer tokens than a row has.
    """
    if not recipe.model:
        return encoder_for(recipe, tokenizer, vocabulary_size=len(tokenizer))
    dropouts = {"hidden_dropout": recipe.dropout, "attention_dropout": recipe.attention_dropout}
    if not dropout_known(recipe.model):
        watch(Progress(STAGE, 0, 0, "steps", {"note": "a family whose dropout cannot be set: left as it is"}))
        dropouts = {}
    model = load_masked_language_model(recipe.model, **dropouts, seed=recipe.plan.seed)
    if head_drawn(model):
        watch(Progress(STAGE, 0, 0, "steps", {"note": f"{recipe.model} has {NO_HEAD}"}))
    rows = {"max_tokens": recipe.max_tokens} | ({"long_tokens": recipe.long_tokens} if recipe.long_share else {})
    for name, tokens in rows.items():
        require_room(model, tokens, name)
    return model


def objective_of(recipe: Recipe, model: PreTrainedModel, *, watch: Watch) -> Objective:
    """What is minimised. Raises ValueError where the model cannot be trained on pairs of texts."""
    if recipe.adversarial:
        return AdversarialLoss(
            model,
            weight=recipe.adversarial,
            step=recipe.adversarial_step,
            radius=recipe.adversarial_radius,
            reading=recipe.adversarial_reading,
        )
    if not recipe.next_sentence:
        return MaskedLanguageLoss(model)
    next_sentence.require_pairs(model)
    if not recipe.model:
        return next_sentence.NextSentenceLoss(model, next_sentence.new_head(model, seed=recipe.plan.seed))
    head, known = next_sentence.head_of(recipe.model, seed=recipe.plan.seed)
    if not known:
        told = f"{recipe.model} has no head for next sentences: one was drawn"
        watch(Progress(STAGE, 0, 0, "steps", {"note": told}))
    return next_sentence.NextSentenceLoss(model, head)


def curve_of(
    recipe: Recipe, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, plan: Plan, out: Path, *, watch: Watch
) -> LossCurve | None:
    """Masked language modelling of dev, with whole words masked at 15% whatever the recipe masks, so that recipes of
    one vocabulary can be compared; None without dev.
    """
    if recipe.dev == Path():
        return None
    tokens = ranks.first_then_all(lambda: Corpus(recipe.dev).tokens(tokenizer, watch=watch))
    batches = evaluation_batches(tokens, batch=64, longest=recipe.max_tokens, seed=0, segments_at_most=DEV_SEGMENTS)
    return LossCurve(MaskedLanguageLoss(model), batches, plan, recipe.looks, out)
