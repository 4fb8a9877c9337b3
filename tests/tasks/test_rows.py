from __future__ import annotations

import numpy as np
import pytest
from transformers import BertTokenizer

from acclimate.core.types import Example
from acclimate.tasks.rows import encode, labelled

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "heart", "moon", "clay"]
LABELS = ("soil", "orbit", "heart")


@pytest.fixture(scope="module")
def tokenizer() -> BertTokenizer:
    return BertTokenizer(vocab={word: number for number, word in enumerate(WORDS)})


def examples(*labels) -> list[Example]:
    return [Example(f"row {row}", "heart moon clay", label) for row, label in enumerate(labels)]


def test_texts_become_rows_in_their_order_cut_to_the_longest(tokenizer):
    rows = encode([Example("a", "heart moon clay", ""), Example("b", "clay", "")], tokenizer, 4)
    assert rows.ids.tolist() == [2, 5, 6, 3, 2, 7, 3]
    assert rows.offsets.tolist() == [0, 4, 7]
    assert (rows.names, rows.rows, rows.tokens, rows.pad) == (["a", "b"], {}, {}, 0)


def test_of_a_pair_the_longer_text_is_cut_and_the_second_has_its_own_type(tokenizer):
    pair = [Example("a", "heart moon clay", "", pair="clay"), Example("b", "moon", "")]
    rows = encode(pair, tokenizer, 6)
    assert rows.ids.tolist() == [2, 5, 6, 3, 7, 3, 2, 6, 3, 3]
    assert rows.tokens["token_type_ids"].tolist() == [0, 0, 0, 0, 1, 1, 0, 0, 0, 1]


def test_labels_by_kind(tokenizer):
    def of(kind, *labels):
        rows = examples(*labels)
        return labelled(encode(rows, tokenizer, 8), rows, kind, LABELS).rows["label"]

    one = of("sequence", "heart", "soil")
    assert (one.tolist(), one.dtype) == ([2, 0], np.int64)
    several = of("multilabel", ("heart", "soil"), (), ("orbit",))
    assert several.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert several.dtype == np.float32
    numbers = of("score", 1.5, 1e9 + 0.25)
    assert (numbers.tolist(), numbers.dtype) == ([1.5, 1e9 + 0.25], np.float64)


def test_what_goes_with_rows_is_taken_with_them(tokenizer):
    rows = examples(("heart",), (), ("orbit", "soil"))
    batch = labelled(encode(rows, tokenizer, 8), rows, "multilabel", LABELS).take(np.array([2, 0]))
    assert batch.rows["label"].tolist() == [[1, 1, 0], [0, 0, 1]]


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
        ("tokens", ("O", "O"), "kind 'tokens' cannot be fine-tuned; these can: sequence, multilabel, score"),
    ],
)
def test_labels_of_another_kind_are_refused(kind, label, message, tokenizer):
    rows = examples(label)
    with pytest.raises(ValueError, match=message):
        labelled(encode(rows, tokenizer, 8), rows, kind, LABELS)
