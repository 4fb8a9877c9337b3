"""Words added to a model's vocabulary: where they begin, what is told, and that masked language modelling goes on."""

import json
import random
from collections import Counter
from dataclasses import replace

import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer, BertTokenizer

from acclimate.core.types import Document
from acclimate.methods import extend, mlm
from acclimate.models.encoder import encoder_of, load_masked_language_model, new_encoder, save_model
from acclimate.models.loading import EMBEDDED, head_drawn, load_tokenizer
from acclimate.text.corpus import Corpus, write_corpus
from acclimate.text.vectors.skipgram import Skipgram
from acclimate.text.vectors.vectors import open_vectors
from acclimate.training.plan import Plan
from toys import PLAIN, TOPICS, text

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """`model`, with plain words whole and others broken, `headless`, the same without its head, and `corpus`."""
    place = tmp_path_factory.mktemp("extend")
    letters = "abcdefghijklmnopqrstuvwxyz"
    entries = dict.fromkeys([*SPECIAL, ".", *letters, *(f"##{letter}" for letter in letters), "card", *PLAIN])
    tokenizer = BertTokenizer(vocab={entry: number for number, entry in enumerate(entries)})
    shape = {"layers": 1, "hidden": 8, "heads": 2, "longest": 64, "pad": 0, "seed": 0}
    model = new_encoder(vocabulary_size=len(tokenizer), initializer_range=0.3, **shape)
    save_model(model, tokenizer, place / "model")
    save_model(encoder_of(model), tokenizer, place / "headless")
    generator = random.Random(0)
    write_corpus(
        (Document(str(row), text("heart", generator.randint(5, 30), generator)) for row in range(120)), place / "corpus"
    )
    return place


@pytest.fixture(scope="module")
def recipe(place):
    return extend.ExtendRecipe(model=str(place / "model"), corpus=place / "corpus", words=3)


@pytest.fixture(scope="module")
def extended(recipe, place):
    notes = []
    done = extend.adapt(recipe, place / "out", watch=lambda told: notes.append(told.values.get("note", "")))
    return done.path, json.loads((place / "out" / extend.WORDS).read_text()), notes


def hidden(path, written):
    """States of a text under the checkpoint, with transformers alone."""
    tokenizer, model = AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).eval()
    with torch.no_grad():
        return model(**tokenizer(written, return_tensors="pt")).last_hidden_state


def test_words_that_save_most_are_real_entries_of_the_checkpoint(extended, recipe):
    path, report, notes = extended
    old, tokenizer = load_tokenizer(recipe.model), AutoTokenizer.from_pretrained(path)
    written = Counter(" ".join(document.text for document in Corpus(recipe.corpus).documents()).rstrip(".").split())
    saved = {word: written[word] * (len(old.tokenize(word)) - 1) for word in TOPICS["heart"]}
    # some stand before a full stop, which the naive count takes for another word
    assert [word["text"] for word in report["words"]] == sorted(saved, key=lambda word: -saved[word])[:3]
    for word in report["words"]:
        assert tokenizer.tokenize(f"the {word['text']}.") == ["the", word["text"], "."]
        assert word["pieces"] == old.tokenize(word["text"])
    before, after = report["before"], report["after"]
    assert before["words"] == after["words"]
    less = sum(word["count"] * (len(word["pieces"]) - 1) for word in report["words"])
    assert before["pieces"] - after["pieces"] == less
    assert f"{before['a_word']:.2f} pieces per word, and {after['a_word']:.2f} with 3 new words" in notes[-1]


def test_a_new_word_begins_as_the_mean_of_its_pieces_and_other_texts_stay_as_they_were(extended, recipe):
    path, report, _ = extended
    was, now = (
        AutoModelForMaskedLM.from_pretrained(each).get_input_embeddings().weight for each in (recipe.model, path)
    )
    old = load_tokenizer(recipe.model)
    assert torch.equal(now[: len(old)], was)
    for word in report["words"]:
        ids = old.convert_tokens_to_ids(word["pieces"])
        torch.testing.assert_close(now[word["id"]], was[ids].mean(0))
    plain = " ".join(PLAIN)
    assert torch.equal(hidden(path, plain), hidden(recipe.model, plain))
    assert hidden(path, report["words"][0]["text"]).shape[1] == 3


def test_equal_runs_give_equal_bytes_and_an_ended_run_is_returned(extended, recipe, tmp_path, monkeypatch):
    path, _, _ = extended
    again = extend.adapt(recipe, tmp_path / "again").path
    for file in path.iterdir():
        assert file.read_bytes() == (again / file.name).read_bytes(), file.name
    monkeypatch.setattr(extend.new_words, "count_parts", None)
    assert extend.adapt(recipe, tmp_path / "again").path == again


