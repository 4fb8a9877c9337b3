"""Fine-tuning taggers, and on relations, whose mentions are read where the text alone does not say which are meant."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

import toys
from acclimate.core.types import TAGS, Checkpoint, Example, unwatched
from acclimate.methods import finetune
from acclimate.methods.task_loss import (
    TaskLoss,
    convert_tags,
    learnable,
    merged,
    predict,
    restore_labels,
    trained_labels,
)
from acclimate.methods.tuning.head import training_rows
from acclimate.models.classifier import labels_of, load_classifier, load_finetuned
from acclimate.models.configuration import configuration_of
from acclimate.models.encoder import load_masked_language_model, save_model
from acclimate.models.loading import load_tokenizer
from acclimate.models.task_layers import crf_of
from acclimate.reading.formats.annotated import Annotated, Mention
from acclimate.reading.relations import MentionPairs, relation_examples
from acclimate.shipping import check
from acclimate.shipping import check as predicting
from acclimate.shipping.predict import load_predictor
from acclimate.tasks.mention_marks import marked_spans, mention_spans
from acclimate.tasks.metrics import metric_named
from acclimate.tasks.prepared import prepare
from acclimate.tasks.rows import EDGES, EXAMPLE, WORD, cut_off, encode_rows, with_labels
from acclimate.tasks.tags import entities
from acclimate.tasks.task import Task
from acclimate.training.pieces import pad, together
from acclimate.training.plan import Plan
from toys import PLAIN, SIZES, TOPICS

CPU = torch.device("cpu")


def tuned(encoder, task, out, *, steps=40, rate=1e-2, **settings):
    plan = Plan(steps=steps, batch=16, rate=rate, warmup=0.1)
    return finetune.evaluate(
        toys.papers(str(encoder), task.path, looks=1, epochs=0.0, dropout=0.0, plan=plan, **settings), out
    )


def tagger(encoder, task, **settings):
    """With transitions that are not 0."""
    model = load_classifier(encoder, task.labels, seed=1, kind="tokens", **settings)
    torch.manual_seed(1)
    if (crf := crf_of(model)) is not None:
        for weight in crf.parameters():
            torch.nn.init.normal_(weight)
    torch.nn.init.normal_(model.classifier.weight)
    return model


@pytest.mark.parametrize("layer", ["linear", "bilstm-crf"])
def test_the_rate_of_a_head_is_not_that_of_its_crf(layer, encoder):
    """The multiple of its rate is in its weights."""
    model = load_classifier(encoder, ("O", "B-x"), seed=1, kind="tokens", layer=layer)
    objective = TaskLoss(model, head_rate=7.0)
    crf = crf_of(model)
    crf_weights = {id(weight) for weight in crf.parameters()} if crf is not None else set()
    assert len(crf_weights) == (3 if "crf" in layer else 0)
    encoding = {id(weight) for weight in model.base_model.parameters()}
    for name, weight in objective.named_parameters():
        expected = 1.0 if id(weight) in crf_weights | encoding else 7.0
        assert objective.rate_multiple(name) == expected, name


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Mentions of a plain word and one of heart: that the first word belongs to it only the second one shows."""

    def read(path, split):
        generator = random.Random(split)
        examples = []
        for number in range(SIZES[split]):
            words = [(generator.choice(PLAIN), "O") for _ in range(generator.randint(3, 8))]
            at = generator.randint(0, len(words))
            words[at:at] = [(generator.choice(PLAIN), "B-heart"), (generator.choice(TOPICS["heart"]), "I-heart")]
            texts, tags = zip(*words, strict=True)
            examples.append(Example(f"{split}-{number}", " ".join(texts), tags))
        return examples

    task = Task("pairs", "tokens", read, ("O", "B-heart", "I-heart"), metric_named("entity_f1"), 32)
    return prepare(task, Path(), tmp_path_factory.mktemp("pairs") / "data")


