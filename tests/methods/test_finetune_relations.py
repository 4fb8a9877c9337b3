"""Fine-tuning on relations: mentions are read where the text alone does not say which two are meant."""

import random
from pathlib import Path

import pytest
from transformers import AutoTokenizer

import toys
from acclimate.core.types import Checkpoint, unwatched
from acclimate.methods import finetune
from acclimate.models.classifier import load_finetuned
from acclimate.models.configuration import configuration_of
from acclimate.models.loading import load_tokenizer
from acclimate.reading.formats.annotated import Annotated, Mention
from acclimate.reading.relations import MentionPairs, relation_examples
from acclimate.shipping import check
from acclimate.tasks.mention_marks import marked_spans, mention_spans
from acclimate.tasks.metrics import metric_named
from acclimate.tasks.prepared import prepare
from acclimate.tasks.rows import cut_off, encode_rows
from acclimate.tasks.task import Task
from acclimate.training.plan import Plan
from toys import PLAIN, SIZES, TOPICS

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


def tuned(encoder, task, out, *, steps=60, **settings):
    plan = Plan(steps=steps, batch=16, rate=1e-2, warmup=0.1)
    recipe = toys.papers(str(encoder), task.path, looks=1, epochs=0.0, dropout=0.0, plan=plan, **settings)
    return finetune.evaluate(recipe, out)


def test_the_original_text_does_not_tell_its_pair_to_the_first_token(encoder, task, tmp_path):
    assert tuned(encoder, task("original"), tmp_path).test == pytest.approx(0.5, abs=0.1)


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
    score = tuned(encoder, task(encoding), tmp_path, **settings)
    assert score.test > 0.9
    again = finetune.test(Checkpoint(tmp_path / "checkpoint"), task(encoding), by="again", watch=unwatched)
    assert again["predicted"] == score.predicted


def test_special_tokens_are_kept_whole_by_the_checkpoint_too(encoder, task, tmp_path):
    before = len(load_tokenizer(encoder))
    tuned(encoder, task("markers"), tmp_path, steps=1, special_tokens=MARKERS)
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
    tuned(encoder, of, tmp_path, steps=1, **setting)
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
        tuned(encoder, toy_task("sequence"), tmp_path, pooling="mentions")
