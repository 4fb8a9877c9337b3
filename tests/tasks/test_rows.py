import random
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import BertTokenizer, PreTrainedTokenizerFast

from acclimate.core.types import MENTIONS, NOT_PREDICTED, Example
from acclimate.models.loading import EMBEDDED, load_tokenizer
from acclimate.tasks import rows as module
from acclimate.tasks.metrics import METRICS
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.rows import (
    EXAMPLE,
    both_texts,
    encode_rows,
    encoded,
    places_of,
    read_at_places,
    with_labels,
    word_values,
)
from acclimate.tasks.task import Task

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "heart", "moon", "clay"]
LABELS = ("soil", "orbit", "heart")


def read_in_windows(batch) -> int:
    """The number of examples that take more than one row."""
    return int((np.bincount(batch.rows[EXAMPLE]) > 1).sum())


@pytest.fixture(scope="module")
def tokenizer() -> BertTokenizer:
    return BertTokenizer(vocab={word: number for number, word in enumerate(WORDS)})


def examples(*labels) -> list[Example]:
    return [Example(f"row {row}", "heart moon clay", label) for row, label in enumerate(labels)]


def test_texts_and_pairs_become_rows_in_their_order_cut_to_the_longest(tokenizer):
    rows = encode_rows([Example("a", "heart moon clay", ""), Example("b", "clay", "")], tokenizer, 4)
    assert rows.ids.tolist() == [2, 5, 6, 3, 2, 7, 3]
    assert rows.offsets.tolist() == [0, 4, 7]
    assert (rows.names, rows.rows, rows.tokens, rows.pad) == (["a", "b"], {}, {}, 0)
    pair = [Example("a", "heart moon clay", "", pair="clay"), Example("b", "moon", "")]
    rows = encode_rows(pair, tokenizer, 6)
    assert rows.ids.tolist() == [2, 5, 6, 3, 7, 3, 2, 6, 3, 3]
    assert rows.tokens["token_type_ids"].tolist() == [0, 0, 0, 0, 1, 1, 0, 0, 0, 1]


def test_labels_by_kind(tokenizer):
    def of(kind, *labels):
        rows = examples(*labels)
        return with_labels(encode_rows(rows, tokenizer, 8), rows, kind, LABELS).rows["label"]

    one = of("sequence", "heart", "soil")
    assert (one.tolist(), one.dtype) == ([2, 0], np.int64)
    several = of("multilabel", ("heart", "soil"), (), ("orbit",))
    assert several.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert several.dtype == np.float32
    numbers = of("score", 1.5, 1e9 + 0.25)
    assert (numbers.tolist(), numbers.dtype) == ([1.5, 1e9 + 0.25], np.float64)


@pytest.mark.parametrize(
    ("kind", "label", "message"),
    [
        ("sequence", "sky", "row 0: label 'sky' is not among soil, orbit, heart"),
        ("sequence", "", "row 0: label '' is not among"),
        ("sequence", 1.0, "row 0: label 1.0 is not among"),
        ("multilabel", ("heart", "sky"), "row 0: label 'sky' is not among"),
        ("multilabel", "heart", "row 0: label 'heart' is not a tuple of labels"),
        ("score", "3.5", "row 0: label '3.5' is not a number"),
        ("score", ("heart",), "is not a number"),
        ("pairs", "heart", "kind 'pairs' cannot be fine-tuned. These kinds can: sequence, multilabel"),
    ],
)
def test_labels_of_another_kind_are_refused(kind, label, message, tokenizer):
    rows = examples(label)
    with pytest.raises(ValueError, match=message):
        with_labels(encode_rows(rows, tokenizer, 8), rows, kind, LABELS)


PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "il", "-", "2", "##b", "(", ")", "p", "##53"]
NONE = NOT_PREDICTED


@pytest.fixture(scope="module")
def pieces() -> BertTokenizer:
    return BertTokenizer(vocab={word: number for number, word in enumerate(PIECES)})


def tagged(*sentences: tuple[str, tuple[str, ...]]) -> list[Example]:
    return [Example(f"row {row}", text, label) for row, (text, label) in enumerate(sentences)]