@pytest.fixture(scope="module")
def blind(encoder, tmp_path_factory):
    """The encoder without attention between words: what a tag depends on beyond its word, a layer must learn."""
    model = load_masked_language_model(encoder)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "attention.output.dense" in name or "position_embeddings" in name:
                weight.zero_()
    path = tmp_path_factory.mktemp("blind") / "checkpoint"
    save_model(model, load_tokenizer(encoder), path)
    return path


def frozen_encoder(monkeypatch):
    """Fine-tuning trains the head alone."""
    made = finetune.load_classifier

    def load(*arguments, **settings):
        model = made(*arguments, **settings)
        model.base_model.requires_grad_(False)
        return model

    monkeypatch.setattr(finetune, "load_classifier", load)


def test_where_transitions_matter_a_crf_finds_what_a_linear_layer_cannot(blind, pairs, tmp_path, monkeypatch):
    frozen_encoder(monkeypatch)
    scores = {
        layer: tuned(blind, pairs, tmp_path / layer, steps=50, rate=0.1, tag_layer=layer).test
        for layer in ("linear", "bilstm", "crf")
    }
    assert scores["linear"] < 0.1
    assert scores["crf"] > 0.9
    assert scores["bilstm"] > 0.9


def test_the_checkpoint_predicts_what_was_scored_also_for_new_texts(encoder, toy_task, tmp_path):
    task = toy_task("tokens")
    settings = {"tag_layer": "bilstm-crf", "tag_scheme": "BIOUL"}
    score = tuned(encoder, task, tmp_path, steps=60, **settings)
    assert score.test > 0.3
    again = finetune.test(Checkpoint(tmp_path / "checkpoint"), task, by="again", watch=unwatched)
    assert again["predicted"] == score.predicted
    assert {tag[0] for tags in score.predicted for tag in tags} == {"O", "B", "I"}
    assert {tag[0] for tag in labels_of(finetune.load_finetuned(tmp_path / "checkpoint"))} == set("OBILU")
    predictor = load_predictor(tmp_path)
    predictor = replace(predictor, asking=replace(predictor.asking, labels=task.labels))
    made = predictor.predict(task.examples("test"))
    assert tuple(one.label for one in made) == score.predicted
    assert all(0 < found <= 1 for one in made for found in one.of_words)
    assert "tag_layer = bilstm-crf" in predicting.text_obstacle(configuration_of(tmp_path / "checkpoint"), task)


def test_the_loss_of_a_sentence_is_that_of_its_words_whatever_stands_between_and_beside(encoder, toy_task):
    """Pieces that begin no word, special tokens, padding: a row's loss is the CRF's of its words' emissions."""
    task = toy_task("tokens")
    model = tagger(encoder, task, layer="crf")
    objective = TaskLoss(model).eval()
    rows, _ = training_rows(task, load_tokenizer(encoder))
    some = rows.take(np.arange(12))
    whole = objective(pad(some, together(some.lengths), CPU))["task"].item()
    total = 0.0
    for row in range(len(some)):
        one = some.take(np.array([row]))
        words = np.flatnonzero(one.tokens[WORD] != -100)
        with torch.no_grad():
            emissions = model(input_ids=torch.from_numpy(one.ids)[None]).logits[:, words]
            tags = torch.from_numpy(one.tokens[TAGS][words])[None]
            edges = torch.from_numpy(one.rows[EDGES])
            total -= crf_of(model).log_likelihood(emissions, tags, torch.tensor([len(words)]), edges).item()
    assert whole == pytest.approx(total, rel=1e-5)
    assert objective.counts(some)["task"] == (some.tokens[TAGS] != -100).sum()


