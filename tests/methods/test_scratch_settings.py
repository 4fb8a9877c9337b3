"""What `scratch` can be told beside its defaults: texts, budgets, phases, start, shape, held-out text."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

from acclimate.core import files
from acclimate.core.types import NOT_PREDICTED, Document, unwatched
from acclimate.methods import mlm, scratch
from acclimate.methods.scratch import BatchPlan, CorpusView, open_text
from acclimate.models.loading import load_tokenizer
from acclimate.text.corpus import Corpus, write_corpus
from acclimate.text.segments import segments
from acclimate.text.streams import masked_stream
from acclimate.training.checkpoint import read_log
from acclimate.training.plan import Plan
from toys import text

SIZES = {"corpus": ("heart", 60), "general": ("orbit", 40), "dev": ("heart", 20)}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Corpora of 5 to 120 words a document, by the setting that names them."""
    generator, place = random.Random(0), tmp_path_factory.mktemp("texts")
    for name, (topic, size) in SIZES.items():
        texts = (
            " ".join(text(topic, generator.randint(5, 15), generator) for _ in range(1 + number % 8))
            for number in range(size)
        )
        write_corpus((Document(f"{name} {number}", each) for number, each in enumerate(texts)), place / name)
    return {name: place / name for name in SIZES}


@pytest.fixture(scope="module")
def recipe(places) -> scratch.ScratchRecipe:
    return scratch.ScratchRecipe(
        places["corpus"],
        vocabulary=110,
        layers=1,
        hidden=16,
        heads=2,
        max_tokens=24,
        plan=Plan(steps=6, batch=6, rate=1e-3, warmup=0.0),
    )


@pytest.fixture(scope="module")
def tokenizer(recipe, tmp_path_factory):
    """Of the vocabulary learnt from the domain."""
    place = tmp_path_factory.mktemp("vocabulary")
    corpus = Corpus(recipe.corpus)
    return scratch.learned_tokenizer(corpus, place / "learnt", size=110, lower=True, longest=512, watch=unwatched)


def reading(recipe, tokenizer):
    names = ["corpus", *(["general"] if recipe.general_share or "general" in recipe.general.parts else [])]
    texts = [CorpusView(Corpus(getattr(recipe, name)), name=name) for name in names]
    return BatchPlan(recipe, texts, tokenizer, watch=unwatched)


SHAPELESS = {"layers": None, "hidden": None, "heads": None, "vocabulary": 30_522}  # what a given model states


def test_the_defaults_read_what_masked_stream_reads(recipe, tokenizer):
    batch_plan = reading(recipe, tokenizer)
    plain = masked_stream(Corpus(recipe.corpus).tokens(tokenizer), batch=6, longest=24, seed=0)
    for step in (0, 3, 100):
        np.testing.assert_array_equal(batch_plan.stream(step).ids, plain(step).ids)
        np.testing.assert_array_equal(batch_plan.stream(step).tokens["labels"], plain(step).tokens["labels"])
    assert batch_plan.plan == recipe.plan


def test_short_documents_are_left_out_of_vocabulary_and_rows_and_somebody_is_told(recipe, tmp_path):
    told = []
    wordy = write_corpus([Document("0", "rare rare rare rare"), *Corpus(recipe.corpus).documents()], tmp_path / "texts")
    kept = [len(document.text.split()) >= 30 for document in wordy.documents()]
    done = scratch.adapt(replace(recipe, corpus=wordy.path, least_words=30), tmp_path / "run", watch=told.append)
    notes = [each.values["note"] for each in told if "note" in each.values]
    assert notes[:-1] == [f"corpus: {sum(kept)} of 61 documents have at least 30 words; the others are not used"]
    [kept_of] = (tmp_path / "run" / "documents").glob("corpus-30-*.bin")
    assert kept_of.read_bytes() == bytes(kept)
    assert "rare" not in load_tokenizer(done.path).get_vocab()


def test_a_refused_number_of_words_leaves_out_to_the_one_that_mends_it(recipe, tmp_path):
    with pytest.raises(ValueError, match="Lower it; 0 keeps all"):
        scratch.adapt(replace(recipe, least_words=10_000), tmp_path)
    assert scratch.adapt(replace(recipe, least_words=10), tmp_path).path.is_dir()


def test_what_was_found_in_another_corpus_chooses_no_documents(recipe, tmp_path):
    """A run that was stopped before its first step takes the same directory for a corrected corpus."""
    (tmp_path / "run").mkdir()
    long, short = " ".join(["long"] * 20), "short one"
    first = write_corpus([Document("0", long), Document("1", short)], tmp_path / "first")
    second = write_corpus([Document("0", short), Document("1", long), Document("2", long)], tmp_path / "second")
    for corpus, kept in ((first, ["0"]), (second, ["1", "2"])):
        text = open_text(corpus, tmp_path / "run", 10, name="corpus", watch=unwatched)
        assert [document.id for document in text.documents()] == kept