def test_masked_language_modelling_goes_on_and_learns_the_new_words(recipe, place, tmp_path):
    """The loss of a trained encoder on the corpus falls within a few steps."""
    (tmp_path / "terms.txt").write_text("aorta\n")
    begun = extend.adapt(replace(recipe, model=EMBEDDED, word_list=tmp_path / "terms.txt"), tmp_path / "begun").path
    assert "aorta" not in load_tokenizer(EMBEDDED).get_vocab()
    assert load_tokenizer(begun).tokenize("the aorta") == ["the", "aorta"]
    stated = {"corpus": place / "corpus", "max_tokens": 32, "epochs": 0.0, "plan": Plan(steps=4, batch=16, rate=3e-4)}
    done = mlm.adapt(mlm.MlmRecipe(model=str(begun), **stated), tmp_path / "done")
    new = len(load_tokenizer(EMBEDDED))
    was, now = (load_masked_language_model(each).get_input_embeddings().weight[new] for each in (begun, done.path))
    assert not torch.equal(was, now)
    asked = {"corpus": place / "corpus", "max_tokens": 32, "most": 24}
    before, after = (mlm.heldout_loss(str(each), **asked).loss for each in (begun, done.path))
    assert after < before - 0.3


def test_checkpoint_without_a_head_stays_without_one(recipe, place, tmp_path):
    done = extend.adapt(replace(recipe, model=str(place / "headless")), tmp_path)
    assert head_drawn(load_masked_language_model(done.path))
    assert json.loads((done.path / "config.json").read_text())["architectures"] == ["BertModel"]


def test_words_of_a_list_are_added_and_where_it_lies_does_not_matter(recipe, tmp_path):
    results = []
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "terms.txt").write_text("humerus\nthe aorta\n\n")
        stated = replace(recipe, word_list=tmp_path / folder / "terms.txt")
        results.append(extend.adapt(stated, tmp_path / f"out {folder}").path)
    assert load_tokenizer(results[0]).tokenize("the humerus aorta pulse")[:3] == ["the", "humerus", "aorta"]
    assert [file.read_bytes() for file in sorted(results[0].iterdir())] == [
        file.read_bytes() for file in sorted(results[1].iterdir())
    ]


def test_new_words_begin_at_their_vectors_in_the_models_space(recipe, place, tmp_path):
    """Against the least squares over the words that are whole in both, transcribed."""
    skipgram = Skipgram(lower=True, threads=1, dim=4, epochs=2, min_count=1, buckets=100)
    stated = replace(recipe, start="vectors", skipgram=skipgram)
    done = extend.adapt(stated, tmp_path / "out")
    vectors = open_vectors(tmp_path / "out" / "vectors" / "vectors.bin")
    report = json.loads((tmp_path / "out" / extend.WORDS).read_text())
    old, model = load_tokenizer(recipe.model), load_masked_language_model(recipe.model)
    entries = old.get_vocab()
    # "card" is an entry, but no word of the texts, and "a", like other letters, is none
    shared = sorted((entries[word], word) for word in PLAIN if len(word) > 1)
    assert report["shared_words"] == len(shared)
    inputs = torch.from_numpy(vectors.look_up([word for _, word in shared])[0]).double()
    inputs = torch.hstack([inputs, torch.ones(len(inputs), 1)])
    embedded = model.get_input_embeddings().weight.detach()
    way = torch.linalg.lstsq(inputs, embedded[[number for number, _ in shared]].double()).solution
    texts = [word["text"] for word in report["words"]]
    assert report["mostly_unseen"] == vectors.mostly_unseen(texts).sum()
    asked = torch.from_numpy(vectors.look_up(texts)[0]).double()
    expected = (torch.hstack([asked, torch.ones(len(asked), 1)]) @ way).float()
    found = load_masked_language_model(done.path).get_input_embeddings().weight[report["words"][0]["id"] :]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    given = replace(stated, vectors=str(tmp_path / "out" / "vectors" / "vectors.bin"))
    again = extend.adapt(given, tmp_path / "given")
    assert (again.path / "model.safetensors").read_bytes() == (done.path / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": ""}, "no model given"),
        ({"least": 10_000}, "no word of the corpus that occurs 10000 times"),
        ({"start": "vectors", "skipgram": Skipgram(lower=True, threads=1, dim=32, buckets=100)}, "Vectors"),
    ],
)
def test_what_cannot_be_done_is_said(recipe, tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        extend.adapt(replace(recipe, **changes), tmp_path / "out")


def test_list_without_a_new_word_is_an_error(recipe, tmp_path):
    (tmp_path / "terms.txt").write_text("the\nsmall\n")
    with pytest.raises(ValueError, match=r"terms.txt contains only words that the model's vocabulary already"):
        extend.adapt(replace(recipe, word_list=tmp_path / "terms.txt"), tmp_path / "out")
