"""ALUM: from a checkpoint to a checkpoint, and what its settings refuse."""

import pytest
from transformers import AutoModelForMaskedLM

from acclimate.core.types import Document
from acclimate.methods import adversarial
from acclimate.methods.adversarial import AdversarialLoss
from acclimate.methods.recipes.adversarial import passes
from acclimate.text.corpus import write_corpus
from acclimate.training.checkpoint import read_log
from acclimate.training.objective import MaskedLanguageLoss
from acclimate.training.plan import Plan
from conformance import toy_rows
from families import FAMILIES
from toys import PLAIN, TOPICS


def test_both_terms_are_learnt_from_a_corpus(encoder, tmp_path):
    words = [*PLAIN, *(word for topic in TOPICS.values() for word in topic)]
    texts = (" ".join(words[(7 * number + place) % len(words)] for place in range(12)) for number in range(40))
    corpus = write_corpus((Document(str(number), text) for number, text in enumerate(texts)), tmp_path / "corpus")
    plan = Plan(steps=20, batch=16, rate=1e-2, warmup=0.1)
    recipe = adversarial.AdversarialRecipe(
        model=str(encoder), corpus=corpus.path, max_tokens=16, epochs=0.0, radius=1e-2, step=1.0, weight=1.0, plan=plan
    )
    done = adversarial.adapt(recipe, tmp_path / "run")
    log = read_log(tmp_path / "run")
    assert log[-1]["loss.mlm"] < log[0]["loss.mlm"] - 0.3
    assert log[-1]["loss"] == pytest.approx(log[-1]["loss.mlm"] + log[-1]["loss.adversarial"], rel=1e-4)
    assert AutoModelForMaskedLM.from_pretrained(done.path).config.model_type == "bert"


def test_a_step_costs_two_passes_and_two_thirds_for_each_ascent():
    model, batch = FAMILIES["bert"](), toy_rows(0, 0)
    for ascents in (1, 3):
        found = AdversarialLoss(model, ascents=ascents).flops(batch) / MaskedLanguageLoss(model).flops(batch)
        assert found == pytest.approx(2 + ascents * 2 / 3)
        assert passes(adversarial.AdversarialRecipe(ascents=ascents)) == pytest.approx(found)