@pytest.mark.parametrize("share", [None, 0.25])
def test_general_text_is_mixed_in_at_its_share(share, recipe, places, tokenizer):
    batch_plan = reading(replace(recipe, general=places["general"], general_share=share), tokenizer)
    rows = [len(segments(Corpus(places[name]).tokens(tokenizer), 24)) - 1 for name in ("corpus", "general")]
    expected = rows[1] / sum(rows) if share is None else share
    names = [name for step in range(50) for name in batch_plan.stream(step).names]
    assert len(names) == 300
    assert np.mean([name.startswith("general") for name in names]) == pytest.approx(expected, abs=1 / 300)
    assert {name for name in names[:6] if name.startswith("corpus")}
    epoch = BatchPlan(replace(batch_plan.recipe, epochs=1.0), batch_plan.texts, tokenizer, watch=unwatched)
    assert epoch.plan.steps == -(-round(rows[0] / (1 - expected), 9) // 6)


def test_a_vocabulary_is_learned_from_both_texts(recipe, places, tmp_path):
    done = scratch.adapt(replace(recipe, vocabulary=180, general=places["general"]), tmp_path)
    known = load_tokenizer(done.path).get_vocab()
    assert {"artery", "apogee"} <= set(known)
    assert set(files.read_json(done.path / "provenance.json")["sources"]) == {"corpus", "general"}


def test_a_budget_of_tokens_is_spent(recipe, tmp_path):
    told = []
    scratch.adapt(replace(recipe, tokens=6_000, long_tokens=40, long_share=0.25), tmp_path, watch=told.append)
    log = read_log(tmp_path)
    assert sum(line["tokens"] for line in log) == pytest.approx(6_000, rel=0.05)
    [note, _] = [each.values["note"] for each in told if "note" in each.values]
    assert note.startswith(f"75% of {len(log)} steps on rows of ")


def test_the_second_phase_has_longer_rows_in_an_order_of_its_own(recipe, tokenizer):
    stated = replace(recipe, long_tokens=80, long_share=0.25, plan=replace(recipe.plan, steps=100))
    batch_plan = reading(stated, tokenizer)
    longest = [batch_plan.stream(step).lengths.max() for step in (0, 74, 75, 99)]
    assert max(longest[:2]) <= 24 < min(longest[2:])
    rows = [len(segments(Corpus(recipe.corpus).tokens(tokenizer), size)) - 1 for size in (24, 80)]
    names = [name for step in range(75, 75 + rows[1] // 6) for name in batch_plan.stream(step).names]
    assert len({*names}) > 50  # another epoch, from its beginning
    epochs = BatchPlan(replace(stated, epochs=3.0), batch_plan.texts, tokenizer, watch=unwatched)
    seen = epochs.plan.steps * 6 * (0.75 / rows[0] + 0.25 / rows[1])
    assert 3 <= seen < 3 + 6 * (0.75 / rows[0] + 0.25 / rows[1])


def test_masking_rises_over_the_steps(recipe, tokenizer):
    stated = replace(recipe, masking=0.3, masking_schedule="steps", whole_words=False)
    batch_plan = reading(replace(stated, plan=replace(recipe.plan, steps=10, batch=60)), tokenizer)
    shares = [(batch_plan.stream(step).tokens["labels"] != NOT_PREDICTED).mean() for step in range(10)]
    assert all(later - earlier > 0.05 for earlier, later in zip(shares[::2], shares[2::2], strict=False))
    assert all(abs(first - second) < 0.03 for first, second in zip(shares[::2], shares[1::2], strict=True))


def test_looks_at_dev_are_the_held_out_loss(recipe, places, tmp_path):
    told = []
    done = scratch.adapt(replace(recipe, dev=places["dev"], looks=3), tmp_path, watch=told.append)
    curve = files.read_json(tmp_path / "curve.json")
    assert [point["step"] for point in curve] == [0, 2, 4, 6]
    heldout = mlm.heldout_loss(str(done.path), places["dev"], max_tokens=24).loss
    assert curve[-1]["dev"]["mlm"] == pytest.approx(heldout, abs=1e-5)
    assert [each.values["dev mlm"] for each in told if "dev mlm" in each.values] == [
        point["dev"]["mlm"] for point in curve[1:]
    ]


def test_weights_and_vocabulary_may_be_given(recipe, encoder, places, tmp_path):
    shapeless = replace(recipe, **SHAPELESS, dev=places["dev"], looks=1)
    goes_on = replace(shapeless, model=str(encoder), plan=replace(recipe.plan, rate=1e-9))
    done = scratch.adapt(goes_on, tmp_path / "on")
    trained, given = (AutoModelForMaskedLM.from_pretrained(path).state_dict() for path in (done.path, encoder))
    assert all((value - given[name]).abs().max() < 1e-6 for name, value in trained.items())
    assert load_tokenizer(done.path).get_vocab() == load_tokenizer(encoder).get_vocab()
    before = files.read_json(tmp_path / "on" / "curve.json")[0]["dev"]["mlm"]
    assert before == pytest.approx(mlm.heldout_loss(str(encoder), places["dev"], max_tokens=24).loss, abs=1e-5)
    taken = scratch.adapt(replace(recipe, vocabulary=30_522, tokenizer=str(encoder)), tmp_path / "taken")
    assert load_tokenizer(taken.path).get_vocab() == load_tokenizer(encoder).get_vocab()
    assert AutoModel.from_pretrained(taken.path).config.hidden_size == 16
    assert not (tmp_path / "taken" / "vocabulary").exists()


def test_rows_that_the_given_model_cannot_read_are_refused(recipe, encoder, tmp_path):
    shapeless = replace(recipe, **SHAPELESS, model=str(encoder), long_share=0.5)
    with pytest.raises(ValueError, match=r"long_tokens = 512, but .* reads at most 40 tokens"):
        scratch.adapt(shapeless, tmp_path)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_modernbert_with_another_kind_of_vocabulary(kind, recipe, tmp_path):
    size = {"bpe": 300, "unigram": 120}[kind]
    stated = replace(recipe, architecture="modernbert", kind=kind, vocabulary=size, plan=Plan(steps=2, batch=4))
    done = scratch.adapt(stated, tmp_path)
    model, tokenizer = AutoModelForMaskedLM.from_pretrained(done.path), AutoTokenizer.from_pretrained(done.path)
    assert model.config.model_type == "modernbert"
    assert model.config.cls_token_id == tokenizer("a")["input_ids"][0]
    assert model.config.pad_token_id == tokenizer.pad_token_id
    assert model(**tokenizer("the artery", return_tensors="pt")).logits.shape[-1] == len(tokenizer)


@pytest.mark.parametrize("kind", ["wordpiece", "unigram"])
def test_next_sentences_need_a_vocabulary_that_tells_texts_apart(kind, recipe, tmp_path):
    scratch.adapt(replace(recipe, kind=kind, vocabulary=120, next_sentence=True, plan=Plan(steps=2, batch=4)), tmp_path)
    assert {"loss.mlm", "loss.nsp"} <= read_log(tmp_path)[0].keys()
    with pytest.raises(ValueError, match="vocabularies of kind bpe lack"):
        replace(recipe, next_sentence=True, kind="bpe")


def test_adversarial_pretraining_has_its_term(recipe, tmp_path):
    scratch.adapt(replace(recipe, adversarial=10.0, plan=Plan(steps=2, batch=4)), tmp_path)
    assert {"loss.mlm", "loss.adversarial"} <= read_log(tmp_path)[0].keys()


def test_a_run_with_everything_that_was_stopped_goes_on_to_the_same_bytes(recipe, places, tmp_path, monkeypatch):
    monkeypatch.setenv("ACCLIMATE_SAVE_SECONDS", "0")
    stated = replace(
        recipe,
        general=places["general"],
        dev=places["dev"],
        looks=2,
        least_words=10,
        masking_schedule="steps",
        next_sentence=True,
        long_tokens=60,
        long_share=0.5,
    )
    whole = scratch.adapt(stated, tmp_path / "whole").path

    def stopping(progress):
        if (progress.stage, progress.done) == ("pretrain", 4):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scratch.adapt(stated, tmp_path / "stopped", watch=stopping)
    stopped = scratch.adapt(stated, tmp_path / "stopped").path
    for file in ("model.safetensors", "config.json", "tokenizer.json", "recipe.toml"):
        assert (whole / file).read_bytes() == (stopped / file).read_bytes()
    for file in ("log.jsonl", "curve.json"):
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "stopped" / file).read_bytes()
    assert AutoModel.from_pretrained(whole).pooler.dense.weight.isfinite().all()


def test_a_stable_run_that_gets_more_steps_ends_as_one_that_had_them_from_the_start(recipe, tmp_path):
    short, long = (
        replace(recipe, plan=replace(recipe.plan, schedule="stable", decay=0.5, steps=steps)) for steps in (4, 6)
    )
    scratch.adapt(short, tmp_path / "extended")
    extended, whole = scratch.adapt(long, tmp_path / "extended"), scratch.adapt(long, tmp_path / "whole")
    for name in ("model.safetensors", "recipe.toml"):
        assert (extended.path / name).read_bytes() == (whole.path / name).read_bytes()
    looking = replace(short, dev=recipe.corpus)  # looks would stand at other steps
    scratch.adapt(looking, tmp_path / "looked")
    with pytest.raises(ValueError, match=r"Only plan\.steps differs"):
        scratch.adapt(replace(looking, plan=long.plan), tmp_path / "looked")


def test_a_budget_below_one_step_is_refused(recipe, tmp_path):
    with pytest.raises(
        ValueError, match=r"tokens = 5 is less than one step, which reads about \d+ with plan.batch = 6"
    ):
        scratch.adapt(replace(recipe, tokens=5), tmp_path)