def test_a_sentence_in_windows_is_decided_as_a_whole(encoder, toy_task):
    """The words' emissions come from their windows; the tags are the best of all sequences of the whole sentence."""
    task, tokenizer = toy_task("tokens"), load_tokenizer(encoder)
    model = tagger(encoder, task, layer="crf")
    examples = [example for example in task.examples("dev") if len(example.text.split()) > 30][:3]
    assert examples
    rows = encode_rows(examples, tokenizer, 16, "tokens")
    assert len(rows) > 2 * len(examples)
    predicted = predict(model, rows, task.labels)
    for number, example in enumerate(examples):
        emissions = torch.zeros(1, len(example.text.split(" ")), len(task.labels))
        for row in np.flatnonzero(rows.rows[EXAMPLE] == number):
            one = rows.take(np.array([row]))
            with torch.no_grad():
                said = model(input_ids=torch.from_numpy(one.ids)[None]).logits[0]
            for place in np.flatnonzero(one.tokens[WORD] != -100):
                emissions[0, one.tokens[WORD][place]] = said[place]
        codes = crf_of(model).most_probable(emissions, torch.tensor([emissions.shape[1]]))[0].tolist()
        assert predicted[number] == tuple(task.labels[code] for code in codes)


def test_sentences_of_one_word_and_words_without_a_piece(encoder, toy_task):
    task, tokenizer = toy_task("tokens"), load_tokenizer(encoder)
    model = tagger(encoder, task, layer="bilstm-crf")
    examples = [
        Example("one", "pulse", ("O",)),
        Example("none", "\u200b", ("O",)),
        Example("two", "pulse \u200b", ("O", "O")),
    ]
    rows = encode_rows(examples, tokenizer, 32, "tokens")
    predicted = predict(model, rows, task.labels)
    assert [len(tags) for tags in predicted] == [1, 1, 2]
    assert predicted[1] == ("O",)
    assert predicted[2][1] == "O"
    assert all(tags[0][0] in "OB" for tags in predicted)
    batch = with_labels(rows, examples, "tokens", task.labels)
    loss = TaskLoss(model)(pad(batch, together(batch.lengths), CPU))["task"]
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(weight.grad).all() for weight in model.parameters() if weight.grad is not None)


def test_the_first_and_the_last_window_have_the_edges(encoder, toy_task):
    rows = encode_rows(toy_task("tokens").examples("train"), load_tokenizer(encoder), 16, "tokens")
    example, last = rows.rows[EXAMPLE], len(rows) - 1
    for row, (begins, ends) in enumerate(rows.rows[EDGES].tolist()):
        assert begins == (row == 0 or example[row - 1] != example[row])
        assert ends == (row == last or example[row + 1] != example[row])
    assert (rows.rows[EDGES].sum(1) == 0).any()


def test_schemes_are_trained_in_and_scored_as_given(toy_task):
    task = toy_task("tokens")
    gold = [example.label for example in task.examples("train")]
    for scheme in ("BIO", "IO", "IOBES", "BIOUL"):
        labels = trained_labels(task, scheme)
        trained = [example.label for example in convert_tags(task.examples("train"), scheme)]
        assert {tag for tags in trained for tag in tags} <= set(labels)
        back = restore_labels(trained, labels, task)
        lost = sum(len(entities(one)) - len(entities(other)) for one, other in zip(gold, back, strict=True))
        assert lost == merged(task, scheme)
        assert (lost == 0) == (scheme != "IO"), "some mentions of one type touch in the toy"
        if scheme != "IO":
            assert back == gold
        assert labels in learnable(task)
    assert trained_labels(task, "given") == task.labels


def test_io_tells_what_it_merges_and_is_scored_in_bio(encoder, toy_task, tmp_path):
    task, notes = toy_task("tokens"), []
    plan = Plan(steps=1, batch=16)
    recipe = toys.papers(str(encoder), task.path, looks=1, epochs=0.0, tag_scheme="IO", plan=plan)
    done = finetune.adapt(recipe, tmp_path, watch=lambda progress: notes.append(progress.values.get("note", "")))
    assert f"in the scheme IO, {merged(task, 'IO'):,} training entities merge with the preceding entity" in notes
    assert finetune.test(done, task, by="again", watch=unwatched)["test"] >= 0
    loaded = predicting.load_shipped(done.path)
    assert labels_of(loaded.model) == ("O", "I-heart", "I-orbit")
    assert "tags are of another scheme" in predicting.text_obstacle(configuration_of(done.path), task)