def test_a_words_tag_stands_at_its_first_piece(pieces):
    rows = tagged(("IL-2b ( p53 )", ("B", "O", "B", "O")), ("p", ("O",)))
    batch = with_labels(encode_rows(rows, pieces, 16, "tokens"), rows, "tokens", ("B", "O"))
    # [CLS] il - 2 ##b ( p ##53 ) [SEP]   [CLS] p [SEP]
    assert batch.ids.tolist() == [2, 5, 6, 7, 8, 9, 11, 12, 10, 3, 2, 11, 3]
    assert batch.tokens["word"].tolist() == [NONE, 0, NONE, NONE, NONE, 1, 2, NONE, 3, NONE, NONE, 0, NONE]
    assert batch.tokens["tags"].tolist() == [NONE, 0, NONE, NONE, NONE, 1, 0, NONE, 1, NONE, NONE, 1, NONE]
    assert batch.rows["example"].tolist() == [0, 1]
    assert batch.rows["words"].tolist() == [4, 1]
    assert batch.names == ["row 0", "row 1"]
    assert read_in_windows(batch) == 0
    assert [values.tolist() for values in word_values(np.arange(13), batch)] == [[1, 5, 6, 8], [11]]


@pytest.mark.parametrize("max_tokens", [3, 4, 7, 12, 23])
def test_every_word_of_a_long_sentence_stands_in_one_window(pieces, max_tokens):
    generator = random.Random(max_tokens)
    rows = []
    for number in range(20):
        words = generator.choices(["IL-2b", "(", "p53", ")", "p"], k=generator.randint(1, 40))
        rows.append(Example(f"row {number}", " ".join(words), tuple(generator.choices(["B", "I", "O"], k=len(words)))))
    whole = with_labels(encode_rows(rows, pieces, 1000, "tokens"), rows, "tokens", ("B", "I", "O"))
    batch = with_labels(encode_rows(rows, pieces, max_tokens, "tokens"), rows, "tokens", ("B", "I", "O"))
    assert batch.lengths.max() <= max_tokens
    assert read_in_windows(batch) == (whole.lengths > max_tokens).sum()
    for name in ("tags", "word"):
        both = [word_values(each.tokens[name], each) for each in (whole, batch)]
        assert [values.tolist() for values in both[1]] == [values.tolist() for values in both[0]]
        assert np.count_nonzero(batch.tokens[name] != NONE) == sum(len(row.label) for row in rows)
    assert [word_values(batch.ids, batch)[row].tolist() for row in range(20)] == [
        values.tolist() for values in word_values(whole.ids, whole)
    ]


def test_words_in_a_window_have_context_and_one_of_which_nothing_is_left_stays_counted(pieces):
    batch = encode_rows(tagged((" ".join(["p"] * 100), ("O",) * 100)), pieces, 34, "tokens")
    for row in range(len(batch)):
        words = batch.take(np.array([row])).tokens["word"]
        asked = np.flatnonzero(words != NONE)
        assert row == 0 or asked[0] > 8
        assert row == len(batch) - 1 or len(words) - 1 - asked[-1] > 8
    rows = tagged(("p \u200b \u00ad", ("B", "O", "B")), ("\u200b", ("O",)))
    batch = with_labels(encode_rows(rows, pieces, 16, "tokens"), rows, "tokens", ("B", "O"))
    assert batch.ids.tolist() == [2, 11, 3, 2, 3]
    assert [values.tolist() for values in word_values(np.full(5, 7), batch)] == [[7, -1, -1], [-1]]
    assert batch.tokens["tags"].tolist() == [NONE, 0, NONE, NONE, NONE]


