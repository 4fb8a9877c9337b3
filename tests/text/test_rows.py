from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from acclimate.core.types import NOT_PREDICTED, Document
from acclimate.text.corpus import write_corpus
from acclimate.text.rows import RANDOM_NEXT, TYPES, frame_of, masked_pairs
from acclimate.text.streams import even, sampled_rows
from acclimate.text.vocabulary import train_tokenizer

LONGEST = 24
SENTENCES = (
    "Naloxone reverses the hypotension of conscious rats.",
    "It fell by 0.5 mm after 2.25 hours!",
    "Was the decrease reversed (in 3.5 of 10)?",
    "Nothing else was measured that day.",
    "A short one.",
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    texts = [" ".join(SENTENCES[(start + more) % 5] for more in range(1 + start % 4)) for start in range(30)]
    texts += ["naloxone"] * 3
    documents = (Document(str(number), text) for number, text in enumerate(texts))
    return write_corpus(documents, tmp_path_factory.mktemp("pairs") / "corpus")


@pytest.fixture(scope="module")
def tokenizer(corpus):
    return train_tokenizer(corpus, size=160)


@pytest.fixture(scope="module")
def tokens(corpus, tokenizer):
    return corpus.tokens(tokenizer)


def made(tokens, tokenizer, **settings):
    return masked_pairs(tokens, tokenizer, **{"longest": LONGEST, "whole_words": True, **settings})


def taken_apart(batch):
    """Of each row: its ids as they were before masking, by part, and whether it is random."""
    ids = np.where(batch.tokens["labels"] == NOT_PREDICTED, batch.ids, batch.tokens["labels"])
    for row, (begin, end) in enumerate(pairwise(batch.offsets)):
        types = batch.tokens[TYPES][begin:end]
        first, second = ids[begin:end][types == 0], ids[begin:end][types == 1]
        assert (np.diff(types) >= 0).all()
        yield first, second, batch.rows[RANDOM_NEXT][row], batch.names[row]


def within(stretch, document):
    """Where the stretch stands in the document."""
    size = len(stretch)
    return [at for at in range(len(document) - size + 1) if (document[at : at + size] == stretch).all()]


def test_half_of_the_second_stretches_follow_and_the_rest_is_of_another_document(tokens, tokenizer):
    stream = sampled_rows(made(tokens, tokenizer), even(20), seed=0, rate=0.15)
    marks = []
    for step in range(30):
        for first, second, random_next, name in taken_apart(stream(step)):
            assert (first[0], first[-1], second[-1]) == (2, 3, 3)  # [CLS] A [SEP] B [SEP]
            assert len(first) + len(second) <= LONGEST
            numbers = [int(word) for word in name.removeprefix("document ").split(" and ")]
            documents = [tokens.ids[tokens.documents[n] : tokens.documents[n + 1]] for n in numbers]
            assert len(set(numbers)) == 1 + random_next
            if not random_next:
                assert within(np.concatenate([first[1:-1], second[:-1]]), documents[0])
            assert within(first[1:-1], documents[0])
            assert within(second[:-1], documents[-1])
            marks.append(random_next)
    assert np.mean(marks) == pytest.approx(0.5 + 0.5 * 3 / 33, abs=0.06)  # single words have nothing that follows


def test_segments_are_cut_where_sentences_begin_and_not_within_numbers(tokens, tokenizer):
    stream = sampled_rows(made(tokens, tokenizer, longest=60), even(33), seed=0, rate=0.15)
    ends, begins = set(), set()
    for first, second, random_next, name in (row for step in range(20) for row in taken_apart(stream(step))):
        if int(name.split()[1]) % 4 and int(name.split()[1]) < 30:  # of two sentences or more
            ends.add(tokenizer.decode(first[1:-1])[-1])
            begins |= set() if random_next else {tokenizer.decode(second[:3])}
    assert ends == {".", "!", "?"}
    assert begins == {
        tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"][:3]) for text in SENTENCES
    }


def test_neither_length_nor_beginning_of_a_second_stretch_tells_whether_it_follows(tmp_path, tokenizer):
    words = np.random.default_rng(0).choice(["rats", "mm", "the", "of"], (40, 300))
    texts = (" ".join(f"{' '.join(part)}." for part in np.split(row, 50)) for row in words)
    corpus = write_corpus((Document(str(number), text) for number, text in enumerate(texts)), tmp_path / "long")
    stream = sampled_rows(made(corpus.tokens(tokenizer), tokenizer, longest=64), even(200), seed=0, rate=0.15)
    lengths = {0: [], 1: []}
    for step in range(5):
        for _, second, random_next, _ in taken_apart(stream(step)):
            lengths[int(random_next)].append(len(second))
    means = [np.mean(each) for each in lengths.values()]
    spread = np.std(lengths[0]) / np.sqrt(len(lengths[0]))
    assert abs(means[0] - means[1]) < 4 * spread


def test_every_segment_begins_a_row_once_an_epoch(tokens, tokenizer):
    rows = made(tokens, tokenizer)
    batch = sampled_rows(rows, even(len(rows)), seed=4, rate=0.15)(3)
    firsts = sorted(tuple(first[1:4].tolist()) for first, *_ in taken_apart(batch))
    expected = []
    for begin, end in pairwise(rows.segments.boundaries):
        expected.append(tuple(tokens.ids[begin:end].tolist()))
    for first, segment in zip(firsts, sorted(expected), strict=True):
        assert first[0] == segment[0]


def test_whole_words_of_both_stretches_are_masked_and_no_special_token(tokens, tokenizer):
    rows = made(tokens, tokenizer)
    batch = sampled_rows(rows, even(40), seed=0, rate=0.3)(0)
    predicted = batch.tokens["labels"] != NOT_PREDICTED
    assert predicted[batch.tokens[TYPES] == 0].any()
    assert predicted[batch.tokens[TYPES] == 1].any()
    assert not np.isin(batch.tokens["labels"][predicted], list(tokens.special)).any()


def test_documents_that_are_left_out_or_alone_give_no_second_stretch(tokens, tokenizer):
    kept = np.arange(33) % 2 == 0
    stream = sampled_rows(made(tokens, tokenizer, documents=kept), even(40), seed=0, rate=0.15)
    for step in range(5):
        for name in stream(step).names:
            assert all(kept[int(number)] for number in name.removeprefix("document ").split(" and "))
    alone = np.arange(33) == 2
    with pytest.raises(ValueError, match="only one has text"):
        made(tokens, tokenizer, documents=alone)


def test_frame_of_bert(tokenizer):
    frame = frame_of(tokenizer)
    assert (frame.prefix, frame.between, frame.suffix, frame.types) == ((2,), (3,), (3,), (0, 0, 0, 1, 1))


def test_a_tokenizer_without_two_types_is_refused(tokenizers):
    with pytest.raises(ValueError, match="next_sentence=false"):
        frame_of(tokenizers["bytes"])


def test_rows_that_have_no_room_are_refused_and_others_have_their_mean_length(tokens, tokenizer):
    with pytest.raises(ValueError, match="max_tokens to at least 5"):
        made(tokens, tokenizer, longest=4)
    rows = made(replace(tokens), tokenizer)
    expected = [end - begin + 3 for begin, end in pairwise(rows.segments.boundaries)]
    assert rows.mean_tokens == pytest.approx(np.mean(expected))


def test_a_word_as_long_as_a_row_leaves_room_for_another_text(tokenizer, tmp_path):
    documents = [Document(str(number), "naloxone" * 40) for number in range(6)]
    tokens = write_corpus(documents, tmp_path / "corpus").tokens(tokenizer)
    rows = made(tokens, tokenizer)
    batch = sampled_rows(rows, even(4), seed=0, rate=0.15)(0)
    assert batch.lengths.max() <= LONGEST
    assert all(len(first) and len(second) for first, second, *_ in taken_apart(batch))