def test_what_has_no_scheme_or_no_crf_is_refused(encoder, toy_task, tmp_path):
    with pytest.raises(ValueError, match="tag_scheme = 'IO' applies to entity tags"):
        tuned(encoder, toy_task("sequence"), tmp_path / "scheme", tag_scheme="IO")
    with pytest.raises(ValueError, match="Set tag_layer to crf or bilstm-crf"):
        toys.papers(tag_transitions_rate=9.0)


def test_a_checkpoint_for_other_tags_is_refused(encoder, toy_task, pairs, tmp_path):
    tuned(encoder, pairs, tmp_path, steps=1, tag_scheme="IO")
    with pytest.raises(ValueError, match="was fine-tuned for kind 'tokens' with labels"):
        finetune.test(Checkpoint(tmp_path / "checkpoint"), toy_task("tokens"), by="again", watch=unwatched)


def test_elements_that_overlap_are_learnt_and_scored_together(encoder, tmp_path):
    """A word of heart is both, one of soil the first element, one of orbit the second."""
    bears = {"heart": "I-INT+I-PAR", "soil": "I-INT", "orbit": "I-PAR"}

    def read(path, split):
        generator = random.Random(split)
        examples = []
        for number in range(SIZES[split]):
            topics = [generator.choice([*bears, ""]) for _ in range(6)]
            words = [generator.choice(TOPICS[topic] if topic else PLAIN) for topic in topics]
            tags = tuple(bears.get(topic, "O") for topic in topics)
            examples.append(Example(f"{split}-{number}", " ".join(words), tags))
        return examples

    labels, untaught = ("O", "I-INT", "I-PAR", "I-INT+I-PAR", "I-INT+I-OUT"), ("I-INT+I-OUT",)
    task = Task("pico", "tokens", read, labels, metric_named("word_type_macro_f1"), 32, untaught=untaught)
    made = prepare(task, Path(), tmp_path / "data")
    score = tuned(encoder, made, tmp_path / "run", steps=60)
    assert score.test > 0.95
    assert "I-INT+I-PAR" in {tag for tags in score.predicted for tag in tags}
    with pytest.raises(ValueError, match="entities of pico overlap"):
        trained_labels(made, "BIO")


PAIRS = MentionPairs(("word",), ("word",), ("WORD", "WORD"), "WORDS")
MARKERS = PAIRS.special_tokens("markers")


def examples(split, encoding):
    """Two pairs in each sentence: of two words of heart, and of two of orbit."""
    generator = random.Random(split)
    for number in range(SIZES[split]):
        chosen = [(topic, generator.choice(TOPICS[topic])) for topic in ("heart", "orbit") for _ in range(2)]
        generator.shuffle(chosen)
        text, mentions = "", {"heart": [], "orbit": []}
        for topic, word in chosen:
            text += f"{generator.choice(PLAIN)} "
            span = (len(text), len(text) + len(word))
            mentions[topic].append(Mention(f"{topic}{len(mentions[topic])}", "word", (span,)))
            text += f"{word} "
        for topic, two in mentions.items():
            document = Annotated(f"{split}-{number}-{topic}", text, tuple(two), (), "made:1")
            yield from relation_examples([document], PAIRS, labels={}, negative=topic, encoding=encoding)


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    place = tmp_path_factory.mktemp("relations")

    def encoded(encoding, max_tokens=32):
        def read(path, split):
            return list(examples(split, encoding))

        made = Task("toy", "sequence", read, ("heart", "orbit"), metric_named("accuracy"), max_tokens)
        return prepare(made, Path(), place / encoding / str(max_tokens))

    return encoded


def tuned_relations(encoder, task, out, *, steps=60, **settings):
    plan = Plan(steps=steps, batch=16, rate=1e-2, warmup=0.1)
    recipe = toys.papers(str(encoder), task.path, looks=1, epochs=0.0, dropout=0.0, plan=plan, **settings)
    return finetune.evaluate(recipe, out)


