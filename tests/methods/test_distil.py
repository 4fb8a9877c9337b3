"""KD and AdaptedDeiT: the losses against their definition written out, and runs from a checkpoint to a checkpoint."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from acclimate.core.types import NOT_PREDICTED, Batch
from acclimate.methods import distil
from acclimate.methods.distil import DistillationToken, KnowledgeDistillation, with_distillation_token
from acclimate.models.encoder import encoder_of, training_flops, word_embeddings
from acclimate.training.checkpoint import read_log
from acclimate.training.loop import adamw, train
from acclimate.training.objective import MaskedLanguageLoss
from acclimate.training.pieces import pad, together
from acclimate.training.plan import Plan
from conformance import another, toy_rows
from families import FAMILIES

TEXTS = ["unmasked", "masked"]


def piece_of(batch):
    return pad(batch, together(batch.lengths), torch.device("cpu"))


def masked_rows(pad_id: int = 0) -> Batch:
    """Two toy rows whose predicted tokens are hidden behind the mask, which is piece 4."""
    batch = toy_rows(pad_id, 0).take(np.array([0, 1]))
    return replace(batch, ids=np.where(batch.tokens["labels"] != NOT_PREDICTED, 4, batch.ids))


def texts_of(batch: Batch, text: str) -> list[torch.Tensor]:
    """The ids of each row, as the text has them or as they are masked."""
    labels = batch.tokens["labels"]
    ids = np.where(labels != NOT_PREDICTED, labels, batch.ids) if text == "unmasked" else batch.ids
    return [torch.from_numpy(row) for row in np.split(ids, batch.offsets[1:-1])]


def kl(teacher: torch.Tensor, student: torch.Tensor) -> torch.Tensor:
    p, q = torch.exp(teacher) / torch.exp(teacher).sum(), torch.exp(student) / torch.exp(student).sum()
    return sum(p[d] * torch.log(p[d] / q[d]) for d in range(len(p)))


@pytest.mark.parametrize("text", TEXTS)
def test_kd_is_lm_plus_mean_kl_of_each_tokens_features_from_teacher_to_student(text):
    batch, model, teacher = masked_rows(), FAMILIES["bert"](), another("bert")
    objective = KnowledgeDistillation(model, teacher, text=text).eval()
    sums, counts = objective(piece_of(batch)), objective.counts(batch)
    divergences = []
    for ids in texts_of(batch, text):
        of_student, of_teacher = (encoder_of(one)(ids[None]).last_hidden_state[0] for one in (model, teacher))
        divergences += [kl(t, s) for t, s in zip(of_teacher, of_student, strict=True)]
    assert counts["distil"] == len(divergences)
    torch.testing.assert_close(sums["distil"], sum(divergences), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(sums["mlm"], MaskedLanguageLoss(model).eval()(piece_of(batch))["mlm"])
    assert objective.weights == {"mlm": 1.0, "distil": 1.0}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", ["bert", "electra", "deberta-v2", "modernbert"])
def test_the_state_of_the_token_behind_a_row_is_matched_with_the_teachers_mean_of_the_row(name, text):
    model, teacher = FAMILIES[name](), another(name)
    batch = masked_rows(model.config.pad_token_id or 0)
    objective = DistillationToken(model, teacher, text=text, seed=1).eval()
    with torch.no_grad():  # as it may be after training
        objective.token_D.mul_(10.0)
    longer = with_distillation_token(batch)
    sums, counts = objective(piece_of(longer)), objective.counts(longer)
    by_hand = []
    for ids in texts_of(batch, text):
        embedded = torch.cat([word_embeddings(model)[ids], objective.token_D[None]])
        token = encoder_of(model)(inputs_embeds=embedded[None]).last_hidden_state[0, -1]
        by_hand.append(kl(encoder_of(teacher)(ids[None]).last_hidden_state[0].mean(0), token))
    assert counts["distil"] == 2
    torch.testing.assert_close(sums["distil"], sum(by_hand), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [KnowledgeDistillation, DistillationToken])
def test_the_teacher_stays_as_it_was_and_the_optimiser_knows_nothing_of_it(kind):
    mark = with_distillation_token if kind is DistillationToken else lambda batch: batch
    objective, before = kind(FAMILIES["bert"](dropout=0.1), another("bert")), another("bert")
    plan = Plan(steps=3, batch=8, rate=1e-2, precision="float32")
    optimiser = adamw(objective, plan)
    for _ in train(objective, lambda step: mark(toy_rows(0, step)), plan, optimiser):
        pass
    held = {id(weight) for group in optimiser.param_groups for weight in group["params"]}
    for (name, weight), (_, other) in zip(
        objective.teacher.model.named_parameters(), before.named_parameters(), strict=True
    ):
        assert torch.equal(weight, other), name
        assert weight.grad is None
        assert id(weight) not in held


@pytest.mark.parametrize("kind", [KnowledgeDistillation, DistillationToken])
def test_under_bfloat16_the_second_term_is_computed_in_float32(kind):
    batch = with_distillation_token(masked_rows())
    objective = kind(FAMILIES["bert"](), another("bert")).eval()
    exact = objective(piece_of(batch))["distil"]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        narrow = objective(piece_of(batch))["distil"]
    assert narrow.dtype == torch.float32
    torch.testing.assert_close(narrow, exact, rtol=0.05, atol=0)


def test_flops_count_each_pass_and_the_teachers_as_a_third():
    batch, model = masked_rows(), FAMILIES["bert"]()
    predicted = int((batch.tokens["labels"] != NOT_PREDICTED).sum())
    mlm, encoder = (training_flops(model, batch.lengths, predicted=count) for count in (predicted, 0))
    assert KnowledgeDistillation(model, another("bert")).flops(batch) == mlm + encoder + encoder / 3
    assert KnowledgeDistillation(model, another("bert"), text="masked").flops(batch) == mlm + encoder / 3
    longer = with_distillation_token(batch)
    mlm, again = (training_flops(model, longer.lengths, predicted=count) for count in (predicted, 0))
    assert DistillationToken(model, another("bert")).flops(longer) == mlm + again + encoder / 3


@pytest.fixture
def recipe(encoder: Path, topic_texts: Path) -> distil.DistilRecipe:
    plan = Plan(steps=6, batch=8, rate=5e-3, warmup=0.1, piece_tokens=128)
    return distil.DistilRecipe(model=str(encoder), corpus=topic_texts, max_tokens=24, plan=plan)


def test_distilling_holds_the_model_where_language_modelling_alone_takes_it_away(recipe, tmp_path):
    long = replace(recipe, plan=replace(recipe.plan, steps=16))
    last = {}
    for weight in (1e-9, 100.0):
        distil.adapt(replace(long, weight=weight), tmp_path / str(weight))
        last[weight] = np.mean([line["loss.distil"] for line in read_log(tmp_path / str(weight))[-5:]])
    assert last[100.0] < 0.5 * last[1e-9]


def test_a_row_needs_room_for_its_distillation_token_of_which_the_checkpoint_has_nothing(recipe, tmp_path):
    with pytest.raises(
        ValueError, match=r"reads 40 tokens at most, too few for max_tokens = 40 and .* max_tokens to at most 39"
    ):
        distil.adapt(replace(recipe, teacher="deit", max_tokens=40), tmp_path / "run")
    fits = replace(recipe, teacher="deit", max_tokens=39, plan=replace(recipe.plan, steps=1))
    checkpoint = distil.adapt(fits, tmp_path / "run").path
    before, after = (load_file(Path(place) / "model.safetensors") for place in (recipe.model, checkpoint))
    assert {name: value.shape for name, value in after.items()} == {name: value.shape for name, value in before.items()}