def bytes_of_words(*, trim: bool) -> PreTrainedTokenizerFast:
    """As RoBERTa's: bytes of words with the space before them."""
    vocabulary = {
        piece: number for number, piece in enumerate(["<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())])
    }
    tokenizer = Tokenizer(models.BPE(vocab={**vocabulary, "ab": len(vocabulary)}, merges=[("a", "b")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0), trim_offsets=trim)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<s>")


@pytest.mark.parametrize("trim", [True, False])
def test_bytes_with_the_space_before_a_word_belong_to_the_word(trim):
    rows = tagged(("ab \u00e9 ab c", ("B", "O", "B", "O")))
    tokenizer = bytes_of_words(trim=trim)
    batch = encode_rows(rows, tokenizer, 32, "tokens")
    said = [tokenizer.convert_ids_to_tokens(batch.ids.tolist()), batch.tokens["word"].tolist()]
    assert said[0] == ["<s>", "ab", "\u0120", "\u00c3", "\u00a9", "\u0120", "ab", "\u0120", "c", "</s>"]
    assert [word for word in said[1] if word != NONE] == [0, 1, 2, 3]
    assert said[1][1] == 0
    assert batch.ids.tolist() == tokenizer(rows[0].text)["input_ids"]


def test_a_piece_of_two_words_stands_for_the_first():
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a b": 1, "c": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("_", "removed")
    tokenizer.normalizer = normalizers.Replace(" c", "_c")
    tokenizer.decoder = decoders.Fuse()
    batch = encode_rows(
        tagged(("a b c", ("B", "O", "B"))), PreTrainedTokenizerFast(tokenizer_object=tokenizer), 8, "tokens"
    )
    assert batch.ids.tolist() == [1, 2]
    assert batch.tokens["word"].tolist() == [0, 2]


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (("B", "X"), "row 0: label 'X' is not among B, O"),
        (("B",), "row 0: label .* is not a tuple of one tag per word"),
        ("B", "row 0: label 'B' is not a tuple of one tag per word"),
    ],
)
def test_tags_that_are_not_one_a_word_are_refused(pieces, label, message):
    rows = [Example("row 0", "p (", label)]
    with pytest.raises(ValueError, match=message):
        with_labels(encode_rows(rows, pieces, 16, "tokens"), rows, "tokens", ("B", "O"))
    with pytest.raises(ValueError, match="rows of 2 tokens have no room for a word"):
        encode_rows(rows, pieces, 2, "tokens")


def word_tokenizer(words=WORDS, **given):
    return BertTokenizer(vocab={word: number for number, word in enumerate(words)}, **given)


def rows_of(task, split, tokenizer):
    return encoded(task, split, task.examples(split), tokenizer)


@pytest.fixture
def task(tmp_path, monkeypatch) -> Prepared:
    monkeypatch.setattr(module, "_rows", type(module._rows)())

    def read(root, split):
        return [Example(f"{split} a", "heart moon clay", "a"), Example(f"{split} b", "moon", "b")]

    stated = Task("toy", "sequence", read, ("a", "b"), METRICS["accuracy"], 8, source="made up")
    return prepare(stated, tmp_path, tmp_path / "data")


def test_rows_are_those_of_encode_and_made_once_until_they_are_the_oldest_of_many(task):
    first = rows_of(task, "train", word_tokenizer())
    assert np.array_equal(first.ids, encode_rows(task.examples("train"), word_tokenizer(), 8).ids)
    used = word_tokenizer()
    used(["heart"], truncation=True, max_length=3)  # what a tokenizer was last asked for is no part of it
    assert rows_of(task, "train", used) is first
    for longest in range(20, 20 + module.KEPT):
        rows_of(replace(task, max_tokens=longest), "train", word_tokenizer())
    assert len(module._rows) == module.KEPT
    again = rows_of(task, "train", word_tokenizer())
    assert again is not first
    assert np.array_equal(again.ids, first.ids)


def test_whatever_decides_rows_tells_them_apart(task):
    first = rows_of(task, "train", word_tokenizer())
    others = [
        rows_of(task, "dev", word_tokenizer()),
        rows_of(replace(task, max_tokens=4), "train", word_tokenizer()),
        rows_of(task, "train", word_tokenizer([*WORDS[:5], "clay", "moon", "heart"])),
        rows_of(task, "train", word_tokenizer(truncation_side="left")),
        rows_of(replace(task, hashes={**task.hashes, "train": "other"}), "train", word_tokenizer()),
    ]
    assert all(rows is not first for rows in others)
    assert others[1].ids.tolist() == [2, 5, 6, 3, 2, 6, 3]


@pytest.mark.parametrize("longest", [64, 7])
def test_each_text_of_a_pair_has_its_tokens_and_an_empty_one_the_rows_first(longest):
    tokenizer = load_tokenizer(str(EMBEDDED))
    pairs = [("the heart beats", "the moon"), ("the", "a house by the river"), ("the heart", "")]
    examples = [Example(f"{row}", text, "x", pair=pair) for row, (text, pair) in enumerate(pairs)]
    rows = encode_rows(examples, tokenizer, longest, spans=both_texts)
    plain = encode_rows(examples, tokenizer, longest)
    assert rows.ids.tolist() == plain.ids.tolist()
    for row, (text, pair) in enumerate(pairs):
        ids = rows.ids[rows.offsets[row] : rows.offsets[row + 1]]
        first, second = (tokenizer.decode(ids[start:end]) for start, end in rows.rows[MENTIONS][row])
        assert text.startswith(first)
        assert first == text or longest < 64
        assert second
        assert pair.startswith(second) if pair else second == tokenizer.cls_token


def test_a_tokenizer_that_does_not_say_where_pieces_stand_reads_no_places():
    slow = SimpleNamespace(is_fast=False)
    task = SimpleNamespace(two_places="pair")
    assert read_at_places(task, SimpleNamespace(is_fast=True)) == "pair"
    assert read_at_places(task, slow) is None
    assert places_of(task, slow) is None
    with pytest.raises(ValueError, match=r"no fast version.*finetune\.pooling=mean"):
        encode_rows([Example("1", "a text", 1.0, pair="another")], slow, 8, "score", spans=both_texts)