def test_the_original_text_does_not_tell_its_pair_to_the_first_token(encoder, task, tmp_path):
    assert tuned_relations(encoder, task("original"), tmp_path).test == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    ("encoding", "settings"),
    [
        ("original", {"pooling": "mentions"}),
        ("original", {"pooling": "mentions-mean", "sequence_layer": "mlp"}),
        pytest.param("original", {"pooling": "mentions", "sequence_layer": "bilstm"}, marks=pytest.mark.slow),
        pytest.param("original", {"pooling": "mentions-mean"}, marks=pytest.mark.slow),
        pytest.param("markers", {"pooling": "mentions"}, marks=pytest.mark.slow),
        ("markers", {"pooling": "starts", "special_tokens": MARKERS}),
    ],
)
def test_mentions_tell_it(encoder, task, tmp_path, encoding, settings):
    score = tuned_relations(encoder, task(encoding), tmp_path, **settings)
    assert score.test > 0.9
    again = finetune.test(Checkpoint(tmp_path / "checkpoint"), task(encoding), by="again", watch=unwatched)
    assert again["predicted"] == score.predicted


def test_special_tokens_are_kept_whole_by_the_checkpoint_too(encoder, task, tmp_path):
    before = len(load_tokenizer(encoder))
    tuned_relations(encoder, task("markers"), tmp_path, steps=1, special_tokens=MARKERS)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "checkpoint")
    assert tokenizer.tokenize("[E1] pulse [/E1]") == ["[E1]", "pulse", "[/E1]"]
    assert load_finetuned(tmp_path / "checkpoint").config.vocab_size == before + len(MARKERS)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"pooling": "mentions"}, "at its two mentions"),
        ({"pooling": "mentions-mean"}, "at its two mentions (finetune.pooling = mentions-mean)"),
        ({"sequence_layer": "bilstm"}, "reads an LSTM"),
        ({"sequence_layer": "mlp"}, "it has a dense layer and tanh before its last layer"),
        ({}, ""),
    ],
)
def test_shipping_knows_which_classifiers_transformers_does_not_load(encoder, task, tmp_path, setting, told):
    of = task("original")
    tuned_relations(encoder, of, tmp_path, steps=1, **setting)
    beyond = check.text_obstacle(configuration_of(tmp_path / "checkpoint"), of)
    assert told in beyond
    assert bool(told) == bool(beyond)


def test_places_are_the_tokens_of_the_mentions(encoder, task):
    tokenizer = load_tokenizer(encoder)
    for encoding, spans in (("original", mention_spans), ("markers", mention_spans), ("markers", marked_spans)):
        train = task(encoding).examples("train")[:20]
        rows = encode_rows(train, tokenizer, 64, spans=spans)
        for row, example in enumerate(train):
            ids = rows.ids[rows.offsets[row] : rows.offsets[row + 1]]
            for (start, end), (first, last) in zip(spans(example), rows.rows["mentions"][row], strict=True):
                expected = tokenizer(example.text[start:end], add_special_tokens=False)["input_ids"]
                assert ids[first:last].tolist() == expected


def test_a_mention_that_is_cut_off_is_the_first_token_and_is_told(encoder, task, tmp_path):
    short = task("original", max_tokens=6)
    rows = encode_rows(short.examples("train"), load_tokenizer(encoder), 6, spans=mention_spans)
    lost = (rows.rows["mentions"][:, :, 0] == 0).any(axis=1)
    assert 0 < lost.sum() == cut_off(rows)
    assert (rows.rows["mentions"][:, :, 1] <= 6).all()
    notes = []
    plan = Plan(steps=1, batch=16)
    recipe = toys.papers(str(encoder), short.path, looks=1, epochs=0.0, pooling="mentions", plan=plan)
    finetune.adapt(recipe, tmp_path, watch=lambda progress: notes.append(progress.values.get("note", "")))
    assert f"in {cut_off(rows):,} of {len(rows):,} training texts a mention comes after the first 6 tokens" in notes


def test_a_task_without_mentions_is_refused(encoder, toy_task, tmp_path):
    with pytest.raises(ValueError, match="0 mentions have positions, but 2 are needed"):
        tuned_relations(encoder, toy_task("sequence"), tmp_path, pooling="mentions")
